/* template_exec.c: statements. */
#include "engine/text/template_render.h"

#include <string.h>

#define MAX_RANGE 1000000

/* ---- variables ---- */

bool
variable_set(Render *render, const String *name, Value value)
{
	Variable *variable;

	for (variable = render->scope->variables; variable != NULL; variable = variable->next)
		if (strings_equal(variable->name, name))
		{
			variable->value = value;
			return true;
		}
	variable = render_alloc(render, sizeof(*variable));
	if (variable == NULL)
		return false;
	*variable = (Variable){ name, value, render->scope->variables };
	render->scope->variables = variable;
	return true;
}

static bool
target_set(Render *render, const Node *target, Value value)
{
	Value object;

	if (target->kind == NODE_NAME)
		return variable_set(render, &target->text, value);
	if (target->kind != NODE_ATTRIBUTE)
		return render_fail(render, "this cannot be assigned to");
	if (!evaluate(render, target->a, &object))
		return false;
	if (object.kind != VALUE_NAMESPACE)
		return render_fail(render, "only members of a namespace can be set, not those of %s",
						   value_kind_name(object));
	return dict_set(render, object.as.dict, value_string(&target->text), value);
}

/* One target takes the value, several share out its items. */
static bool
targets_set(Render *render, const NodeList *targets, Value value)
{
	const List *items;

	if (targets->n_nodes == 1)
		return target_set(render, targets->nodes[0], value);
	if (!value_iterate(render, value, &items))
		return false;
	if (items->n_items != targets->n_nodes)
		return render_fail(render, "%zu values cannot be assigned to %zu names", items->n_items,
						   targets->n_nodes);
	for (size_t i = 0; i < targets->n_nodes; i++)
		if (!target_set(render, targets->nodes[i], items->items[i]))
			return false;
	return true;
}

/* ---- bodies that are kept instead of written ---- */

static bool
body_capture(Render *render, const Node *body, Value *out)
{
	Builder *outer = render->output;
	Builder builder;
	bool done;

	builder_init(&builder, render);
	render->output = &builder;
	done = execute(render, body);
	render->output = outer;
	return done && string_out(render, builder_end(&builder), out);
}

static bool
set_execute(Render *render, const Node *node)
{
	Value value;

	if (node->body != NULL)
	{
		if (!body_capture(render, node->body, &value) ||
			(node->b != NULL && !filter_nodes_run(render, node->b, value, &value)))
			return false;
	}
	else if (!evaluate(render, node->a, &value))
		return false;
	return targets_set(render, &node->list, value);
}

static bool
filter_block_execute(Render *render, const Node *node)
{
	const String *text;
	Value value;

	if (!body_capture(render, node->body, &value) ||
		!filter_nodes_run(render, node->b, value, &value))
		return false;
	text = value_print(render, value);
	return text != NULL && builder_add_string(render->output, text);
}

/* ---- loops ---- */

bool
value_iterate(Render *render, Value value, const List **out)
{
	List *list;

	switch (value.kind)
	{
		case VALUE_LIST:
		case VALUE_TUPLE:
			*out = value.as.list;
			return true;
		case VALUE_UNDEFINED:
		case VALUE_DICT:
		case VALUE_STRING:
		case VALUE_RANGE:
			break;
		default:
			return render_fail(render, "%s has no items to go through", value_kind_name(value));
	}
	*out = list = list_make(render, 0);
	if (list == NULL)
		return false;
	if (value.kind == VALUE_DICT)
		for (size_t i = 0; i < value.as.dict->n_items; i++)
			if (!list_add(render, list, value.as.dict->items[i].key))
				return false;
	if (value.kind == VALUE_RANGE)
	{
		if (value.as.range->n > MAX_RANGE)
			return render_fail_limit(render, "a range is too long");
		for (int64_t i = 0; i < value.as.range->n; i++)
			if (!list_add(render, list,
						  value_int(value.as.range->start + i * value.as.range->step)))
				return false;
	}
	if (value.kind == VALUE_STRING)
		for (size_t at = 0; at < value.as.string->n_bytes;)
		{
			size_t end = at + 1;
			const String *character;

			while (end < value.as.string->n_bytes &&
				   ((unsigned char) value.as.string->bytes[end] & 0xc0) == 0x80)
				end++;
			character = string_slice(render, value.as.string, at, end);
			if (character == NULL || !list_add(render, list, value_string(character)))
				return false;
			at = end;
		}
	return true;
}

/* The items that the loop's own filter lets through. */
static bool
items_filter(Render *render, const Node *node, const List **items)
{
	List *kept;

	if (node->b == NULL)
		return true;
	kept = list_make(render, 0);
	if (kept == NULL)
		return false;
	for (size_t i = 0; i < (*items)->n_items; i++)
	{
		Scope *scope = render_alloc(render, sizeof(*scope));
		Value holds;

		if (scope == NULL)
			return false;
		scope->outer = render->scope;
		render->scope = scope;
		if (!targets_set(render, &node->list, (*items)->items[i]) ||
			!evaluate(render, node->b, &holds))
			return false;
		render->scope = scope->outer;
		if (value_truth(holds) && !list_add(render, kept, (*items)->items[i]))
			return false;
	}
	*items = kept;
	return true;
}

static bool
turn_execute(Render *render, const Node *node, Loop *loop, Value item)
{
	static const String loop_name = { .bytes = "loop", .n_bytes = 4 };
	Scope *scope = render_alloc(render, sizeof(*scope));

	if (scope == NULL)
		return false;
	scope->outer = render->scope;
	render->scope = scope;
	if (!variable_set(render, &loop_name, (Value){ .kind = VALUE_LOOP, .as.loop = loop }) ||
		!targets_set(render, &node->list, item) || !execute(render, node->body))
		return false;
	render->scope = scope->outer;
	return true;
}

static bool
items_loop(Render *render, const Node *node, const List *items, size_t depth)
{
	Loop *loop = render_alloc(render, sizeof(*loop));

	if (loop == NULL || !items_filter(render, node, &items))
		return false;
	*loop = (Loop){ .n = items->n_items, .items = items, .node = node, .depth = depth };
	if (items->n_items == 0)
		return node->c == NULL || execute(render, node->c);
	for (; loop->index < loop->n; loop->index++)
	{
		if (!render_step(render, 1) || !turn_execute(render, node, loop, items->items[loop->index]))
			return false;
		if (render->flow == FLOW_BREAK)
			break;
		render->flow = FLOW_ON;
	}
	render->flow = FLOW_ON;
	return true;
}

static bool
for_execute(Render *render, const Node *node)
{
	const List *items;
	Value iterable;

	return evaluate(render, node->a, &iterable) && value_iterate(render, iterable, &items) &&
		   items_loop(render, node, items, 1);
}

/* loop(items) inside a recursive loop: its text. */
bool
loop_recurse(Render *render, const Loop *loop, const Arguments *arguments, Value *out)
{
	Builder *outer = render->output;
	const List *items;
	Builder builder;
	bool done;

	if (!loop->node->recursive || arguments->n_values != 1)
		return render_fail(render, "only a recursive loop can be called, with its items");
	if (!value_iterate(render, arguments->values[0], &items) || !render_enter(render))
		return false;
	builder_init(&builder, render);
	render->output = &builder;
	done = items_loop(render, loop->node, items, loop->depth + 1);
	render->output = outer;
	render_leave(render);
	return done && string_out(render, builder_end(&builder), out);
}

static bool
loop_cycle(Render *render, Value self, const Arguments *arguments, Value *out)
{
	if (arguments->n_values == 0)
		return render_fail(render, "loop.cycle has nothing to choose from");
	*out = arguments->values[self.as.loop->index % arguments->n_values];
	return true;
}

static bool
loop_changed(Render *render, Value self, const Arguments *arguments, Value *out)
{
	Loop *loop = self.as.loop;
	List *now = list_make(render, arguments->n_values);

	for (size_t i = 0; now != NULL && i < arguments->n_values; i++)
		if (!list_add(render, now, arguments->values[i]))
			return false;
	if (now == NULL)
		return false;
	*out = value_bool(!loop->has_changed || !value_equal(render, loop->changed, value_list(now)));
	loop->changed = value_list(now);
	loop->has_changed = true;
	return true;
}

bool
loop_attribute(Render *render, Loop *loop, const String *name, Value *out)
{
	static const FunctionInfo cycle = { "cycle", loop_cycle };
	static const FunctionInfo changed = { "changed", loop_changed };
	Value self = { .kind = VALUE_LOOP, .as.loop = loop };
	int64_t index = (int64_t) loop->index;
	int64_t n = (int64_t) loop->n;
	const struct
	{
		const char *name;
		Value value;
	} members[] = {
		{ "index", value_int(index + 1) },
		{ "index0", value_int(index) },
		{ "revindex", value_int(n - index) },
		{ "revindex0", value_int(n - index - 1) },
		{ "first", value_bool(index == 0) },
		{ "last", value_bool(index == n - 1) },
		{ "length", value_int(n) },
		{ "depth", value_int((int64_t) loop->depth) },
		{ "depth0", value_int((int64_t) loop->depth - 1) },
		{ "previtem", index > 0 ? loop->items->items[index - 1] : value_undefined(name) },
		{ "nextitem", index < n - 1 ? loop->items->items[index + 1] : value_undefined(name) },
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (string_equal(name, members[i].name))
		{
			*out = members[i].value;
			return true;
		}
	if (string_equal(name, "cycle"))
		return method_make(render, &cycle, self, out);
	if (string_equal(name, "changed"))
		return method_make(render, &changed, self, out);
	*out = value_undefined(name);
	return true;
}

/* ---- macros ---- */

static bool
macro_define(Render *render, const Node *node, const Macro **out)
{
	Macro *macro = render_alloc(render, sizeof(*macro));

	if (macro == NULL)
		return false;
	*macro = (Macro){ .node = node, .scope = render->scope };
	*out = macro;
	return true;
}

static bool
parameter_set(Render *render, const Node *node, size_t index, const Arguments *arguments)
{
	const NodePair *parameter = &node->pairs.pairs[index];
	Value value = value_undefined(&parameter->key->text);

	if (index < arguments->n_values)
		value = arguments->values[index];
	else
	{
		bool given = false;

		for (size_t i = 0; i < arguments->n_named && !given; i++)
			if (strings_equal(arguments->names[i], &parameter->key->text))
			{
				value = arguments->named[i];
				given = true;
			}
		if (!given && parameter->value != NULL && !evaluate(render, parameter->value, &value))
			return false;
	}
	return variable_set(render, &parameter->key->text, value);
}

static bool
macro_enter(Render *render, const Macro *macro, const Arguments *arguments)
{
	static const String caller_name = { .bytes = "caller", .n_bytes = 6 };
	const Value *caller = argument_get(arguments, SIZE_MAX, "caller");

	if (arguments->n_values > macro->node->pairs.n_pairs)
		return render_fail(render, "macro '%.*s' takes %zu arguments, not %zu",
						   (int) macro->node->text.n_bytes, macro->node->text.bytes,
						   macro->node->pairs.n_pairs, arguments->n_values);
	for (size_t i = 0; i < macro->node->pairs.n_pairs; i++)
		if (!parameter_set(render, macro->node, i, arguments))
			return false;
	return caller == NULL || variable_set(render, &caller_name, *caller);
}

bool
macro_call(Render *render, const Macro *macro, const Arguments *arguments, Value *out)
{
	Scope *before = render->scope;
	Scope *scope = render_alloc(render, sizeof(*scope));
	Flow flow = render->flow;
	bool done;

	if (scope == NULL || !render_enter(render))
		return false;
	scope->outer = macro->scope;
	render->scope = scope;
	done = macro_enter(render, macro, arguments) && body_capture(render, macro->node->body, out);
	render->scope = before;
	render->flow = flow;
	render_leave(render);
	return done;
}

static bool
macro_execute(Render *render, const Node *node)
{
	const Macro *macro;

	return macro_define(render, node, &macro) &&
		   variable_set(render, &node->text, (Value){ .kind = VALUE_MACRO, .as.macro = macro });
}

/* {% call macro(...) %}body{% endcall %}: the macro finds the body as caller(). */
static bool
call_block_execute(Render *render, const Node *node)
{
	static const String caller_name = { .bytes = "caller", .n_bytes = 6 };
	const Macro *caller;
	const String *text;
	Arguments arguments;
	Value callee;
	Value result;
	const Node *call = node->a;

	if (!macro_define(render, node, &caller) || !evaluate(render, call->a, &callee) ||
		!arguments_evaluate(render, call, &arguments))
		return false;
	arguments.names[arguments.n_named] = &caller_name;
	arguments.named[arguments.n_named++] = (Value){ .kind = VALUE_MACRO, .as.macro = caller };
	if (!value_call(render, callee, &arguments, &result))
		return false;
	text = value_print(render, result);
	return text != NULL && builder_add_string(render->output, text);
}

/* ---- all of them ---- */

static bool
if_execute(Render *render, const Node *node)
{
	size_t i = 0;

	for (; i + 1 < node->list.n_nodes; i += 2)
	{
		Value condition;

		if (!evaluate(render, node->list.nodes[i], &condition))
			return false;
		if (value_truth(condition))
			return execute(render, node->list.nodes[i + 1]);
	}
	return i == node->list.n_nodes || execute(render, node->list.nodes[i]);
}

static bool
print_execute(Render *render, const Node *node)
{
	const String *text;
	Value value;

	if (!evaluate(render, node->a, &value))
		return false;
	text = value_print(render, value);
	return text != NULL && render_step(render, text->n_bytes / 64) &&
		   builder_add_string(render->output, text);
}

static bool
statement_execute(Render *render, const Node *node)
{
	switch (node->kind)
	{
		case NODE_TEXT:
			return render_step(render, node->text.n_bytes / 64) &&
				   builder_add_bytes(render->output, node->text.bytes, node->text.n_bytes, true);
		case NODE_PRINT:
			return print_execute(render, node);
		case NODE_IF:
			return if_execute(render, node);
		case NODE_FOR:
			return for_execute(render, node);
		case NODE_SET:
			return set_execute(render, node);
		case NODE_MACRO:
			return macro_execute(render, node);
		case NODE_CALL_BLOCK:
			return call_block_execute(render, node);
		case NODE_FILTER_BLOCK:
			return filter_block_execute(render, node);
		case NODE_BLOCK:
			return execute(render, node);
		case NODE_BREAK:
			render->flow = FLOW_BREAK;
			return true;
		case NODE_CONTINUE:
			render->flow = FLOW_CONTINUE;
			return true;
		default:
			return render_fail(render, "a value stands where a statement should");
	}
}

bool
execute(Render *render, const Node *block)
{
	if (!render_enter(render))
		return false;
	for (size_t i = 0; i < block->list.n_nodes && render->flow == FLOW_ON; i++)
	{
		render->line = block->list.nodes[i]->line;
		if (!statement_execute(render, block->list.nodes[i]))
			return false;
	}
	render_leave(render);
	return true;
}
