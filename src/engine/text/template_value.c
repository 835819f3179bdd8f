#include "engine/text/template_value.h"

#include "engine/text/template_render.h"
#include "engine/text/utf8.h"

#include <string.h>

/* ---- making ---- */

Value
value_none(void)
{
	return (Value){ .kind = VALUE_NONE };
}

Value
value_bool(bool truth)
{
	return (Value){ .kind = VALUE_BOOL, .as.truth = truth };
}

Value
value_int(int64_t integer)
{
	return (Value){ .kind = VALUE_INT, .as.integer = integer };
}

Value
value_real(double real)
{
	return (Value){ .kind = VALUE_FLOAT, .as.real = real };
}

Value
value_undefined(const String *name)
{
	return (Value){ .kind = VALUE_UNDEFINED, .as.string = name };
}

Value
value_string(const String *string)
{
	return (Value){ .kind = VALUE_STRING, .as.string = string };
}

Value
value_list(List *list)
{
	return (Value){ .kind = VALUE_LIST, .as.list = list };
}

const String *
string_make(Render *render, const char *bytes, size_t n_bytes, bool written)
{
	String *string = render_alloc(render, sizeof(*string));
	TemplateSpan *span = written && n_bytes > 0 ? render_alloc(render, sizeof(*span)) : NULL;

	if (string == NULL || (written && n_bytes > 0 && span == NULL))
		return NULL;
	string->bytes = bytes;
	string->n_bytes = n_bytes;
	if (span != NULL)
	{
		*span = (TemplateSpan){ 0, n_bytes };
		string->spans = span;
		string->n_spans = 1;
	}
	return string;
}

const String *
string_slice(Render *render, const String *string, size_t from, size_t to)
{
	Builder builder;

	if (from == 0 && to == string->n_bytes)
		return string;
	builder_init(&builder, render);
	if (string->n_spans == 0)
		return string_make(render, string->bytes + from, to > from ? to - from : 0, false);
	return to <= from || builder_add(&builder, string, from, to) ? builder_end(&builder) : NULL;
}

/* Room for one more in an array that doubles. */
static void *
array_grow(Render *render, void *items, size_t n_items, size_t *capacity, size_t item_bytes)
{
	size_t wanted = *capacity > 0 ? 2 * *capacity : 8;
	void *grown = render_alloc(render, wanted * item_bytes);

	if (grown == NULL)
		return NULL;
	if (items != NULL)
		memcpy(grown, items, n_items * item_bytes);
	*capacity = wanted;
	return grown;
}

List *
list_make(Render *render, size_t capacity)
{
	List *list = render_alloc(render, sizeof(*list));

	if (list == NULL)
		return NULL;
	list->capacity = capacity;
	if (capacity > 0)
		list->items = render_alloc(render, capacity * sizeof(*list->items));
	return capacity == 0 || list->items != NULL ? list : NULL;
}

bool
list_add(Render *render, List *list, Value value)
{
	if (list->n_items == list->capacity)
	{
		Value *grown =
			array_grow(render, list->items, list->n_items, &list->capacity, sizeof(Value));

		if (grown == NULL)
			return false;
		list->items = grown;
	}
	list->items[list->n_items++] = value;
	return render_step(render, 1);
}

Dict *
dict_make(Render *render)
{
	return render_alloc(render, sizeof(Dict));
}

const Value *
dict_find(Render *render, const Dict *dict, Value key)
{
	if (!render_step(render, dict->n_items / 16))
		return NULL;
	for (size_t i = 0; i < dict->n_items; i++)
		if (value_equal(render, dict->items[i].key, key))
			return &dict->items[i].value;
	return NULL;
}

const Value *
dict_find_text(Render *render, const Dict *dict, const char *key, size_t n_bytes)
{
	if (!render_step(render, dict->n_items / 16))
		return NULL;
	for (size_t i = 0; i < dict->n_items; i++)
	{
		const Value *found = &dict->items[i].key;

		if (found->kind == VALUE_STRING && found->as.string->n_bytes == n_bytes &&
			memcmp(found->as.string->bytes, key, n_bytes) == 0)
			return &dict->items[i].value;
	}
	return NULL;
}

bool
dict_set(Render *render, Dict *dict, Value key, Value value)
{
	Value *found = (Value *) (uintptr_t) dict_find(render, dict, key);

	if (!render_step(render, 1 + dict->n_items / 8))
		return false;
	if (found != NULL)
	{
		*found = value;
		return true;
	}
	if (dict->n_items == dict->capacity)
	{
		DictItem *grown =
			array_grow(render, dict->items, dict->n_items, &dict->capacity, sizeof(DictItem));

		if (grown == NULL)
			return false;
		dict->items = grown;
	}
	dict->items[dict->n_items++] = (DictItem){ key, value };
	return true;
}

/* ---- building strings ---- */

void
builder_init(Builder *builder, Render *render)
{
	memset(builder, 0, sizeof(*builder));
	builder->render = render;
}

static bool
builder_reserve(Builder *builder, size_t n_bytes)
{
	size_t capacity = builder->capacity > 0 ? builder->capacity : 64;
	char *bytes;

	if (!render_output_fits(builder->render, builder->n_bytes, n_bytes))
		return false;
	if (n_bytes <= builder->capacity - builder->n_bytes)
		return true;
	while (capacity - builder->n_bytes < n_bytes)
		capacity *= 2;
	bytes = render_alloc(builder->render, capacity);
	if (bytes == NULL)
		return false;
	if (builder->n_bytes > 0)
		memcpy(bytes, builder->bytes, builder->n_bytes);
	builder->bytes = bytes;
	builder->capacity = capacity;
	return true;
}

static bool
builder_mark(Builder *builder, size_t start, size_t n_bytes)
{
	TemplateSpan *last = builder->n_spans > 0 ? &builder->spans[builder->n_spans - 1] : NULL;

	if (n_bytes == 0)
		return true;
	if (last != NULL && last->start + last->n_bytes == start)
	{
		last->n_bytes += n_bytes;
		return true;
	}
	if (builder->spans == NULL || builder->n_spans == builder->span_capacity)
	{
		TemplateSpan *grown = array_grow(builder->render, builder->spans, builder->n_spans,
										 &builder->span_capacity, sizeof(TemplateSpan));

		if (grown == NULL)
			return false;
		builder->spans = grown;
	}
	builder->spans[builder->n_spans++] = (TemplateSpan){ start, n_bytes };
	return true;
}

bool
builder_add_bytes(Builder *builder, const char *bytes, size_t n_bytes, bool written)
{
	size_t at = builder->n_bytes;

	if (n_bytes == 0)
		return true;
	if (!builder_reserve(builder, n_bytes))
		return false;
	memcpy(builder->bytes + at, bytes, n_bytes);
	builder->n_bytes += n_bytes;
	return !written || builder_mark(builder, at, n_bytes);
}

bool
builder_add(Builder *builder, const String *string, size_t from, size_t to)
{
	size_t at = builder->n_bytes;

	if (to <= from)
		return true;
	if (!builder_add_bytes(builder, string->bytes + from, to - from, false))
		return false;
	for (size_t i = 0; i < string->n_spans; i++)
	{
		size_t start = string->spans[i].start;
		size_t end = start + string->spans[i].n_bytes;

		if (start < from)
			start = from;
		if (end > to)
			end = to;
		if (start < end && !builder_mark(builder, at + start - from, end - start))
			return false;
	}
	return true;
}

bool
builder_add_string(Builder *builder, const String *string)
{
	return builder_add(builder, string, 0, string->n_bytes);
}

bool
builder_add_format(Builder *builder, const char *format, ...)
{
	char text[128];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return builder_add_bytes(builder, text, n < (int) sizeof(text) ? (size_t) n : sizeof(text) - 1,
							 false);
}

const String *
builder_end(Builder *builder)
{
	String *string = render_alloc(builder->render, sizeof(*string));

	if (string == NULL)
		return NULL;
	string->bytes = builder->n_bytes > 0 ? builder->bytes : "";
	string->n_bytes = builder->n_bytes;
	string->spans = builder->spans;
	string->n_spans = builder->n_spans;
	return string;
}

/* ---- asking ---- */

const char *
value_kind_name(Value value)
{
	static const char *const names[] = {
		[VALUE_UNDEFINED] = "undefined", [VALUE_NONE] = "NoneType",
		[VALUE_BOOL] = "bool",			 [VALUE_INT] = "int",
		[VALUE_FLOAT] = "float",		 [VALUE_STRING] = "str",
		[VALUE_LIST] = "list",			 [VALUE_TUPLE] = "tuple",
		[VALUE_DICT] = "dict",			 [VALUE_NAMESPACE] = "namespace",
		[VALUE_RANGE] = "range",		 [VALUE_LOOP] = "loop",
		[VALUE_MACRO] = "macro",		 [VALUE_FUNCTION] = "function",
		[VALUE_JOINER] = "joiner",		 [VALUE_CYCLER] = "cycler",
	};

	return names[value.kind];
}

bool
value_truth(Value value)
{
	switch (value.kind)
	{
		case VALUE_UNDEFINED:
		case VALUE_NONE:
			return false;
		case VALUE_BOOL:
			return value.as.truth;
		case VALUE_INT:
			return value.as.integer != 0;
		case VALUE_FLOAT:
			return value.as.real != 0;
		case VALUE_STRING:
			return value.as.string->n_bytes > 0;
		case VALUE_LIST:
		case VALUE_TUPLE:
			return value.as.list->n_items > 0;
		case VALUE_DICT:
			return value.as.dict->n_items > 0;
		case VALUE_RANGE:
			return value.as.range->n > 0;
		default:
			return true;
	}
}

bool
value_is_number(Value value)
{
	return value.kind == VALUE_BOOL || value.kind == VALUE_INT || value.kind == VALUE_FLOAT;
}

double
value_number(Value value)
{
	if (value.kind == VALUE_FLOAT)
		return value.as.real;
	return value.kind == VALUE_INT ? (double) value.as.integer : (double) value.as.truth;
}

static int64_t
value_integer(Value value)
{
	return value.kind == VALUE_BOOL ? value.as.truth : value.as.integer;
}

bool
strings_equal(const String *a, const String *b)
{
	return a->n_bytes == b->n_bytes && memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}

bool
string_equal(const String *a, const char *text)
{
	return a->n_bytes == strlen(text) && memcmp(a->bytes, text, a->n_bytes) == 0;
}

static bool lists_equal(Render *render, const List *a, const List *b, int depth);

static bool
equal_at(Render *render, Value a, Value b, int depth)
{
	if (value_is_number(a) && value_is_number(b))
		return a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT
				   ? value_number(a) == value_number(b)
				   : value_integer(a) == value_integer(b);
	if (a.kind != b.kind || depth > RENDER_MAX_NESTING)
		return false;
	if (a.kind == VALUE_STRING)
		return strings_equal(a.as.string, b.as.string) &&
			   render_step(render, a.as.string->n_bytes / 64);
	if (!render_step(render, 1))
		return false;
	switch (a.kind)
	{
		case VALUE_UNDEFINED:
		case VALUE_NONE:
			return true;
		case VALUE_LIST:
		case VALUE_TUPLE:
			return lists_equal(render, a.as.list, b.as.list, depth + 1);
		case VALUE_DICT:
			if (a.as.dict->n_items != b.as.dict->n_items)
				return false;
			for (size_t i = 0; i < a.as.dict->n_items; i++)
			{
				const Value *found = dict_find(render, b.as.dict, a.as.dict->items[i].key);

				if (found == NULL ||
					!equal_at(render, a.as.dict->items[i].value, *found, depth + 1))
					return false;
			}
			return true;
		default:
			return a.as.list == b.as.list;
	}
}

static bool
lists_equal(Render *render, const List *a, const List *b, int depth)
{
	if (a->n_items != b->n_items || !render_step(render, a->n_items / 16))
		return false;
	for (size_t i = 0; i < a->n_items; i++)
		if (!equal_at(render, a->items[i], b->items[i], depth))
			return false;
	return true;
}

bool
value_equal(Render *render, Value a, Value b)
{
	return equal_at(render, a, b, 0);
}

static int
strings_compare(const String *a, const String *b)
{
	size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
	int order = n > 0 ? memcmp(a->bytes, b->bytes, n) : 0; /* UTF-8 sorts as its characters do */

	if (order != 0)
		return order;
	return a->n_bytes == b->n_bytes ? 0 : a->n_bytes < b->n_bytes ? -1 : 1;
}

static bool
compare_at(Render *render, Value a, Value b, int depth, int *order)
{
	if (!render_step(render, 1))
		return false;
	if (value_is_number(a) && value_is_number(b))
	{
		double x = value_number(a);
		double y = value_number(b);

		*order = x < y ? -1 : x > y;
		return true;
	}
	if (a.kind == VALUE_STRING && b.kind == VALUE_STRING)
	{
		*order = strings_compare(a.as.string, b.as.string);
		return true;
	}
	if ((a.kind != VALUE_LIST && a.kind != VALUE_TUPLE) || a.kind != b.kind ||
		depth > RENDER_MAX_NESTING)
		return false;
	for (size_t i = 0; i < a.as.list->n_items && i < b.as.list->n_items; i++)
	{
		if (!compare_at(render, a.as.list->items[i], b.as.list->items[i], depth + 1, order))
			return false;
		if (*order != 0)
			return true;
	}
	*order = a.as.list->n_items < b.as.list->n_items ? -1 : a.as.list->n_items > b.as.list->n_items;
	return true;
}

bool
value_compare(Render *render, Value a, Value b, int *order)
{
	return compare_at(render, a, b, 0, order);
}

size_t
string_length(const String *string)
{
	size_t n = 0;

	for (size_t i = 0; i < string->n_bytes; i++)
		n += ((unsigned char) string->bytes[i] & 0xc0) != 0x80;
	return n;
}

size_t
string_offset(const String *string, size_t index)
{
	size_t at = 0;

	for (; index > 0 && at < string->n_bytes; index--)
	{
		at++;
		while (at < string->n_bytes && ((unsigned char) string->bytes[at] & 0xc0) == 0x80)
			at++;
	}
	return at;
}
