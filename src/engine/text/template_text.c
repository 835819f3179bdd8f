/* template_text.c: what filters and methods do to strings alike. */
#include "engine/text/template_render.h"
#include "engine/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

bool
string_out(Render *render, const String *string, Value *out)
{
	(void) render;
	*out = value_string(string);
	return string != NULL;
}

/* ---- strip ---- */

static bool
is_white(uint32_t codepoint)
{
	utf8proc_category_t category;

	if (codepoint < 0x80)
		return codepoint == ' ' || (codepoint >= '\t' && codepoint <= '\r') ||
			   (codepoint >= 0x1c && codepoint <= 0x1f);
	category = utf8proc_category((utf8proc_int32_t) codepoint);
	return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
		   category == UTF8PROC_CATEGORY_ZP || codepoint == 0x85;
}

/* Whether the character at bytes (n of them) is to go: white space, or one of the set. */
static bool
strips(const char *bytes, size_t n, const String *set)
{
	int n_char;

	if (set == NULL)
		return is_white(utf8_decode(bytes, n, &n_char));
	return memmem(set->bytes, set->n_bytes, bytes, n) != NULL;
}

static size_t
character_start(const String *string, size_t end)
{
	size_t at = end - 1;

	while (at > 0 && ((unsigned char) string->bytes[at] & 0xc0) == 0x80)
		at--;
	return at;
}

bool
string_strip(Render *render, const String *string, const String *set, bool left, bool right,
			 Value *out)
{
	size_t from = 0;
	size_t to = string->n_bytes;

	while (left && from < to)
	{
		size_t end = from + 1;

		while (end < to && ((unsigned char) string->bytes[end] & 0xc0) == 0x80)
			end++;
		if (!strips(string->bytes + from, end - from, set))
			break;
		from = end;
	}
	while (right && to > from)
	{
		size_t start = character_start(string, to);

		if (!strips(string->bytes + start, to - start, set))
			break;
		to = start;
	}
	return render_step(render, string->n_bytes / 64) &&
		   string_out(render, string_slice(render, string, from, to), out);
}

/* ---- upper, lower, title, capitalize ---- */

bool
string_case(Render *render, const String *string, char mode, Value *out)
{
	bool written = string->n_spans == 1 && string->spans[0].n_bytes == string->n_bytes;
	bool starts = true; /* a word (title) or the string (capitalize) */
	Builder builder;

	builder_init(&builder, render);
	for (size_t at = 0; at < string->n_bytes;)
	{
		int n_char;
		uint32_t codepoint = utf8_decode(string->bytes + at, string->n_bytes - at, &n_char);
		utf8proc_category_t category = utf8proc_category((utf8proc_int32_t) codepoint);
		bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
		bool upper = mode == 'u' || (mode != 'l' && starts);
		char bytes[4];
		int n;

		codepoint = (uint32_t) (upper ? utf8proc_toupper((utf8proc_int32_t) codepoint)
									  : utf8proc_tolower((utf8proc_int32_t) codepoint));
		starts = mode == 't' && !is_letter;
		n = utf8_encode(codepoint, bytes);
		if (!builder_add_bytes(&builder, bytes, (size_t) n, written))
			return false;
		at += (size_t) n_char;
	}
	return render_step(render, string->n_bytes / 16) &&
		   string_out(render, builder_end(&builder), out);
}

/* ---- replace ---- */

bool
string_replace(Render *render, const String *string, const String *old, const String *new,
			   int64_t count, Value *out)
{
	Builder builder;
	size_t at = 0;

	builder_init(&builder, render);
	while (count != 0 && at <= string->n_bytes)
	{
		const char *found = old->n_bytes == 0 ? string->bytes + at
											  : memmem(string->bytes + at, string->n_bytes - at,
													   old->bytes, old->n_bytes);
		size_t start;
		size_t next;

		if (found == NULL)
			break;
		start = (size_t) (found - string->bytes);
		if (!builder_add(&builder, string, at, start) || !builder_add_string(&builder, new) ||
			!render_step(render, 1))
			return false;
		at = start + old->n_bytes;
		count -= count > 0;
		if (old->n_bytes > 0)
			continue;
		/* nothing stands between any two characters, and at both ends */
		next = at < string->n_bytes ? at + 1 : at;
		while (next < string->n_bytes && ((unsigned char) string->bytes[next] & 0xc0) == 0x80)
			next++;
		if (!builder_add(&builder, string, at, next))
			return false;
		if (at == string->n_bytes)
			return string_out(render, builder_end(&builder), out);
		at = next;
	}
	if (!builder_add(&builder, string, at, string->n_bytes))
		return false;
	return string_out(render, builder_end(&builder), out);
}

/* ---- "%s and %d" % (a, b) ---- */

typedef struct FormatSpec
{
	bool left;
	bool zero;
	bool plus;
	int width;
	int precision; /* -1: none */
	char conversion;
} FormatSpec;

static size_t
format_spec_read(const String *format, size_t at, FormatSpec *spec)
{
	*spec = (FormatSpec){ .precision = -1 };
	for (; at < format->n_bytes && strchr("-0+ #", format->bytes[at]) != NULL; at++)
	{
		spec->left |= format->bytes[at] == '-';
		spec->zero |= format->bytes[at] == '0';
		spec->plus |= format->bytes[at] == '+';
	}
	for (; at < format->n_bytes && format->bytes[at] >= '0' && format->bytes[at] <= '9'; at++)
		spec->width = spec->width < 1000 ? spec->width * 10 + format->bytes[at] - '0' : 1000;
	if (at < format->n_bytes && format->bytes[at] == '.')
	{
		spec->precision = 0;
		for (at++; at < format->n_bytes && format->bytes[at] >= '0' && format->bytes[at] <= '9';
			 at++)
			spec->precision =
				spec->precision < 100 ? spec->precision * 10 + format->bytes[at] - '0' : 100;
	}
	spec->conversion = at < format->n_bytes ? format->bytes[at++] : 0;
	return at;
}

static bool
format_pad(Builder *builder, const FormatSpec *spec, const String *text)
{
	size_t length = string_length(text);
	size_t n_pad = (size_t) spec->width > length ? (size_t) spec->width - length : 0;
	bool numeric = spec->conversion != 's' && spec->conversion != 'r';

	for (size_t i = 0; !spec->left && i < n_pad; i++)
		if (!builder_add_bytes(builder, spec->zero && numeric ? "0" : " ", 1, false))
			return false;
	if (!builder_add_string(builder, text))
		return false;
	for (size_t i = 0; spec->left && i < n_pad; i++)
		if (!builder_add_bytes(builder, " ", 1, false))
			return false;
	return true;
}

static bool
format_text(Render *render, const FormatSpec *spec, Value value, const String **out)
{
	Builder builder;

	builder_init(&builder, render);
	if (!value_print_to(&builder, value, spec->conversion == 'r', 0))
		return false;
	*out = builder_end(&builder);
	if (*out != NULL && spec->precision >= 0)
		*out = string_slice(render, *out, 0, string_offset(*out, (size_t) spec->precision));
	return *out != NULL;
}

static bool
format_number(Render *render, const FormatSpec *spec, Value value, const String **out)
{
	Builder builder;
	int precision = spec->precision >= 0 ? spec->precision : 6;
	const char *plus;
	int64_t integer;

	if (spec->conversion == 0 || strchr("dixXfFeg", spec->conversion) == NULL)
		return render_fail(render, "a format is not known");
	if (!value_is_number(value))
		return render_fail(render, "%%%c needs a number, not %s", spec->conversion,
						   value_kind_name(value));
	if (value.kind == VALUE_FLOAT && strchr("dixX", spec->conversion) != NULL &&
		!(fabs(value.as.real) < 9.2e18))
		return render_fail(render, "%%%c of a number that is too large", spec->conversion);
	plus = spec->plus && value_number(value) >= 0 ? "+" : "";
	integer = value.kind == VALUE_INT ? value.as.integer
			  : value.kind == VALUE_FLOAT && strchr("dixX", spec->conversion) != NULL
				  ? (int64_t) value.as.real
				  : value.kind == VALUE_BOOL && value.as.truth;
	builder_init(&builder, render);
	switch (spec->conversion)
	{
		case 'd':
		case 'i':
			if (!builder_add_format(&builder, "%s%" PRId64, plus, integer))
				return false;
			break;
		case 'x':
			if (!builder_add_format(&builder, "%" PRIx64, integer))
				return false;
			break;
		case 'X':
			if (!builder_add_format(&builder, "%" PRIX64, integer))
				return false;
			break;
		case 'f':
		case 'F':
			if (!builder_add_format(&builder, "%s%.*f", plus, precision, value_number(value)))
				return false;
			break;
		case 'e':
			if (!builder_add_format(&builder, "%s%.*e", plus, precision, value_number(value)))
				return false;
			break;
		case 'g':
			if (!builder_add_format(&builder, "%s%.*g", plus, precision, value_number(value)))
				return false;
			break;
		default:
			break;
	}
	*out = builder_end(&builder);
	return *out != NULL;
}

bool
string_format(Render *render, const String *format, const Value *values, size_t n_values,
			  Value *out)
{
	size_t n_used = 0;
	Builder builder;

	builder_init(&builder, render);
	for (size_t at = 0; at < format->n_bytes;)
	{
		const char *percent = memchr(format->bytes + at, '%', format->n_bytes - at);
		size_t end = percent != NULL ? (size_t) (percent - format->bytes) : format->n_bytes;
		const String *text = NULL;
		FormatSpec spec;

		if (!builder_add(&builder, format, at, end))
			return false;
		if (percent == NULL)
			break;
		at = format_spec_read(format, end + 1, &spec);
		if (spec.conversion == '%')
		{
			if (!builder_add(&builder, format, at - 1, at))
				return false;
			continue;
		}
		if (n_used == n_values)
			return render_fail(render, "a format has more places than values");
		if (spec.conversion == 's' || spec.conversion == 'r'
				? !format_text(render, &spec, values[n_used], &text)
				: !format_number(render, &spec, values[n_used], &text))
			return false;
		n_used++;
		if (!format_pad(&builder, &spec, text))
			return false;
	}
	if (n_used < n_values)
		return render_fail(render, "a format has more values than places");
	return string_out(render, builder_end(&builder), out);
}
