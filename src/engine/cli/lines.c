#include "engine/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *
lines_next(CliLines *lines, InferError *err)
{
	json_error_t where;
	json_t *json;
	ssize_t n;

	do
	{
		n = getline(&lines->line, &lines->capacity, stdin);
		if (n < 0)
			return NULL;
		lines->number++;
	} while (strspn(lines->line, " \t\r\n") == (size_t) n);
	json = json_loadb(lines->line, (size_t) n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
	if (json == NULL)
		fail(err, INFER_BAD_INPUT, "line %zu of the input is not JSON\n%s.", lines->number,
			 where.text);
	return json;
}

void
lines_close(CliLines *lines)
{
	free(lines->line);
}

bool
ids_of_json(const json_t *json, int64_t limit, Arena *arena, TokenList *out, InferError *err)
{
	size_t n = json_array_size(json);

	if (!json_is_array(json))
		return fail(err, INFER_BAD_INPUT, "a JSON array of token ids was expected");
	out->ids = arena_alloc_array(arena, n + 1, sizeof(*out->ids));
	if (out->ids == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory");
	for (size_t i = 0; i < n; i++)
	{
		const json_t *item = json_array_get(json, i);
		int64_t id = json_integer_value(item);

		if (!json_is_integer(item) || id < 0 || id >= limit)
			return fail(err, INFER_BAD_INPUT,
						"item %zu of the token ids is no token\n"
						"The model has tokens 0 to %" PRId64 ".",
						i + 1, limit - 1);
		out->ids[i] = (int32_t) id;
	}
	out->n_ids = n;
	return true;
}

json_t *
ids_to_json(const int32_t *ids, size_t n_ids)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n_ids; i++)
		json_array_append_new(array, json_integer(ids[i]));
	return array;
}

/*
 * Characters that JSON lets stand in a string although many readers (Python's splitlines, for one)
 * take them for the end of a line: NEL, LINE SEPARATOR, PARAGRAPH SEPARATOR.
 */
static const struct
{
	const char *utf8;
	const char *escape;
} line_ends[] = { { "\xc2\x85", "\\u0085" },
				  { "\xe2\x80\xa8", "\\u2028" },
				  { "\xe2\x80\xa9", "\\u2029" } };

/* Length of the line end that text begins with, written as its escape; 0 when there is none. */
static size_t
line_end_print(const char *text)
{
	for (size_t i = 0; i < sizeof(line_ends) / sizeof(line_ends[0]); i++)
	{
		size_t n = strlen(line_ends[i].utf8);

		if (strncmp(text, line_ends[i].utf8, n) == 0)
		{
			fputs(line_ends[i].escape, stdout);
			return n;
		}
	}
	return 0;
}

bool
json_print(json_t *json)
{
	char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
	bool done;

	for (const char *at = text; at != NULL && *at != '\0';)
	{
		size_t n = line_end_print(at);

		if (n == 0)
			putchar(*at++);
		at += n;
	}
	done = text != NULL && putchar('\n') != EOF;

	free(text);
	json_decref(json);
	return done;
}
