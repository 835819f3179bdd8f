/* template_globals.c: the functions that every template finds. */
#include "engine/text/template_render.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define GLOBAL(name)                                                                               \
	static bool name(Render *render, Value self, const Arguments *arguments, Value *out)

static uint64_t
magnitude(int64_t number)
{
	return number < 0 ? 0 - (uint64_t) number : (uint64_t) number;
}

/* Numbers from 0 towards `distance`, `step` (not 0) apart. */
static int64_t
range_length(int64_t distance, int64_t step)
{
	if (distance == 0 || (distance > 0) != (step > 0))
		return 0;
	return (int64_t) ((magnitude(distance) - 1) / magnitude(step)) + 1;
}

GLOBAL(global_range)
{
	Range *range = render_alloc(render, sizeof(*range));
	int64_t start = 0;
	int64_t stop = 0;
	int64_t step = 1;
	int64_t distance;

	(void) self;
	if (range == NULL || !argument_int(render, arguments, 0, NULL, &stop))
		return false;
	if (arguments->n_values > 1)
	{
		start = stop;
		if (!argument_int(render, arguments, 1, NULL, &stop) ||
			!argument_int(render, arguments, 2, NULL, &step))
			return false;
	}
	if (arguments->n_values == 0 || step == 0 || step == INT64_MIN)
		return render_fail(render, "range needs an end, and a step that is not 0");
	if (__builtin_sub_overflow(stop, start, &distance))
		return render_fail(render, "a range is too long");
	*range = (Range){ start, step, range_length(distance, step) };
	*out = (Value){ .kind = VALUE_RANGE, .as.range = range };
	return true;
}

static bool
named_dict(Render *render, const Arguments *arguments, Dict **out)
{
	Dict *dict = *out = dict_make(render);

	if (dict == NULL)
		return false;
	for (size_t i = 0; i < arguments->n_values; i++)
	{
		const Value *from = &arguments->values[i];

		if (from->kind != VALUE_DICT)
			return render_fail(render, "dict and namespace take dicts and named values");
		for (size_t k = 0; k < from->as.dict->n_items; k++)
			if (!dict_set(render, dict, from->as.dict->items[k].key, from->as.dict->items[k].value))
				return false;
	}
	for (size_t i = 0; i < arguments->n_named; i++)
		if (!dict_set(render, dict, value_string(arguments->names[i]), arguments->named[i]))
			return false;
	return true;
}

GLOBAL(global_namespace)
{
	(void) self;
	out->kind = VALUE_NAMESPACE;
	return named_dict(render, arguments, &out->as.dict);
}

GLOBAL(global_dict)
{
	(void) self;
	out->kind = VALUE_DICT;
	return named_dict(render, arguments, &out->as.dict);
}

GLOBAL(global_raise_exception)
{
	const Value *message = argument_get(arguments, 0, "message");
	const String *text = message != NULL ? value_print(render, *message) : NULL;

	(void) self;
	(void) out;
	if (message != NULL && text == NULL)
		return false;
	return fail(render->err, INFER_TEMPLATE_RAISED, "%.*s",
				text != NULL ? (int) (text->n_bytes < 300 ? text->n_bytes : 300) : 36,
				text != NULL ? text->bytes : "the chat template refused its input");
}

static bool
clock_read(const Render *render, struct tm *out)
{
	time_t now;

	memset(out, 0, sizeof(*out));
	if (render->now != NULL)
	{
		if (sscanf(render->now, "%d-%d-%dT%d:%d:%d", &out->tm_year, &out->tm_mon, &out->tm_mday,
				   &out->tm_hour, &out->tm_min, &out->tm_sec) < 3)
			return false;
		out->tm_year -= 1900;
		out->tm_mon -= 1;
		out->tm_isdst = -1;
		return mktime(out) != (time_t) -1; /* the day of the week */
	}
	now = time(NULL);
	return localtime_r(&now, out) != NULL;
}

GLOBAL(global_strftime_now)
{
	const String *format;
	struct tm now;
	char pattern[128];
	char *text = render_alloc(render, 512);
	size_t n;

	(void) self;
	if (text == NULL || !argument_string(render, arguments, 0, "format", &format))
		return false;
	if (format == NULL || format->n_bytes >= sizeof(pattern))
		return render_fail(render, "strftime_now needs a short format");
	memcpy(pattern, format->bytes, format->n_bytes);
	pattern[format->n_bytes] = '\0';
	if (!clock_read(render, &now))
		return render_fail(render, "\"now\" is not a time such as 2026-12-01T09:30:00");
	n = strftime(text, 512, pattern, &now);
	return string_out(render, string_make(render, text, n, true), out);
}

GLOBAL(global_joiner)
{
	static const String fallback = { .bytes = ", ", .n_bytes = 2 };
	const Value *separator = argument_get(arguments, 0, "sep");
	Joiner *joiner = render_alloc(render, sizeof(*joiner));

	(void) self;
	if (joiner == NULL)
		return false;
	joiner->separator = separator != NULL ? *separator : value_string(&fallback);
	*out = (Value){ .kind = VALUE_JOINER, .as.joiner = joiner };
	return true;
}

GLOBAL(global_cycler)
{
	Cycler *cycler = render_alloc(render, sizeof(*cycler));

	(void) self;
	if (cycler == NULL)
		return false;
	if (arguments->n_values == 0)
		return render_fail(render, "cycler has nothing to choose from");
	cycler->items = list_make(render, arguments->n_values);
	for (size_t i = 0; cycler->items != NULL && i < arguments->n_values; i++)
		if (!list_add(render, cycler->items, arguments->values[i]))
			return false;
	*out = (Value){ .kind = VALUE_CYCLER, .as.cycler = cycler };
	return cycler->items != NULL;
}

GLOBAL(global_tojson)
{
	Arguments rest = *arguments;

	(void) self;
	if (rest.n_values == 0)
		return render_fail(render, "tojson needs a value");
	rest.values++;
	rest.n_values--;
	return json_filter(render, arguments->values[0], &rest, out);
}

static const FunctionInfo globals[] = {
	{ "range", global_range },	 { "namespace", global_namespace },
	{ "dict", global_dict },	 { "raise_exception", global_raise_exception },
	{ "joiner", global_joiner }, { "strftime_now", global_strftime_now },
	{ "cycler", global_cycler }, { "tojson", global_tojson },
};

const FunctionInfo *
global_find(const String *name)
{
	return FUNCTION_FIND(globals, name);
}
