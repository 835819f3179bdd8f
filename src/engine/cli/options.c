#include "engine/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
int_parse(const char *text, const CliOption *option, int64_t *out, char **end, InferError *err)
{
	errno = 0;
	*out = strtoll(text, end, 10);
	if (*end == text || errno != 0 || *out < option->min || *out > option->max)
		return fail(err, INFER_BAD_OPTION,
					"option %s has value \"%s\"\nIt takes an integer from %.0Lf to %.0Lf.",
					option->name, text, option->min, option->max);
	return true;
}

static bool
list_parse(const char *text, const CliOption *option, CliList *out, InferError *err)
{
	const char *at = text;
	char *end;

	out->n_items = 0;
	for (;;)
	{
		if (out->n_items == CLI_MAX_LIST)
			return fail(err, INFER_BAD_OPTION, "option %s has more than %d numbers", option->name,
						CLI_MAX_LIST);
		if (!int_parse(at, option, &out->items[out->n_items++], &end, err))
			return false;
		if (*end == '\0')
			return true;
		if (*end != ',')
			return fail(err, INFER_BAD_OPTION,
						"option %s has value \"%s\"\nIt takes integers divided by commas.",
						option->name, text);
		at = end + 1;
	}
}

static bool
value_parse(const char *text, const CliOption *option, InferError *err)
{
	char *end = NULL;
	double real;

	switch (option->type)
	{
		case CLI_TEXT:
			*(const char **) option->value = text;
			return true;
		case CLI_LIST:
			return list_parse(text, option, option->value, err);
		case CLI_INT:
			if (!int_parse(text, option, option->value, &end, err))
				return false;
			break;
		default:
			errno = 0;
			real = strtod(text, &end);
			if (end == text || !(real >= option->min && real <= option->max))
				return fail(err, INFER_BAD_OPTION,
							"option %s has value \"%s\"\nIt takes a number from %Lg to %Lg.",
							option->name, text, option->min, option->max);
			*(double *) option->value = real;
	}
	return *end == '\0' ||
		   fail(err, INFER_BAD_OPTION, "option %s has value \"%s\"\nIt takes a number.",
				option->name, text);
}

static const CliOption *
option_find(const char *name, const CliOption *options, size_t n_options)
{
	for (size_t i = 0; i < n_options; i++)
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

bool
options_parse(int argc, char **argv, const CliOption *options, size_t n_options, InferError *err)
{
	for (int i = 1; i < argc; i++)
	{
		const CliOption *option = option_find(argv[i], options, n_options);

		if (option == NULL)
			return fail(err, INFER_BAD_OPTION,
						"option \"%s\" is not known\n\nSee \"infer-engine help\".", argv[i]);
		if (option->given != NULL)
			*option->given = true;
		if (option->type == CLI_FLAG)
		{
			*(bool *) option->value = true;
			continue;
		}
		if (i + 1 == argc)
			return fail(err, INFER_BAD_OPTION, "option %s lacks its value", option->name);
		if (!value_parse(argv[++i], option, err))
			return false;
	}
	return true;
}

int
cli_fail(const char *command, const InferError *err)
{
	const char *parts[] = { err->message, err->detail, err->hint };

	fprintf(stderr, "infer-engine %s:", command);
	for (int i = 0; i < 3; i++)
	{
		size_t n = strlen(parts[i]);

		if (n > 0)
			fprintf(stderr, " %s%s", parts[i], strchr(".!?", parts[i][n - 1]) != NULL ? "" : ".");
	}
	fputc('\n', stderr);
	return 1;
}
