/* template_string_methods.c: methods of strings, as Python names them. */
#include "engine/text/template_render.h"
#include "engine/text/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define METHOD(name)                                                                               \
	static bool name(Render *render, Value self, const Arguments *arguments, Value *out)

/* ---- strings ---- */

static bool
strip(Render *render, Value self, const Arguments *arguments, bool left, bool right, Value *out)
{
	const String *set;

	return argument_string(render, arguments, 0, "chars", &set) &&
		   string_strip(render, self.as.string, set, left, right, out);
}

METHOD(string_strip_both)
{
	return strip(render, self, arguments, true, true, out);
}

METHOD(string_lstrip)
{
	return strip(render, self, arguments, true, false, out);
}

METHOD(string_rstrip)
{
	return strip(render, self, arguments, false, true, out);
}

METHOD(string_upper)
{
	(void) arguments;
	return string_case(render, self.as.string, 'u', out);
}

METHOD(string_lower)
{
	(void) arguments;
	return string_case(render, self.as.string, 'l', out);
}

METHOD(string_title)
{
	(void) arguments;
	return string_case(render, self.as.string, 't', out);
}

METHOD(string_capitalize)
{
	(void) arguments;
	return string_case(render, self.as.string, 'c', out);
}

static bool
part_add(Render *render, List *list, const String *string, size_t from, size_t to)
{
	const String *part = string_slice(render, string, from, to);

	return part != NULL && list_add(render, list, value_string(part));
}

/* Divided at white space, which counts as one whatever its length; none at the ends. */
static bool
split_white(Render *render, const String *string, int64_t max, List *list)
{
	size_t at = 0;

	for (;;)
	{
		size_t end;

		while (at < string->n_bytes && strchr(" \t\n\r\f\v", string->bytes[at]) != NULL &&
			   string->bytes[at] != '\0')
			at++;
		if (at == string->n_bytes)
			return true;
		end = at;
		if (max >= 0 && (int64_t) list->n_items == max)
			end = string->n_bytes;
		while (end < string->n_bytes &&
			   (string->bytes[end] == '\0' || strchr(" \t\n\r\f\v", string->bytes[end]) == NULL))
			end++;
		if (!part_add(render, list, string, at, end))
			return false;
		at = end;
	}
}

static bool
split_at(Render *render, const String *string, const String *separator, int64_t max, List *list)
{
	size_t at = 0;

	while (max < 0 || (int64_t) list->n_items < max)
	{
		const char *found =
			memmem(string->bytes + at, string->n_bytes - at, separator->bytes, separator->n_bytes);

		if (found == NULL)
			break;
		if (!part_add(render, list, string, at, (size_t) (found - string->bytes)))
			return false;
		at = (size_t) (found - string->bytes) + separator->n_bytes;
	}
	return part_add(render, list, string, at, string->n_bytes);
}

METHOD(string_split)
{
	List *list = list_make(render, 0);
	const String *separator;
	int64_t max = -1;
	const Value *first = argument_get(arguments, 0, "sep");

	if (list == NULL)
		return false;
	*out = value_list(list);
	if (!argument_int(render, arguments, 1, "maxsplit", &max))
		return false;
	if (first == NULL || first->kind == VALUE_NONE)
		return split_white(render, self.as.string, max, list);
	if (!argument_string(render, arguments, 0, "sep", &separator))
		return false;
	if (separator->n_bytes == 0)
		return render_fail(render, "empty separator");
	return split_at(render, self.as.string, separator, max, list);
}

/* From the right; only what maxsplit leaves out differs from split. */
METHOD(string_rsplit)
{
	const String *string = self.as.string;
	List *list = list_make(render, 0);
	List *turned;
	const String *separator;
	int64_t max = -1;
	size_t end = string->n_bytes;

	if (list == NULL || !argument_string(render, arguments, 0, "sep", &separator) ||
		!argument_int(render, arguments, 1, "maxsplit", &max))
		return false;
	if (separator == NULL || max < 0)
		return string_split(render, self, arguments, out);
	if (separator->n_bytes == 0)
		return render_fail(render, "empty separator");
	for (size_t at = end; at >= separator->n_bytes && (int64_t) list->n_items < max; at--)
	{
		size_t start = at - separator->n_bytes;

		if (at > end || memcmp(string->bytes + start, separator->bytes, separator->n_bytes) != 0)
			continue;
		if (!part_add(render, list, string, at, end))
			return false;
		end = start;
		at = start + 1;
	}
	if (!part_add(render, list, string, 0, end))
		return false;
	turned = list_make(render, list->n_items);
	for (size_t i = list->n_items; turned != NULL && i > 0; i--)
		if (!list_add(render, turned, list->items[i - 1]))
			return false;
	*out = value_list(turned);
	return turned != NULL;
}

METHOD(string_splitlines)
{
	const String *string = self.as.string;
	bool keep = argument_bool(arguments, 0, "keepends", false);
	List *list = list_make(render, 0);
	size_t at = 0;

	while (list != NULL && at < string->n_bytes)
	{
		const char *found = memchr(string->bytes + at, '\n', string->n_bytes - at);
		size_t end = found != NULL ? (size_t) (found - string->bytes) : string->n_bytes;

		if (!part_add(render, list, string, at, keep && found != NULL ? end + 1 : end))
			return false;
		at = end + 1;
	}
	*out = value_list(list);
	return list != NULL;
}

static bool
affix_matches(const String *string, const String *affix, bool at_end)
{
	size_t from;

	if (affix->n_bytes > string->n_bytes)
		return false;
	from = at_end ? string->n_bytes - affix->n_bytes : 0;
	return memcmp(string->bytes + from, affix->bytes, affix->n_bytes) == 0;
}

/* The argument is a string or a tuple of them. */
static bool
affix_test(Render *render, const String *string, const Arguments *arguments, bool at_end,
		   Value *out)
{
	const Value *affix = argument_get(arguments, 0, NULL);
	bool found = false;

	if (affix != NULL && affix->kind == VALUE_STRING)
		found = affix_matches(string, affix->as.string, at_end);
	else if (affix != NULL && affix->kind == VALUE_TUPLE)
	{
		for (size_t i = 0; i < affix->as.list->n_items && !found; i++)
			found = affix->as.list->items[i].kind == VALUE_STRING &&
					affix_matches(string, affix->as.list->items[i].as.string, at_end);
	}
	else
		return render_fail(render, "startswith and endswith need a string");
	*out = value_bool(found);
	return true;
}

METHOD(string_startswith)
{
	return affix_test(render, self.as.string, arguments, false, out);
}

METHOD(string_endswith)
{
	return affix_test(render, self.as.string, arguments, true, out);
}

static bool
affix_remove(Render *render, const String *string, const Arguments *arguments, bool at_end,
			 Value *out)
{
	const String *affix;
	size_t n = string->n_bytes;

	if (!argument_string(render, arguments, 0, NULL, &affix))
		return false;
	if (affix == NULL || !affix_matches(string, affix, at_end))
		return string_out(render, string, out);
	return string_out(render,
					  at_end ? string_slice(render, string, 0, n - affix->n_bytes)
							 : string_slice(render, string, affix->n_bytes, n),
					  out);
}

METHOD(string_removeprefix)
{
	return affix_remove(render, self.as.string, arguments, false, out);
}

METHOD(string_removesuffix)
{
	return affix_remove(render, self.as.string, arguments, true, out);
}

METHOD(string_replace_method)
{
	const String *old;
	const String *new;
	int64_t count = -1;

	if (!argument_string(render, arguments, 0, "old", &old) ||
		!argument_string(render, arguments, 1, "new", &new) ||
		!argument_int(render, arguments, 2, "count", &count))
		return false;
	if (old == NULL || new == NULL)
		return render_fail(render, "replace needs what to replace and by what");
	return string_replace(render, self.as.string, old, new, count, out);
}

/* Characters before the needle, or -1. */
static bool
find(Render *render, const String *string, const Arguments *arguments, int64_t *at)
{
	const String *needle;
	const char *found;
	String before = *string;

	if (!argument_string(render, arguments, 0, NULL, &needle))
		return false;
	if (needle == NULL)
		return render_fail(render, "find needs a string");
	found = memmem(string->bytes, string->n_bytes, needle->bytes, needle->n_bytes);
	before.n_bytes = found != NULL ? (size_t) (found - string->bytes) : 0;
	*at = found != NULL ? (int64_t) string_length(&before) : -1;
	return render_step(render, string->n_bytes / 64);
}

METHOD(string_find)
{
	int64_t at;

	if (!find(render, self.as.string, arguments, &at))
		return false;
	*out = value_int(at);
	return true;
}

METHOD(string_index)
{
	int64_t at;

	if (!find(render, self.as.string, arguments, &at))
		return false;
	*out = value_int(at);
	return at >= 0 || render_fail(render, "substring not found");
}

METHOD(string_rfind)
{
	const String *string = self.as.string;
	const String *needle;

	if (!argument_string(render, arguments, 0, NULL, &needle))
		return false;
	if (needle == NULL)
		return render_fail(render, "rfind needs a string");
	*out = value_int(-1);
	for (size_t at = string->n_bytes + 1; at-- > needle->n_bytes;)
	{
		String before = { .bytes = string->bytes, .n_bytes = at - needle->n_bytes };

		if (!render_step(render, 1 + needle->n_bytes / 64))
			return false;
		if (memcmp(string->bytes + before.n_bytes, needle->bytes, needle->n_bytes) != 0)
			continue;
		*out = value_int((int64_t) string_length(&before));
		break;
	}
	return render_step(render, string->n_bytes / 16);
}

METHOD(string_count)
{
	const String *string = self.as.string;
	const String *needle;
	int64_t n = 0;

	if (!argument_string(render, arguments, 0, NULL, &needle))
		return false;
	if (needle == NULL || needle->n_bytes == 0)
		return render_fail(render, "count needs a string");
	for (size_t at = 0; at < string->n_bytes; n++)
	{
		const char *found =
			memmem(string->bytes + at, string->n_bytes - at, needle->bytes, needle->n_bytes);

		if (found == NULL)
			break;
		at = (size_t) (found - string->bytes) + needle->n_bytes;
	}
	*out = value_int(n);
	return render_step(render, string->n_bytes / 64);
}

METHOD(string_join_method)
{
	const Value *items = argument_get(arguments, 0, NULL);
	const List *list;
	Builder builder;

	if (items == NULL || !value_iterate(render, *items, &list))
		return items != NULL ? false : render_fail(render, "join needs a list");
	builder_init(&builder, render);
	for (size_t i = 0; i < list->n_items; i++)
	{
		const String *text = value_print(render, list->items[i]);

		if (text == NULL || (i > 0 && !builder_add_string(&builder, self.as.string)) ||
			!builder_add_string(&builder, text))
			return false;
	}
	return string_out(render, builder_end(&builder), out);
}

/* "{} and {0} and {name}".format(...) */
METHOD(string_format_method)
{
	const String *format = self.as.string;
	size_t next = 0;
	Builder builder;

	builder_init(&builder, render);
	for (size_t at = 0; at < format->n_bytes;)
	{
		char c = format->bytes[at];
		bool doubled = at + 1 < format->n_bytes && format->bytes[at + 1] == c;
		const char *close;
		const Value *value;
		const String *text;
		char name[64] = "";
		size_t n;

		if ((c != '{' && c != '}') || doubled)
		{
			if (!builder_add(&builder, format, at, at + 1))
				return false;
			at += (c == '{' || c == '}') ? 2 : 1;
			continue;
		}
		close = memchr(format->bytes + at, '}', format->n_bytes - at);
		n = close != NULL ? (size_t) (close - format->bytes) - at - 1 : sizeof(name);
		if (c == '}' || n >= sizeof(name))
			return render_fail(render, "a format has a brace too many");
		memcpy(name, format->bytes + at + 1, n);
		value = n == 0 ? argument_get(arguments, next++, NULL)
				: name[0] >= '0' && name[0] <= '9'
					? argument_get(arguments, (size_t) (name[0] - '0'), NULL)
					: argument_get(arguments, SIZE_MAX, name);
		if (value == NULL)
			return render_fail(render, "a format has more places than values");
		text = value_print(render, *value);
		if (text == NULL || !builder_add_string(&builder, text))
			return false;
		at += n + 2;
	}
	return string_out(render, builder_end(&builder), out);
}

/* Whether all characters (there is one at least) are of a kind. */
static bool
all_characters(const String *string, bool (*is)(utf8proc_category_t category))
{
	for (size_t at = 0; at < string->n_bytes;)
	{
		int n_char;
		uint32_t codepoint = utf8_decode(string->bytes + at, string->n_bytes - at, &n_char);

		if (!is(utf8proc_category((utf8proc_int32_t) codepoint)))
			return false;
		at += (size_t) n_char;
	}
	return string->n_bytes > 0;
}

static bool
is_letter(utf8proc_category_t category)
{
	return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool
is_digit(utf8proc_category_t category)
{
	return category == UTF8PROC_CATEGORY_ND;
}

static bool
is_letter_or_digit(utf8proc_category_t category)
{
	return is_letter(category) || is_digit(category);
}

static bool
is_space(utf8proc_category_t category)
{
	return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_CC;
}

METHOD(string_isalpha)
{
	(void) render;
	(void) arguments;
	*out = value_bool(all_characters(self.as.string, is_letter));
	return true;
}

METHOD(string_isdigit)
{
	(void) render;
	(void) arguments;
	*out = value_bool(all_characters(self.as.string, is_digit));
	return true;
}

METHOD(string_isalnum)
{
	(void) render;
	(void) arguments;
	*out = value_bool(all_characters(self.as.string, is_letter_or_digit));
	return true;
}

METHOD(string_isspace)
{
	(void) render;
	(void) arguments;
	*out = value_bool(all_characters(self.as.string, is_space));
	return true;
}

static const FunctionInfo string_methods[] = {
	{ "strip", string_strip_both },
	{ "lstrip", string_lstrip },
	{ "rstrip", string_rstrip },
	{ "upper", string_upper },
	{ "lower", string_lower },
	{ "title", string_title },
	{ "capitalize", string_capitalize },
	{ "split", string_split },
	{ "rsplit", string_rsplit },
	{ "splitlines", string_splitlines },
	{ "startswith", string_startswith },
	{ "endswith", string_endswith },
	{ "removeprefix", string_removeprefix },
	{ "removesuffix", string_removesuffix },
	{ "replace", string_replace_method },
	{ "find", string_find },
	{ "rfind", string_rfind },
	{ "index", string_index },
	{ "count", string_count },
	{ "join", string_join_method },
	{ "format", string_format_method },
	{ "isalpha", string_isalpha },
	{ "isdigit", string_isdigit },
	{ "isnumeric", string_isdigit },
	{ "isdecimal", string_isdigit },
	{ "isalnum", string_isalnum },
	{ "isspace", string_isspace },
};

const FunctionInfo *
string_method_find(const String *name)
{
	return FUNCTION_FIND(string_methods, name);
}
