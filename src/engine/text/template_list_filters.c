/* template_list_filters.c: filters that go through the items of a list: map, select, sort, join. */
#include "engine/text/template_render.h"

#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
	static bool name(Render *render, Value input, const Arguments *arguments, Value *out)

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
	static const String items_name = { .bytes = "items", .n_bytes = 5 };
	const Value *by = argument_get(arguments, 1, "by");
	bool by_value = by != NULL && by->kind == VALUE_STRING && string_equal(by->as.string, "value");
	Value place = value_int(by_value ? 1 : 0);
	Arguments none = { 0 };
	Value pairs;
	List *sorted;

	if (input.kind != VALUE_DICT)
		return render_fail(render, "dictsort needs a dict");
	if (!method_find(input, &items_name)->run(render, input, &none, &pairs) ||
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
		(separator != NULL && (between = value_print(render, *separator)) == NULL))
		return false;
	builder_init(&builder, render);
	for (size_t i = 0; i < items->n_items; i++)
	{
		const String *text;
		Value value;

		if (!path_get(render, items->items[i], path, &value) ||
			(text = value_print(render, value)) == NULL ||
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

/* ---- all ---- */

static const FunctionInfo filters[] = {
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
};

const FunctionInfo *
list_filter_find(const String *name)
{
	return FUNCTION_FIND(filters, name);
}
