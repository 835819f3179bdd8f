/* template_eval.c: expressions to values. */
#include "engine/text/template_render.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MAX_REPEAT (1 << 24) /* 'x' * n: bytes or items */

/* ---- names ---- */

static bool
name_find(Render *render, const String *name, Value *out)
{
	const FunctionInfo *global;

	for (const Scope *scope = render->scope; scope != NULL; scope = scope->outer)
		for (const Variable *v = scope->variables; v != NULL; v = v->next)
			if (strings_equal(v->name, name))
			{
				*out = v->value;
				return true;
			}
	global = global_find(name);
	if (global != NULL)
		return method_make(render, global, value_none(), out);
	*out = value_undefined(name);
	return true;
}

/* ---- attributes and items ---- */

bool
value_attribute(Render *render, Value object, const String *name, Value *out)
{
	const FunctionInfo *method = method_find(object, name);
	const Value *found = NULL;

	if (object.kind == VALUE_UNDEFINED)
		return render_fail(render, "'%.*s' is undefined",
						   object.as.string != NULL ? (int) object.as.string->n_bytes : 5,
						   object.as.string != NULL ? object.as.string->bytes : "value");
	if (method != NULL)
		return method_make(render, method, object, out);
	if (object.kind == VALUE_LOOP)
		return loop_attribute(render, object.as.loop, name, out);
	if (object.kind == VALUE_DICT || object.kind == VALUE_NAMESPACE)
		found = dict_find_text(render, object.as.dict, name->bytes, name->n_bytes);
	*out = found != NULL ? *found : value_undefined(name);
	return true;
}

/* An index from the front or, if negative, from the back; false: outside. */
static bool
index_resolve(int64_t index, size_t n, size_t *out)
{
	if (index < 0)
		index += (int64_t) n;
	if (index < 0 || (uint64_t) index >= n)
		return false;
	*out = (size_t) index;
	return true;
}

static bool
string_item(Render *render, const String *string, int64_t index, Value *out)
{
	size_t at;
	const String *character;

	*out = value_undefined(NULL);
	if (!render_step(render, string->n_bytes / 32))
		return false;
	if (!index_resolve(index, string_length(string), &at))
		return true;
	character =
		string_slice(render, string, string_offset(string, at), string_offset(string, at + 1));
	*out = value_string(character);
	return character != NULL;
}

bool
value_item(Render *render, Value object, Value key, Value *out)
{
	const Value *found;
	size_t at;

	*out = value_undefined(key.kind == VALUE_STRING ? key.as.string : NULL);
	switch (object.kind)
	{
		case VALUE_UNDEFINED:
			return value_attribute(render, object, object.as.string, out);
		case VALUE_DICT:
		case VALUE_NAMESPACE:
			found = dict_find(render, object.as.dict, key);
			if (found != NULL)
				*out = *found;
			else if (key.kind == VALUE_STRING)
				return value_attribute(render, object, key.as.string, out);
			return true;
		case VALUE_LIST:
		case VALUE_TUPLE:
			if (key.kind == VALUE_INT &&
				index_resolve(key.as.integer, object.as.list->n_items, &at))
				*out = object.as.list->items[at];
			return true;
		case VALUE_RANGE:
			if (key.kind == VALUE_INT &&
				index_resolve(key.as.integer, (size_t) object.as.range->n, &at))
				*out = value_int(object.as.range->start + (int64_t) at * object.as.range->step);
			return true;
		case VALUE_STRING:
			if (key.kind == VALUE_INT)
				return string_item(render, object.as.string, key.as.integer, out);
			break;
		default:
			break;
	}
	return key.kind != VALUE_STRING || value_attribute(render, object, key.as.string, out);
}

/* ---- slices ---- */

static bool
slice_part(Render *render, const Node *node, bool *given, int64_t *out)
{
	Value value;

	*given = false;
	if (node == NULL)
		return true;
	if (!evaluate(render, node, &value))
		return false;
	if (value.kind == VALUE_NONE)
		return true;
	if (value.kind != VALUE_INT)
		return render_fail(render, "a slice's bounds must be integers, not %s",
						   value_kind_name(value));
	*given = true;
	*out = value.as.integer;
	return true;
}

static int64_t
slice_clamp(int64_t index, int64_t n, int64_t low, int64_t high)
{
	if (index < 0)
		index += n;
	return index < low ? low : index > high ? high : index;
}

/* The indexes of a slice, as Python's slice.indices gives them. */
static bool
slice_read(Render *render, const Node *node, int64_t n, int64_t *start, int64_t *stop,
		   int64_t *step)
{
	bool has_start;
	bool has_stop;
	bool has_step;
	bool back;

	if (!slice_part(render, node->list.nodes[0], &has_start, start) ||
		!slice_part(render, node->list.nodes[1], &has_stop, stop) ||
		!slice_part(render, node->list.nodes[2], &has_step, step))
		return false;
	if (!has_step)
		*step = 1;
	if (*step == 0 || *step == INT64_MIN)
		return render_fail(render, "a slice's step is %" PRId64, *step);
	back = *step < 0;
	*start = has_start ? slice_clamp(*start, n, back ? -1 : 0, back ? n - 1 : n) : back ? n - 1 : 0;
	*stop = has_stop ? slice_clamp(*stop, n, back ? -1 : 0, back ? n - 1 : n) : back ? -1 : n;
	return true;
}

static bool
string_cut(Render *render, const Node *node, const String *string, Value *out)
{
	int64_t start;
	int64_t stop;
	int64_t step;
	Builder builder;

	if (!slice_read(render, node, (int64_t) string_length(string), &start, &stop, &step))
		return false;
	if (step == 1)
	{
		size_t from = string_offset(string, (size_t) start);
		size_t to = stop > start ? string_offset(string, (size_t) stop) : from;

		return string_out(render, string_slice(render, string, from, to), out);
	}
	builder_init(&builder, render);
	for (; step > 0 ? start < stop : start > stop; start += step)
	{
		size_t at = string_offset(string, (size_t) start);

		if (!render_step(render, 1 + at / 64) ||
			!builder_add(&builder, string, at, string_offset(string, (size_t) start + 1)))
			return false;
	}
	return string_out(render, builder_end(&builder), out);
}

static bool
slice_evaluate(Render *render, const Node *node, Value *out)
{
	Value object;
	const List *items;
	List *cut;
	int64_t start;
	int64_t stop;
	int64_t step;

	if (!evaluate(render, node->a, &object))
		return false;
	if (object.kind == VALUE_STRING)
		return string_cut(render, node, object.as.string, out);
	if (object.kind == VALUE_UNDEFINED)
		return value_attribute(render, object, object.as.string, out);
	if (object.kind != VALUE_LIST && object.kind != VALUE_TUPLE && object.kind != VALUE_RANGE)
		return render_fail(render, "%s cannot be sliced", value_kind_name(object));
	if (!value_iterate(render, object, &items) ||
		!slice_read(render, node, (int64_t) items->n_items, &start, &stop, &step))
		return false;
	cut = list_make(render, 0);
	for (; cut != NULL && (step > 0 ? start < stop : start > stop); start += step)
		if (!list_add(render, cut, items->items[start]))
			return false;
	*out = value_list(cut);
	out->kind = object.kind == VALUE_TUPLE ? VALUE_TUPLE : VALUE_LIST;
	return cut != NULL;
}

/* ---- arithmetic ---- */

static bool
fail_operands(Render *render, const char *what, Value a, Value b)
{
	if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED)
		return value_attribute(render, a.kind == VALUE_UNDEFINED ? a : b, NULL, &a);
	return render_fail(render, "%s cannot be %s with %s", value_kind_name(a), what,
					   value_kind_name(b));
}

static bool
lists_join(Render *render, Value a, Value b, Value *out)
{
	List *joined = list_make(render, a.as.list->n_items + b.as.list->n_items);

	for (size_t i = 0; joined != NULL && i < a.as.list->n_items; i++)
		if (!list_add(render, joined, a.as.list->items[i]))
			return false;
	for (size_t i = 0; joined != NULL && i < b.as.list->n_items; i++)
		if (!list_add(render, joined, b.as.list->items[i]))
			return false;
	*out = a;
	out->as.list = joined;
	return joined != NULL;
}

static bool
strings_join(Render *render, const String *a, const String *b, Value *out)
{
	Builder builder;

	builder_init(&builder, render);
	if (!builder_add_string(&builder, a) || !builder_add_string(&builder, b))
		return false;
	return string_out(render, builder_end(&builder), out);
}

static bool
repeat(Render *render, Value value, int64_t times, Value *out)
{
	Builder builder;
	List *list;

	if (times < 0)
		times = 0;
	if (times > MAX_REPEAT)
		return render_fail_limit(render, "something is repeated too often");
	if (value.kind == VALUE_STRING)
	{
		builder_init(&builder, render);
		for (int64_t i = 0; i < times && value.as.string->n_bytes > 0; i++)
			if (!builder_add_string(&builder, value.as.string) || !render_step(render, 1))
				return false;
		return string_out(render, builder_end(&builder), out);
	}
	list = list_make(render, 0);
	for (int64_t i = 0; list != NULL && i < times; i++)
		for (size_t k = 0; k < value.as.list->n_items; k++)
			if (!list_add(render, list, value.as.list->items[k]))
				return false;
	*out = value;
	out->as.list = list;
	return list != NULL;
}

static int64_t
integer_of(Value value)
{
	return value.kind == VALUE_BOOL ? value.as.truth : value.as.integer;
}

static bool
power_compute(Render *render, int64_t base, int64_t exponent, Value *out)
{
	int64_t product = 1;

	for (; exponent > 0; exponent--)
		if (__builtin_mul_overflow(product, base, &product) || !render_step(render, 1))
			return render_fail(render, "a number became too large");
	*out = value_int(product);
	return true;
}

/* Rounds towards minus infinity, as Python does. */
static int64_t
floor_divide(int64_t a, int64_t b)
{
	int64_t quotient = a / b;

	return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static bool
integers_compute(Render *render, Operator op, int64_t a, int64_t b, Value *out)
{
	int64_t result = 0;
	bool overflow = false;

	switch (op)
	{
		case OP_ADD:
			overflow = __builtin_add_overflow(a, b, &result);
			break;
		case OP_SUBTRACT:
			overflow = __builtin_sub_overflow(a, b, &result);
			break;
		case OP_MULTIPLY:
			overflow = __builtin_mul_overflow(a, b, &result);
			break;
		case OP_POWER:
			if (b < 0)
			{
				*out = value_real(pow((double) a, (double) b));
				return true;
			}
			return power_compute(render, a, b, out);
		default:
			if (b == 0)
				return render_fail(render, "division by zero");
			overflow = a == INT64_MIN && b == -1;
			if (op == OP_DIVIDE)
			{
				*out = value_real((double) a / (double) b);
				return true;
			}
			if (!overflow)
				result = op == OP_MODULO ? a - floor_divide(a, b) * b : floor_divide(a, b);
	}
	*out = value_int(result);
	return !overflow || render_fail(render, "a number became too large");
}

static bool
reals_compute(Render *render, Operator op, double a, double b, Value *out)
{
	if ((op == OP_DIVIDE || op == OP_FLOOR_DIVIDE || op == OP_MODULO) && b == 0)
		return render_fail(render, "division by zero");
	switch (op)
	{
		case OP_ADD:
			*out = value_real(a + b);
			break;
		case OP_SUBTRACT:
			*out = value_real(a - b);
			break;
		case OP_MULTIPLY:
			*out = value_real(a * b);
			break;
		case OP_DIVIDE:
			*out = value_real(a / b);
			break;
		case OP_FLOOR_DIVIDE:
			*out = value_real(floor(a / b));
			break;
		case OP_POWER:
			*out = value_real(pow(a, b));
			break;
		default:
			*out = value_real(a - floor(a / b) * b);
	}
	return true;
}

static bool
is_list(Value value)
{
	return value.kind == VALUE_LIST || value.kind == VALUE_TUPLE;
}

static bool
percent_format(Render *render, const String *format, Value value, Value *out)
{
	if (value.kind == VALUE_TUPLE)
		return string_format(render, format, value.as.list->items, value.as.list->n_items, out);
	return string_format(render, format, &value, 1, out);
}

static bool
concat(Render *render, Value a, Value b, Value *out)
{
	const String *x = value_print(render, a);
	const String *y = value_print(render, b);

	return x != NULL && y != NULL && strings_join(render, x, y, out);
}

static bool
binary_compute(Render *render, Operator op, Value a, Value b, Value *out)
{
	if (op == OP_CONCAT)
		return concat(render, a, b, out);
	if (op == OP_ADD && a.kind == VALUE_STRING && b.kind == VALUE_STRING)
		return strings_join(render, a.as.string, b.as.string, out);
	if (op == OP_ADD && is_list(a) && a.kind == b.kind)
		return lists_join(render, a, b, out);
	if (op == OP_MULTIPLY && (a.kind == VALUE_STRING || is_list(a)) && b.kind == VALUE_INT)
		return repeat(render, a, b.as.integer, out);
	if (op == OP_MULTIPLY && (b.kind == VALUE_STRING || is_list(b)) && a.kind == VALUE_INT)
		return repeat(render, b, a.as.integer, out);
	if (op == OP_MODULO && a.kind == VALUE_STRING)
		return percent_format(render, a.as.string, b, out);
	if (!value_is_number(a) || !value_is_number(b))
		return fail_operands(render, "computed", a, b);
	if (a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT)
		return reals_compute(render, op, value_number(a), value_number(b), out);
	return integers_compute(render, op, integer_of(a), integer_of(b), out);
}

/* ---- comparisons ---- */

bool
value_contains(Render *render, Value container, Value item, bool *out)
{
	const List *items;

	*out = false;
	if (container.kind == VALUE_STRING)
	{
		if (item.kind != VALUE_STRING)
			return fail_operands(render, "looked for in a string", item, container);
		*out = memmem(container.as.string->bytes, container.as.string->n_bytes,
					  item.as.string->bytes, item.as.string->n_bytes) != NULL;
		return render_step(render, container.as.string->n_bytes / 64);
	}
	if (container.kind == VALUE_DICT)
	{
		*out = dict_find(render, container.as.dict, item) != NULL;
		return true;
	}
	if (!value_iterate(render, container, &items) || !render_step(render, items->n_items / 8))
		return false;
	for (size_t i = 0; i < items->n_items && !*out; i++)
		*out = value_equal(render, items->items[i], item);
	return true;
}

static bool
compare(Render *render, Operator op, Value a, Value b, bool *out)
{
	int order = 0;

	switch (op)
	{
		case OP_EQUAL:
			*out = value_equal(render, a, b);
			return true;
		case OP_NOT_EQUAL:
			*out = !value_equal(render, a, b);
			return true;
		case OP_IN:
			return value_contains(render, b, a, out);
		case OP_NOT_IN:
			if (!value_contains(render, b, a, out))
				return false;
			*out = !*out;
			return true;
		default:
			break;
	}
	if (!value_compare(render, a, b, &order))
		return fail_operands(render, "compared", a, b);
	*out = op == OP_LESS		 ? order < 0
		   : op == OP_LESS_EQUAL ? order <= 0
		   : op == OP_GREATER	 ? order > 0
								 : order >= 0;
	return true;
}

static bool
compare_evaluate(Render *render, const Node *node, Value *out)
{
	Value left;
	bool holds = true;

	if (!evaluate(render, node->a, &left))
		return false;
	for (size_t i = 0; i < node->list.n_nodes && holds; i++)
	{
		Value right;

		if (!evaluate(render, node->list.nodes[i], &right) ||
			!compare(render, node->operators[i], left, right, &holds))
			return false;
		left = right;
	}
	*out = value_bool(holds);
	return true;
}

/* ---- calls ---- */

bool
arguments_evaluate(Render *render, const Node *node, Arguments *out)
{
	memset(out, 0, sizeof(*out));
	out->values = render_alloc(render, (node->list.n_nodes + 1) * sizeof(Value));
	out->named = render_alloc(render, (node->pairs.n_pairs + 1) * sizeof(Value));
	out->names = render_alloc(render, (node->pairs.n_pairs + 1) * sizeof(*out->names));
	if (out->values == NULL || out->named == NULL || out->names == NULL)
		return false;
	for (; out->n_values < node->list.n_nodes; out->n_values++)
		if (!evaluate(render, node->list.nodes[out->n_values], &out->values[out->n_values]))
			return false;
	for (; out->n_named < node->pairs.n_pairs; out->n_named++)
	{
		out->names[out->n_named] = &node->pairs.pairs[out->n_named].key->text;
		if (!evaluate(render, node->pairs.pairs[out->n_named].value, &out->named[out->n_named]))
			return false;
	}
	return true;
}

bool
value_call(Render *render, Value callee, const Arguments *arguments, Value *out)
{
	switch (callee.kind)
	{
		case VALUE_FUNCTION:
			return callee.as.function->run(render, callee.as.function->self, arguments, out);
		case VALUE_MACRO:
			return macro_call(render, callee.as.macro, arguments, out);
		case VALUE_LOOP:
			return loop_recurse(render, callee.as.loop, arguments, out);
		case VALUE_JOINER:
		case VALUE_CYCLER:
		{
			static const String call = { .bytes = "__call__", .n_bytes = 8 };
			const FunctionInfo *method = method_find(callee, &call);

			return method->run(render, callee, arguments, out);
		}
		case VALUE_UNDEFINED:
			return value_attribute(render, callee, callee.as.string, out);
		default:
			return render_fail(render, "%s cannot be called", value_kind_name(callee));
	}
}

static bool
call_evaluate(Render *render, const Node *node, Value *out)
{
	Arguments arguments;
	Value callee;

	return evaluate(render, node->a, &callee) && arguments_evaluate(render, node, &arguments) &&
		   value_call(render, callee, &arguments, out);
}

/* A filter whose input was computed elsewhere: the innermost of a chain has no input node. */
bool
filter_nodes_run(Render *render, const Node *filter, Value input, Value *out)
{
	Arguments arguments;

	if (!render_enter(render))
		return false;
	if (filter->a != NULL && !filter_nodes_run(render, filter->a, input, &input))
		return false;
	if (!arguments_evaluate(render, filter, &arguments) ||
		!filter_run(render, &filter->text, input, &arguments, out))
		return false;
	render_leave(render);
	return true;
}

static bool
filter_evaluate(Render *render, const Node *node, Value *out)
{
	Arguments arguments;
	Value input;

	return evaluate(render, node->a, &input) && arguments_evaluate(render, node, &arguments) &&
		   filter_run(render, &node->text, input, &arguments, out);
}

static bool
test_evaluate(Render *render, const Node *node, Value *out)
{
	Arguments arguments;
	Value input;
	bool holds;

	if (!evaluate(render, node->a, &input) || !arguments_evaluate(render, node, &arguments) ||
		!test_run(render, &node->text, input, &arguments, &holds))
		return false;
	*out = value_bool(holds != node->negated);
	return true;
}

/* ---- the rest ---- */

static bool
list_evaluate(Render *render, const Node *node, Value *out)
{
	List *list = list_make(render, node->list.n_nodes);

	for (size_t i = 0; list != NULL && i < node->list.n_nodes; i++)
	{
		Value item;

		if (!evaluate(render, node->list.nodes[i], &item) || !list_add(render, list, item))
			return false;
	}
	*out = value_list(list);
	if (node->kind == NODE_TUPLE)
		out->kind = VALUE_TUPLE;
	return list != NULL;
}

static bool
dict_evaluate(Render *render, const Node *node, Value *out)
{
	Dict *dict = dict_make(render);

	for (size_t i = 0; dict != NULL && i < node->pairs.n_pairs; i++)
	{
		Value key;
		Value value;

		if (!evaluate(render, node->pairs.pairs[i].key, &key) ||
			!evaluate(render, node->pairs.pairs[i].value, &value) ||
			!dict_set(render, dict, key, value))
			return false;
	}
	*out = (Value){ .kind = VALUE_DICT, .as.dict = dict };
	return dict != NULL;
}

static bool
unary_evaluate(Render *render, const Node *node, Value *out)
{
	Value operand;

	if (!evaluate(render, node->a, &operand))
		return false;
	if (!value_is_number(operand))
		return fail_operands(render, "negated", operand, operand);
	if (operand.kind == VALUE_FLOAT)
		*out = value_real(node->op == OP_SUBTRACT ? -operand.as.real : operand.as.real);
	else
		return integers_compute(render, node->op, 0, integer_of(operand), out);
	return true;
}

static bool
binary_evaluate(Render *render, const Node *node, Value *out)
{
	Value a;
	Value b;

	return evaluate(render, node->a, &a) && evaluate(render, node->b, &b) &&
		   binary_compute(render, node->op, a, b, out);
}

/* AND and OR give the operand that decided, as in Python. */
static bool
junction_evaluate(Render *render, const Node *node, Value *out)
{
	if (!evaluate(render, node->a, out))
		return false;
	if (value_truth(*out) != (node->kind == NODE_AND))
		return true;
	return evaluate(render, node->b, out);
}

static bool
if_else_evaluate(Render *render, const Node *node, Value *out)
{
	Value condition;

	if (!evaluate(render, node->a, &condition))
		return false;
	if (value_truth(condition))
		return evaluate(render, node->b, out);
	*out = value_undefined(NULL);
	return node->c == NULL || evaluate(render, node->c, out);
}

static bool
part_evaluate(Render *render, const Node *node, Value *out)
{
	Value object;
	Value key;

	if (!evaluate(render, node->a, &object))
		return false;
	if (node->kind == NODE_ATTRIBUTE)
		return value_attribute(render, object, &node->text, out);
	return evaluate(render, node->b, &key) && value_item(render, object, key, out);
}

static bool
node_evaluate(Render *render, const Node *node, Value *out)
{
	switch (node->kind)
	{
		case NODE_LITERAL:
			*out = node->literal;
			return true;
		case NODE_NAME:
			return name_find(render, &node->text, out);
		case NODE_LIST:
		case NODE_TUPLE:
			return list_evaluate(render, node, out);
		case NODE_DICT:
			return dict_evaluate(render, node, out);
		case NODE_UNARY:
			return unary_evaluate(render, node, out);
		case NODE_BINARY:
			return binary_evaluate(render, node, out);
		case NODE_COMPARE:
			return compare_evaluate(render, node, out);
		case NODE_AND:
		case NODE_OR:
			return junction_evaluate(render, node, out);
		case NODE_NOT:
			if (!evaluate(render, node->a, out))
				return false;
			*out = value_bool(!value_truth(*out));
			return true;
		case NODE_IF_ELSE:
			return if_else_evaluate(render, node, out);
		case NODE_ATTRIBUTE:
		case NODE_ITEM:
			return part_evaluate(render, node, out);
		case NODE_SLICE:
			return slice_evaluate(render, node, out);
		case NODE_CALL:
			return call_evaluate(render, node, out);
		case NODE_FILTER:
			return filter_evaluate(render, node, out);
		case NODE_TEST:
			return test_evaluate(render, node, out);
		default:
			return render_fail(render, "a statement stands where a value should");
	}
}

bool
evaluate(Render *render, const Node *node, Value *out)
{
	if (!render_enter(render))
		return false;
	render->line = node->line;
	if (!node_evaluate(render, node, out))
		return false;
	render_leave(render);
	return true;
}
