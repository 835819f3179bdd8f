/* template_print.c: values as Python prints them, and as JSON. */
#include "engine/text/template_render.h"
#include "engine/text/template_value.h"
#include "engine/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as the same number, written as Python writes them. */
static bool
real_print(Builder *builder, double real)
{
	char text[40];
	int n = 1;

	if (isnan(real))
		return builder_add_bytes(builder, "nan", 3, false);
	if (isinf(real))
		return builder_add_format(builder, "%s", real < 0 ? "-inf" : "inf");
	for (; n < 17; n++)
	{
		snprintf(text, sizeof(text), "%.*e", n - 1, real);
		if (strtod(text, NULL) == real)
			break;
	}
	if (real != 0 && (fabs(real) < 1e-4 || fabs(real) >= 1e16))
	{
		snprintf(text, sizeof(text), "%.*e", n - 1, real);
		return builder_add_format(builder, "%s", text);
	}
	/* digits behind the point: those of the exponent form, moved by the exponent */
	snprintf(text, sizeof(text), "%.*e", n - 1, real);
	n = n - 1 - atoi(strchr(text, 'e') + 1);
	snprintf(text, sizeof(text), "%.*f", n > 1 ? n : 1, real);
	return builder_add_format(builder, "%s", text);
}

static bool
string_repr(Builder *builder, const String *string)
{
	bool has_single = memchr(string->bytes, '\'', string->n_bytes) != NULL;
	bool has_double = memchr(string->bytes, '"', string->n_bytes) != NULL;
	char quote = has_single && !has_double ? '"' : '\'';
	bool ok = builder_add_bytes(builder, &quote, 1, false);

	for (size_t i = 0; ok && i < string->n_bytes; i++)
	{
		unsigned char byte = (unsigned char) string->bytes[i];

		if (byte == (unsigned char) quote || byte == '\\')
			ok = builder_add_format(builder, "\\%c", byte);
		else if (byte == '\n')
			ok = builder_add_bytes(builder, "\\n", 2, false);
		else if (byte == '\r')
			ok = builder_add_bytes(builder, "\\r", 2, false);
		else if (byte == '\t')
			ok = builder_add_bytes(builder, "\\t", 2, false);
		else if (byte < 0x20 || byte == 0x7f)
			ok = builder_add_format(builder, "\\x%02x", byte);
		else
			ok = builder_add(builder, string, i, i + 1);
	}
	return ok && builder_add_bytes(builder, &quote, 1, false);
}

static bool
list_print(Builder *builder, Value value, int depth)
{
	bool is_tuple = value.kind == VALUE_TUPLE;
	const List *list = value.as.list;
	bool ok = builder_add_bytes(builder, is_tuple ? "(" : "[", 1, false);

	for (size_t i = 0; ok && i < list->n_items; i++)
		ok = (i == 0 || builder_add_bytes(builder, ", ", 2, false)) &&
			 value_print_to(builder, list->items[i], true, depth + 1);
	if (ok && is_tuple && list->n_items == 1)
		ok = builder_add_bytes(builder, ",", 1, false);
	return ok && builder_add_bytes(builder, is_tuple ? ")" : "]", 1, false);
}

static bool
dict_print(Builder *builder, const Dict *dict, int depth)
{
	bool ok = builder_add_bytes(builder, "{", 1, false);

	for (size_t i = 0; ok && i < dict->n_items; i++)
		ok = (i == 0 || builder_add_bytes(builder, ", ", 2, false)) &&
			 value_print_to(builder, dict->items[i].key, true, depth + 1) &&
			 builder_add_bytes(builder, ": ", 2, false) &&
			 value_print_to(builder, dict->items[i].value, true, depth + 1);
	return ok && builder_add_bytes(builder, "}", 1, false);
}

bool
value_print_to(Builder *builder, Value value, bool quoted, int depth)
{
	if (depth > RENDER_MAX_NESTING)
		return render_fail_limit(builder->render, "a value is nested too deeply");
	if (!render_step(builder->render, 1))
		return false;
	switch (value.kind)
	{
		case VALUE_UNDEFINED:
			return !quoted || builder_add_bytes(builder, "Undefined", 9, false);
		case VALUE_NONE:
			return builder_add_bytes(builder, "None", 4, false);
		case VALUE_BOOL:
			return builder_add_format(builder, "%s", value.as.truth ? "True" : "False");
		case VALUE_INT:
			return builder_add_format(builder, "%" PRId64, value.as.integer);
		case VALUE_FLOAT:
			return real_print(builder, value.as.real);
		case VALUE_STRING:
			return quoted ? string_repr(builder, value.as.string)
						  : builder_add_string(builder, value.as.string);
		case VALUE_LIST:
		case VALUE_TUPLE:
			return list_print(builder, value, depth);
		case VALUE_DICT:
			return dict_print(builder, value.as.dict, depth);
		case VALUE_RANGE:
			return builder_add_format(
				builder, "range(%" PRId64 ", %" PRId64 ")", value.as.range->start,
				value.as.range->start + value.as.range->step * value.as.range->n);
		default:
			return builder_add_format(builder, "<%s>", value_kind_name(value));
	}
}

const String *
value_print(Render *render, Value value)
{
	Builder builder;

	if (value.kind == VALUE_STRING)
		return value.as.string;
	builder_init(&builder, render);
	return value_print_to(&builder, value, false, 0) ? builder_end(&builder) : NULL;
}

/* ---- JSON in ---- */

/*
 * Templates build control tokens around a role: '<|' + message.role + '|>'. One of the names that
 * everybody uses counts as written by the template: nothing that a user could choose is in it.
 */
static bool
is_known_role(const char *key, const json_t *member)
{
	static const char *const roles[] = { "system",	  "user",	 "assistant", "tool",
										 "developer", "ipython", "function" };

	if (strcmp(key, "role") != 0 || !json_is_string(member))
		return false;
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (json_string_length(member) == strlen(roles[i]) &&
			strcmp(json_string_value(member), roles[i]) == 0)
			return true;
	return false;
}

static bool
object_of_json(Render *render, const json_t *json, bool written, int depth, Value *out)
{
	Dict *dict = dict_make(render);
	const char *key;
	json_t *member;

	if (dict == NULL)
		return false;
	json_object_foreach((json_t *) (uintptr_t) json, key, member)
	{
		const String *name = string_make(render, key, strlen(key), false);
		Value value;

		if (name == NULL ||
			!value_of_json(render, member, written || is_known_role(key, member), depth + 1,
						   &value) ||
			!dict_set(render, dict, value_string(name), value))
			return false;
	}
	*out = (Value){ .kind = VALUE_DICT, .as.dict = dict };
	return true;
}

bool
value_of_json(Render *render, const json_t *json, bool written, int depth, Value *out)
{
	const String *string;
	List *list;

	if (depth > RENDER_MAX_NESTING)
		return render_fail_limit(render, "the input is nested too deeply");
	switch (json_typeof(json))
	{
		case JSON_OBJECT:
			return object_of_json(render, json, written, depth, out);
		case JSON_ARRAY:
			list = list_make(render, json_array_size(json));
			for (size_t i = 0; list != NULL && i < json_array_size(json); i++)
			{
				Value item;

				if (!value_of_json(render, json_array_get(json, i), written, depth + 1, &item) ||
					!list_add(render, list, item))
					return false;
			}
			*out = value_list(list);
			return list != NULL;
		case JSON_STRING:
			string =
				string_make(render, json_string_value(json), json_string_length(json), written);
			*out = value_string(string);
			return string != NULL;
		case JSON_INTEGER:
			*out = value_int(json_integer_value(json));
			return true;
		case JSON_REAL:
			*out = value_real(json_real_value(json));
			return true;
		case JSON_TRUE:
		case JSON_FALSE:
			*out = value_bool(json_is_true(json));
			return true;
		default:
			*out = value_none();
			return true;
	}
}

/* ---- JSON out, as Python's json.dumps writes it ---- */

static bool
json_codepoint(Builder *builder, uint32_t codepoint)
{
	if (codepoint < 0x10000)
		return builder_add_format(builder, "\\u%04x", codepoint);
	codepoint -= 0x10000;
	return builder_add_format(builder, "\\u%04x\\u%04x", 0xd800 | codepoint >> 10,
							  0xdc00 | (codepoint & 0x3ff));
}

static bool
string_to_json(Builder *builder, const String *string, bool ascii)
{
	static const char escapes[][2] = { { '"', '"' },  { '\\', '\\' }, { '\n', 'n' }, { '\r', 'r' },
									   { '\t', 't' }, { '\b', 'b' },  { '\f', 'f' } };
	bool ok = builder_add_bytes(builder, "\"", 1, false);

	for (size_t i = 0; ok && i < string->n_bytes;)
	{
		int n_char;
		uint32_t codepoint = utf8_decode(string->bytes + i, string->n_bytes - i, &n_char);
		char escape = 0;

		for (size_t e = 0; e < sizeof(escapes) / sizeof(escapes[0]); e++)
			if ((uint32_t) escapes[e][0] == codepoint)
				escape = escapes[e][1];
		if (escape != 0)
			ok = builder_add_format(builder, "\\%c", escape);
		else if (codepoint < 0x20 || (ascii && codepoint > 0x7e))
			ok = json_codepoint(builder, codepoint);
		else
			ok = builder_add_bytes(builder, string->bytes + i, (size_t) n_char, false);
		i += (size_t) n_char;
	}
	return ok && builder_add_bytes(builder, "\"", 1, false);
}

static bool
json_newline(Builder *builder, const JsonStyle *style, int depth)
{
	bool ok = style->indent < 0 || builder_add_bytes(builder, "\n", 1, false);

	for (int64_t i = 0; ok && style->indent > 0 && i < style->indent * depth; i++)
		ok = builder_add_bytes(builder, " ", 1, false);
	return ok;
}

static bool
json_separate(Builder *builder, const JsonStyle *style, size_t index, int depth)
{
	if (index > 0 && !builder_add_string(builder, style->item_separator))
		return false;
	return json_newline(builder, style, depth + 1);
}

static bool
list_to_json(Builder *builder, const List *list, const JsonStyle *style, int depth)
{
	bool ok = builder_add_bytes(builder, "[", 1, false);

	for (size_t i = 0; ok && i < list->n_items; i++)
		ok = json_separate(builder, style, i, depth) &&
			 value_to_json(builder, list->items[i], style, depth + 1);
	if (ok && list->n_items > 0)
		ok = json_newline(builder, style, depth);
	return ok && builder_add_bytes(builder, "]", 1, false);
}

static int
item_compare(const void *a, const void *b, void *render)
{
	int order = 0;

	value_compare(render, (*(const DictItem *const *) a)->key, (*(const DictItem *const *) b)->key,
				  &order);
	return order;
}

static bool
key_to_json(Builder *builder, Value key, const JsonStyle *style)
{
	const String *text;

	if (key.kind == VALUE_STRING)
		return string_to_json(builder, key.as.string, style->ascii);
	if (key.kind == VALUE_BOOL)
		return builder_add_format(builder, "\"%s\"", key.as.truth ? "true" : "false");
	if (key.kind == VALUE_NONE)
		return builder_add_bytes(builder, "\"null\"", 6, false);
	text = value_print(builder->render, key);
	return text != NULL && string_to_json(builder, text, style->ascii);
}

static bool
dict_to_json(Builder *builder, const Dict *dict, const JsonStyle *style, int depth)
{
	const DictItem **items = render_alloc(builder->render, (dict->n_items + 1) * sizeof(*items));
	bool ok = items != NULL && builder_add_bytes(builder, "{", 1, false);

	if (!ok)
		return false;
	for (size_t i = 0; i < dict->n_items; i++)
		items[i] = &dict->items[i];
	if (style->sort_keys)
		qsort_r(items, dict->n_items, sizeof(*items), item_compare, builder->render);
	for (size_t i = 0; ok && i < dict->n_items; i++)
		ok = json_separate(builder, style, i, depth) &&
			 key_to_json(builder, items[i]->key, style) &&
			 builder_add_string(builder, style->key_separator) &&
			 value_to_json(builder, items[i]->value, style, depth + 1);
	if (ok && dict->n_items > 0)
		ok = json_newline(builder, style, depth);
	return ok && builder_add_bytes(builder, "}", 1, false);
}

bool
value_to_json(Builder *builder, Value value, const JsonStyle *style, int depth)
{
	if (depth > RENDER_MAX_NESTING)
		return render_fail_limit(builder->render, "a value is nested too deeply");
	if (!render_step(builder->render, 1))
		return false;
	switch (value.kind)
	{
		case VALUE_NONE:
			return builder_add_bytes(builder, "null", 4, false);
		case VALUE_BOOL:
			return builder_add_format(builder, "%s", value.as.truth ? "true" : "false");
		case VALUE_INT:
			return value_print_to(builder, value, false, depth);
		case VALUE_FLOAT:
			if (isnan(value.as.real))
				return builder_add_bytes(builder, "NaN", 3, false);
			if (isinf(value.as.real))
				return builder_add_format(builder, "%sInfinity", value.as.real < 0 ? "-" : "");
			return value_print_to(builder, value, false, depth);
		case VALUE_STRING:
			return string_to_json(builder, value.as.string, style->ascii);
		case VALUE_LIST:
		case VALUE_TUPLE:
			return list_to_json(builder, value.as.list, style, depth);
		case VALUE_DICT:
			return dict_to_json(builder, value.as.dict, style, depth);
		default:
			return render_fail(builder->render, "%s cannot be written as JSON",
							   value.kind == VALUE_UNDEFINED ? "an undefined value"
															 : value_kind_name(value));
	}
}
