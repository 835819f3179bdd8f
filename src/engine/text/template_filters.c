/* template_filters.c: what stands behind "|", but for the filters of template_list_filters.c. */
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
		const char *found = memchr(marks, text->bytes[i], sizeof(marks) - 1);

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
	{ "upper", filter_upper },		 { "lower", filter_lower },
	{ "title", filter_title },		 { "capitalize", filter_capitalize },
	{ "trim", filter_trim },		 { "string", filter_string },
	{ "safe", filter_safe },		 { "escape", filter_escape },
	{ "e", filter_escape },			 { "replace", filter_replace },
	{ "indent", filter_indent },	 { "wordcount", filter_wordcount },
	{ "truncate", filter_truncate }, { "format", filter_format },
	{ "int", filter_int },			 { "float", filter_float },
	{ "abs", filter_abs },			 { "round", filter_round },
	{ "default", filter_default },	 { "d", filter_default },
	{ "length", filter_length },	 { "count", filter_length },
	{ "list", filter_list },		 { "items", filter_items },
	{ "first", filter_first },		 { "last", filter_last },
	{ "reverse", filter_reverse },	 { "tojson", json_filter },
};

static const FunctionInfo *
filter_find(const String *name)
{
	const FunctionInfo *found = FUNCTION_FIND(filters, name);

	return found != NULL ? found : list_filter_find(name);
}

bool
filter_run(Render *render, const String *name, Value input, const Arguments *arguments, Value *out)
{
	const FunctionInfo *filter = filter_find(name);

	if (filter == NULL)
		return render_fail(render, "there is no filter '%.*s'",
						   (int) (name->n_bytes < 40 ? name->n_bytes : 40), name->bytes);
	return filter->run(render, input, arguments, out);
}
