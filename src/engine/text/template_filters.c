/* template_filters.c: what stands behind "|". */
#include "engine/text/template_render.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
	static bool name(Render *render, Value input, const Arguments *arguments, Value *out)

/* ---- strings ---- */

/* Filters on strings take any value and print it first. */
static bool
text_of(Render *render, Value input, const String **out)
{
	*out = value_print(render, input);
	return *out != NULL;
}

static bool
case_filter(Render *render, Value input, char mode, Value *out)
{
	const String *text;

	return text_of(render, input, &text) && string_case(render, text, mode, out);
}

FILTER(filter_upper)
{
	(void) arguments;
	return case_filter(render, input, 'u', out);
}

FILTER(filter_lower)
{
	(void) arguments;
	return case_filter(render, input, 'l', out);
}

FILTER(filter_title)
{
	(void) arguments;
	return case_filter(render, input, 't', out);
}

FILTER(filter_capitalize)
{
	(void) arguments;
	return case_filter(render, input, 'c', out);
}

FILTER(filter_trim)
{
	const String *text;
	const String *set;

	return text_of(render, input, &text) && argument_string(render, arguments, 0, "chars", &set) &&
		   string_strip(render, text, set, true, true, out);
}

FILTER(filter_string)
{
	const String *text;

	(void) arguments;
	return text_of(render, input, &text) && string_out(render, text, out);
}

FILTER(filter_safe)
{
	return filter_string(render, input, arguments, out);
}

FILTER(filter_escape)
{
	const String *text;
	Builder builder;

	(void) arguments;
	if (!text_of(render, input, &text))
		return false;
	builder_init(&builder, render);
	for (size_t i = 0; i < text->n_bytes; i++)
	{
		static const char marks[] = "&<>'\"";
		static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
		const char *found = memchr(marks, text->bytes[i], 5);

		if (found == NULL ? !builder_add(&builder, text, i, i + 1)
						  : !builder_add_bytes(&builder, names[found - marks],
											   strlen(names[found - marks]), false))
			return false;
	}
	return string_out(render, builder_end(&builder), out);
}

FILTER(filter_replace)
{
	const String *text;
	const String *old;
	const String *new;
	int64_t count = -1;

	if (!text_of(render, input, &text) || !argument_string(render, arguments, 0, "old", &old) ||
		!argument_string(render, arguments, 1, "new", &new) ||
		!argument_int(render, arguments, 2, "count", &count))
		return false;
	if (old == NULL || new == NULL)
		return render_fail(render, "replace needs what to replace and by what");
	return string_replace(render, text, old, new, count, out);
}

/* Blanks before every line; before the first and before blank ones only on demand. */
FILTER(filter_indent)
{
	const String *text;
	const Value *width = argument_get(arguments, 0, "width");
	bool first = argument_bool(arguments, 1, "first", false);
	bool blank = argument_bool(arguments, 2, "blank", false);
	int64_t n = 4;
	Builder builder;

	if (!text_of(render, input, &text))
		return false;
	if (width != NULL && width->kind != VALUE_STRING &&
		!argument_int(render, arguments, 0, "width", &n))
		return false;
	builder_init(&builder, render);
	for (size_t at = 0; at <= text->n_bytes;)
	{
		const char *found = memchr(text->bytes + at, '\n', text->n_bytes - at);
		size_t end = found != NULL ? (size_t) (found - text->bytes) : text->n_bytes;
		bool indents = at == 0 ? first : blank || end > at;

		if (indents && width != NULL && width->kind == VALUE_STRING)
		{
			if (!builder_add_string(&builder, width->as.string))
				return false;
		}
		else
			for (int64_t i = 0; indents && i < n; i++)
				if (!builder_add_bytes(&builder, " ", 1, false))
					return false;
		if (!builder_add(&builder, text, at, found != NULL ? end + 1 : end))
			return false;
		at = end + 1;
	}
	return string_out(render, builder_end(&builder), out);
}

FILTER(filter_wordcount)
{
	const String *text;
	bool in_word = false;
	int64_t n = 0;

	(void) arguments;
	if (!text_of(render, input, &text) || !render_step(render, text->n_bytes / 16))
		return false;
	for (size_t i = 0; i < text->n_bytes; i++)
	{
		bool is_space = strchr(" \t\n\r\f\v", text->bytes[i]) != NULL && text->bytes[i] != '\0';

		n += !is_space && !in_word;
		in_word = !is_space;
	}
	*out = value_int(n);
	return true;
}

FILTER(filter_truncate)
{
	const String *text;
	const String *end;
	int64_t length = 255;
	int64_t leeway = 5;
	bool kill = argument_bool(arguments, 1, "killwords", false);
	static const String dots = { .bytes = "...", .n_bytes = 3 };
	Builder builder;
	size_t cut;

	if (!text_of(render, input, &text) || !argument_int(render, arguments, 0, "length", &length) ||
		!argument_string(render, arguments, 2, "end", &end) ||
		!argument_int(render, arguments, 3, "leeway", &leeway))
		return false;
	end = end != NULL ? end : &dots;
	if ((int64_t) string_length(text) <= length + leeway)
		return string_out(render, text, out);
	length -= (int64_t) string_length(end);
	cut = string_offset(text, length > 0 ? (size_t) length : 0);
	for (size_t i = cut; !kill && i > 0; i--)
		if (text->bytes[i - 1] == ' ')
		{
			cut = i - 1;
			break;
		}
	builder_init(&builder, render);
	if (!builder_add(&builder, text, 0, cut) || !builder_add_string(&builder, end))
		return false;
	return string_out(render, builder_end(&builder), out);
}

FILTER(filter_format)
{
	const String *format;

	return text_of(render, input, &format) &&
		   string_format(render, format, arguments->values, arguments->n_values, out);
}

/* ---- numbers ---- */

FILTER(filter_int)
{
	const Value *fallback = argument_get(arguments, 0, "default");
	char digits[64];
	char *end;

	(void) render;
	*out = fallback != NULL ? *fallback : value_int(0);
	if (input.kind == VALUE_INT || input.kind == VALUE_BOOL)
		*out = value_int(input.kind == VALUE_INT ? input.as.integer : input.as.truth);
	else if (input.kind == VALUE_FLOAT && fabs(input.as.real) < 9e18)
		*out = value_int((int64_t) input.as.real);
	else if (input.kind == VALUE_STRING && input.as.string->n_bytes < sizeof(digits))
	{
		double real;

		memcpy(digits, input.as.string->bytes, input.as.string->n_bytes);
		digits[input.as.string->n_bytes] = '\0';
		real = strtod(digits, &end);
		if (end > digits && strspn(end, " \t\n") == strlen(end) && fabs(real) < 9e18)
			*out =
				value_int(strchr(digits, '.') != NULL ? (int64_t) real : strtoll(digits, NULL, 10));
	}
	return true;
}

FILTER(filter_float)
{
	const Value *fallback = argument_get(arguments, 0, "default");
	char digits[64];
	char *end;

	(void) render;
	*out = fallback != NULL ? *fallback : value_real(0);
	if (value_is_number(input))
		*out = value_real(value_number(input));
	else if (input.kind == VALUE_STRING && input.as.string->n_bytes < sizeof(digits))
	{
		double real;

		memcpy(digits, input.as.string->bytes, input.as.string->n_bytes);
		digits[input.as.string->n_bytes] = '\0';
		real = strtod(digits, &end);
		if (end > digits && *end == '\0')
			*out = value_real(real);
	}
	return true;
}

FILTER(filter_abs)
{
	(void) arguments;
	if (!value_is_number(input) || (input.kind == VALUE_INT && input.as.integer == INT64_MIN))
		return render_fail(render, "abs needs a number");
	*out = input.kind == VALUE_FLOAT ? value_real(fabs(input.as.real))
		   : input.kind == VALUE_INT
			   ? value_int(input.as.integer < 0 ? -input.as.integer : input.as.integer)
			   : value_int(input.as.truth);
	return true;
}

FILTER(filter_round)
{
	const Value *method = argument_get(arguments, 1, "method");
	int64_t precision = 0;
	double scale;
	double real;

	if (!value_is_number(input) || !argument_int(render, arguments, 0, "precision", &precision))
		return value_is_number(input) ? false : render_fail(render, "round needs a number");
	scale = pow(10, (double) precision);
	real = value_number(input) * scale;
	if (method != NULL && method->kind == VALUE_STRING && string_equal(method->as.string, "ceil"))
		real = ceil(real);
	else if (method != NULL && method->kind == VALUE_STRING &&
			 string_equal(method->as.string, "floor"))
		real = floor(real);
	else
		real = nearbyint(real);
	*out = value_real(real / scale);
	return true;
}

/* ---- any value ---- */

FILTER(filter_default)
{
	static const String nothing = { .bytes = "" };
	const Value *fallback = argument_get(arguments, 0, "default_value");
	bool falsy = argument_bool(arguments, 1, "boolean", false);

	(void) render;
	if (input.kind == VALUE_UNDEFINED || (falsy && !value_truth(input)))
		*out = fallback != NULL ? *fallback : value_string(&nothing);
	else
		*out = input;
	return true;
}

FILTER(filter_length)
{
	(void) arguments;
	switch (input.kind)
	{
		case VALUE_STRING:
			*out = value_int((int64_t) string_length(input.as.string));
			return render_step(render, input.as.string->n_bytes / 64);
		case VALUE_LIST:
		case VALUE_TUPLE:
			*out = value_int((int64_t) input.as.list->n_items);
			return true;
		case VALUE_DICT:
			*out = value_int((int64_t) input.as.dict->n_items);
			return true;
		case VALUE_RANGE:
			*out = value_int(input.as.range->n);
			return true;
		case VALUE_UNDEFINED:
			*out = value_int(0);
			return true;
		default:
			return render_fail(render, "%s has no length", value_kind_name(input));
	}
}

FILTER(filter_list)
{
	static const String copy_name = { .bytes = "copy", .n_bytes = 4 };
	const List *items;
	Value list;

	if (!value_iterate(render, input, &items))
		return false;
	list = value_list((List *) (uintptr_t) items);
	return method_find(list, &copy_name)->run(render, list, arguments, out);
}

FILTER(filter_items)
{
	static const String items_name = { .bytes = "items", .n_bytes = 5 };

	if (input.kind == VALUE_UNDEFINED)
		return filter_list(render, input, arguments, out);
	if (input.kind != VALUE_DICT)
		return render_fail(render, "items needs a dict");
	return method_find(input, &items_name)->run(render, input, arguments, out);
}

FILTER(filter_first)
{
	const List *items;

	(void) arguments;
	if (!value_iterate(render, input, &items))
		return false;
	*out = items->n_items > 0 ? items->items[0] : value_undefined(NULL);
	return true;
}

FILTER(filter_last)
{
	const List *items;

	(void) arguments;
	if (!value_iterate(render, input, &items))
		return false;
	*out = items->n_items > 0 ? items->items[items->n_items - 1] : value_undefined(NULL);
	return true;
}

FILTER(filter_reverse)
{
	const List *items;
	List *turned;
	Builder builder;

	(void) arguments;
	if (!value_iterate(render, input, &items))
		return false;
	if (input.kind == VALUE_STRING)
	{
		builder_init(&builder, render);
		for (size_t i = items->n_items; i > 0; i--)
			if (!builder_add_string(&builder, items->items[i - 1].as.string))
				return false;
		return string_out(render, builder_end(&builder), out);
	}
	turned = list_make(render, items->n_items);
	for (size_t i = items->n_items; turned != NULL && i > 0; i--)
		if (!list_add(render, turned, items->items[i - 1]))
			return false;
	*out = value_list(turned);
	return turned != NULL;
}

/* ---- attributes of items: "a.b" or a number ---- */

static bool
path_get(Render *render, Value item, const Value *path, Value *out)
{
	*out = item;
	if (path == NULL || path->kind == VALUE_NONE)
		return true;
	if (path->kind != VALUE_STRING)
		return value_item(render, item, *path, out);
	for (size_t at = 0; at <= path->as.string->n_bytes;)
	{
		const char *point = memchr(path->as.string->bytes + at, '.', path->as.string->n_bytes - at);
		size_t end =
			point != NULL ? (size_t) (point - path->as.string->bytes) : path->as.string->n_bytes;
		const String *part = string_slice(render, path->as.string, at, end);

		if (part == NULL || !value_item(render, *out, value_string(part), out))
			return false;
		at = end + 1;
	}
	return true;
}

/* ---- map, select, reject ---- */

static Arguments
arguments_behind(const Arguments *arguments, size_t n)
{
	Arguments rest = *arguments;

	if (n > rest.n_values)
		n = rest.n_values;
	rest.values += n;
	rest.n_values -= n;
	return rest;
}

/* map, select and reject take whatever is false, none too, for an empty list. */
static bool
items_iterate(Render *render, Value input, const List **out)
{
	return value_iterate(render, value_truth(input) ? input : value_undefined(NULL), out);
}

FILTER(filter_map)
{
	const Value *path = argument_get(arguments, SIZE_MAX, "attribute");
	const Value *fallback = argument_get(arguments, SIZE_MAX, "default");
	Arguments rest = arguments_behind(arguments, 1);
	const List *items;
	List *mapped;

	if (!items_iterate(render, input, &items))
		return false;
	if (path == NULL && (arguments->n_values == 0 || arguments->values[0].kind != VALUE_STRING))
		return render_fail(render, "map needs an attribute or a filter");
	mapped = list_make(render, items->n_items);
	for (size_t i = 0; mapped != NULL && i < items->n_items; i++)
	{
		Value value;

		if (path != NULL ? !path_get(render, items->items[i], path, &value)
						 : !filter_run(render, arguments->values[0].as.string, items->items[i],
									   &rest, &value))
			return false;
		if (value.kind == VALUE_UNDEFINED && fallback != NULL)
			value = *fallback;
		if (!list_add(render, mapped, value))
			return false;
	}
	*out = value_list(mapped);
	return mapped != NULL;
}

/* Items whose value (at the path, if any) passes the test named next; without one: is true. */
static bool
select_items(Render *render, Value input, const Arguments *arguments, bool by_path, bool wanted,
			 Value *out)
{
	const Value *path = by_path ? argument_get(arguments, 0, NULL) : NULL;
	const Value *test = argument_get(arguments, by_path ? 1 : 0, NULL);
	Arguments rest = arguments_behind(arguments, by_path ? 2 : 1);
	const List *items;
	List *kept = list_make(render, 0);

	if (kept == NULL || !items_iterate(render, input, &items))
		return false;
	if ((by_path && path == NULL) || (test != NULL && test->kind != VALUE_STRING))
		return render_fail(render, "select and reject need the names of an attribute and a test");
	for (size_t i = 0; i < items->n_items; i++)
	{
		Value value;
		bool holds;

		if (!path_get(render, items->items[i], path, &value))
			return false;
		holds = value_truth(value);
		if (test != NULL && !test_run(render, test->as.string, value, &rest, &holds))
			return false;
		if (holds == wanted && !list_add(render, kept, items->items[i]))
			return false;
	}
	*out = value_list(kept);
	return true;
}

FILTER(filter_select)
{
	return select_items(render, input, arguments, false, true, out);
}

FILTER(filter_reject)
{
	return select_items(render, input, arguments, false, false, out);
}

FILTER(filter_selectattr)
{
	return select_items(render, input, arguments, true, true, out);
}

FILTER(filter_rejectattr)
{
	return select_items(render, input, arguments, true, false, out);
}

/* ---- order ---- */

typedef struct SortItem
{
	Value key;
	Value item;
	size_t place; /* equal keys keep their order */
} SortItem;

typedef struct SortContext
{
	Render *render;
	bool reverse;
	bool failed;
} SortContext;

static int
sort_compare(const void *a, const void *b, void *context)
{
	const SortItem *x = a;
	const SortItem *y = b;
	SortContext *sort = context;
	int order = 0;

	if (!value_compare(sort->render, x->key, y->key, &order))
		sort->failed = true;
	if (order != 0)
		return sort->reverse ? -order : order;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Strings sort without regard to case unless told otherwise. */
static bool
key_fold(Render *render, Value key, bool case_sensitive, Value *out)
{
	*out = key;
	return case_sensitive || key.kind != VALUE_STRING ||
		   string_case(render, key.as.string, 'l', out);
}

static bool
items_sort(Render *render, const List *items, const Value *path, bool reverse, bool case_sensitive,
		   List **out)
{
	SortContext context = { .render = render, .reverse = reverse };
	SortItem *sorted = render_alloc(render, (items->n_items + 1) * sizeof(*sorted));
	size_t n = items->n_items;
	uint64_t depth = 1;

	while (n >> depth != 0)
		depth++;
	if (sorted == NULL || !render_step(render, n * depth))
		return false;
	for (size_t i = 0; i < n; i++)
	{
		Value key;

		if (!path_get(render, items->items[i], path, &key) ||
			!key_fold(render, key, case_sensitive, &sorted[i].key))
			return false;
		sorted[i].item = items->items[i];
		sorted[i].place = i;
	}
	qsort_r(sorted, n, sizeof(*sorted), sort_compare, &context);
	if (context.failed)
		return render_fail(render, "the items cannot be compared with each other");
	*out = list_make(render, n);
	for (size_t i = 0; *out != NULL && i < n; i++)
		if (!list_add(render, *out, sorted[i].item))
			return false;
	return *out != NULL;
}

FILTER(filter_sort)
{
	const Value *path = argument_get(arguments, 2, "attribute");
	const List *items;
	List *sorted;

	if (!value_iterate(render, input, &items) ||
		!items_sort(render, items, path, argument_bool(arguments, 0, "reverse", false),
					argument_bool(arguments, 1, "case_sensitive", false), &sorted))
		return false;
	*out = value_list(sorted);
	return true;
}

FILTER(filter_dictsort)
{
	const Value *by = argument_get(arguments, 1, "by");
	bool by_value = by != NULL && by->kind == VALUE_STRING && string_equal(by->as.string, "value");
	Value place = value_int(by_value ? 1 : 0);
	Arguments none = { 0 };
	Value pairs;
	List *sorted;

	if (!filter_items(render, input, &none, &pairs) ||
		!items_sort(render, pairs.as.list, &place, argument_bool(arguments, 2, "reverse", false),
					argument_bool(arguments, 0, "case_sensitive", false), &sorted))
		return false;
	*out = value_list(sorted);
	return true;
}

FILTER(filter_unique)
{
	const Value *path = argument_get(arguments, 1, "attribute");
	bool case_sensitive = argument_bool(arguments, 0, "case_sensitive", false);
	const List *items;
	List *kept = list_make(render, 0);
	List *keys = list_make(render, 0);

	if (kept == NULL || keys == NULL || !value_iterate(render, input, &items))
		return false;
	for (size_t i = 0; i < items->n_items; i++)
	{
		bool seen;
		Value key;

		if (!path_get(render, items->items[i], path, &key) ||
			!key_fold(render, key, case_sensitive, &key) ||
			!value_contains(render, value_list(keys), key, &seen) ||
			!render_step(render, keys->n_items / 8))
			return false;
		if (!seen && (!list_add(render, keys, key) || !list_add(render, kept, items->items[i])))
			return false;
	}
	*out = value_list(kept);
	return true;
}

/* The least or the greatest; wanted: the sign of the order that makes a better one. */
static bool
extreme(Render *render, Value input, const Arguments *arguments, int wanted, Value *out)
{
	const Value *path = argument_get(arguments, 1, "attribute");
	bool case_sensitive = argument_bool(arguments, 0, "case_sensitive", false);
	const List *items;
	Value best = value_undefined(NULL);

	if (!value_iterate(render, input, &items))
		return false;
	*out = value_undefined(NULL);
	for (size_t i = 0; i < items->n_items; i++)
	{
		int order = wanted;
		Value key;

		if (!path_get(render, items->items[i], path, &key) ||
			!key_fold(render, key, case_sensitive, &key))
			return false;
		if (i > 0 && !value_compare(render, key, best, &order))
			return render_fail(render, "the items cannot be compared with each other");
		if (i > 0 && (order < 0) != (wanted < 0))
			continue;
		if (i > 0 && order == 0)
			continue;
		best = key;
		*out = items->items[i];
	}
	return true;
}

FILTER(filter_min)
{
	return extreme(render, input, arguments, -1, out);
}

FILTER(filter_max)
{
	return extreme(render, input, arguments, 1, out);
}

FILTER(filter_sum)
{
	const Value *path = argument_get(arguments, 0, "attribute");
	const Value *start = argument_get(arguments, 1, "start");
	const List *items;
	bool is_real = false;
	int64_t integer = 0;
	double real = 0;

	if (!value_iterate(render, input, &items))
		return false;
	for (size_t i = 0; i <= items->n_items; i++)
	{
		Value value = start != NULL ? *start : value_int(0);

		if (i < items->n_items && !path_get(render, items->items[i], path, &value))
			return false;
		if (!value_is_number(value))
			return render_fail(render, "sum needs numbers, not %s", value_kind_name(value));
		is_real = is_real || value.kind == VALUE_FLOAT;
		real += value_number(value);
		if (value.kind == VALUE_INT && __builtin_add_overflow(integer, value.as.integer, &integer))
			return render_fail(render, "a number became too large");
		integer += value.kind == VALUE_BOOL && value.as.truth;
	}
	*out = is_real ? value_real(real) : value_int(integer);
	return true;
}

FILTER(filter_join)
{
	const Value *separator = argument_get(arguments, 0, "d");
	const Value *path = argument_get(arguments, 1, "attribute");
	const String *between = NULL;
	const List *items;
	Builder builder;

	if (!value_iterate(render, input, &items) ||
		(separator != NULL && !text_of(render, *separator, &between)))
		return false;
	builder_init(&builder, render);
	for (size_t i = 0; i < items->n_items; i++)
	{
		const String *text;
		Value value;

		if (!path_get(render, items->items[i], path, &value) || !text_of(render, value, &text) ||
			(i > 0 && between != NULL && !builder_add_string(&builder, between)) ||
			!builder_add_string(&builder, text))
			return false;
	}
	return string_out(render, builder_end(&builder), out);
}

/* Lists of n items; what is left may be filled up. */
FILTER(filter_batch)
{
	const Value *fill = argument_get(arguments, 1, "fill_with");
	const List *items;
	List *batches = list_make(render, 0);
	List *batch = NULL;
	int64_t n = 0;

	if (batches == NULL || !value_iterate(render, input, &items) ||
		!argument_int(render, arguments, 0, "linecount", &n))
		return false;
	if (n < 1)
		return render_fail(render, "batch needs a size");
	for (size_t i = 0; i < items->n_items; i++)
	{
		if (i % (size_t) n == 0)
		{
			batch = list_make(render, 0);
			if (batch == NULL || !list_add(render, batches, value_list(batch)))
				return false;
		}
		if (!list_add(render, batch, items->items[i]))
			return false;
	}
	while (fill != NULL && batch != NULL && (int64_t) batch->n_items < n)
		if (!list_add(render, batch, *fill))
			return false;
	*out = value_list(batches);
	return true;
}

FILTER(filter_attr)
{
	const String *name;

	if (!argument_string(render, arguments, 0, "name", &name))
		return false;
	if (name == NULL)
		return render_fail(render, "attr needs a name");
	return value_attribute(render, input, name, out);
}

/* ---- JSON ---- */

bool
json_filter(Render *render, Value input, const Arguments *arguments, Value *out)
{
	static const String comma = { .bytes = ",", .n_bytes = 1 };
	static const String comma_space = { .bytes = ", ", .n_bytes = 2 };
	static const String colon_space = { .bytes = ": ", .n_bytes = 2 };
	const Value *indent = argument_get(arguments, 1, "indent");
	const Value *separators = argument_get(arguments, 2, "separators");
	JsonStyle style = { .indent = -1,
						.ascii = argument_bool(arguments, 0, "ensure_ascii", false),
						.sort_keys = argument_bool(arguments, 3, "sort_keys", false),
						.key_separator = &colon_space };
	Builder builder;

	/* transformers: tojson(x, ensure_ascii, indent, separators, sort_keys); Jinja: tojson(indent)
	 */
	if (arguments->n_values == 1 && arguments->values[0].kind == VALUE_INT)
	{
		indent = &arguments->values[0];
		style.ascii = false;
	}
	if (indent != NULL && indent->kind == VALUE_INT)
		style.indent = indent->as.integer < 64 ? indent->as.integer : 64;
	style.item_separator = style.indent >= 0 ? &comma : &comma_space;
	if (separators != NULL && (separators->kind == VALUE_TUPLE || separators->kind == VALUE_LIST) &&
		separators->as.list->n_items == 2 && separators->as.list->items[0].kind == VALUE_STRING &&
		separators->as.list->items[1].kind == VALUE_STRING)
	{
		style.item_separator = separators->as.list->items[0].as.string;
		style.key_separator = separators->as.list->items[1].as.string;
	}
	builder_init(&builder, render);
	return value_to_json(&builder, input, &style, 0) &&
		   string_out(render, builder_end(&builder), out);
}

/* ---- all ---- */

static const FunctionInfo filters[] = {
	{ "upper", filter_upper },
	{ "lower", filter_lower },
	{ "title", filter_title },
	{ "capitalize", filter_capitalize },
	{ "trim", filter_trim },
	{ "string", filter_string },
	{ "safe", filter_safe },
	{ "escape", filter_escape },
	{ "e", filter_escape },
	{ "replace", filter_replace },
	{ "indent", filter_indent },
	{ "wordcount", filter_wordcount },
	{ "truncate", filter_truncate },
	{ "format", filter_format },
	{ "int", filter_int },
	{ "float", filter_float },
	{ "abs", filter_abs },
	{ "round", filter_round },
	{ "default", filter_default },
	{ "d", filter_default },
	{ "length", filter_length },
	{ "count", filter_length },
	{ "list", filter_list },
	{ "items", filter_items },
	{ "first", filter_first },
	{ "last", filter_last },
	{ "reverse", filter_reverse },
	{ "map", filter_map },
	{ "select", filter_select },
	{ "reject", filter_reject },
	{ "selectattr", filter_selectattr },
	{ "rejectattr", filter_rejectattr },
	{ "sort", filter_sort },
	{ "dictsort", filter_dictsort },
	{ "unique", filter_unique },
	{ "min", filter_min },
	{ "max", filter_max },
	{ "sum", filter_sum },
	{ "join", filter_join },
	{ "batch", filter_batch },
	{ "attr", filter_attr },
	{ "tojson", json_filter },
};

bool
filter_run(Render *render, const String *name, Value input, const Arguments *arguments, Value *out)
{
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (string_equal(name, filters[i].name))
			return filters[i].run(render, input, arguments, out);
	return render_fail(render, "there is no filter '%.*s'",
					   (int) (name->n_bytes < 40 ? name->n_bytes : 40), name->bytes);
}
