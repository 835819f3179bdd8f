#include "shared/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Stands for the format's own newlines while arguments are filled in: no argument contains it. */
#define PART_DIVIDER '\x1e'

#define FORMAT_BYTES 1024

static const struct
{
	const char *name;
	bool soft;
} codes[INFER_N_CODES] = {
	[INFER_OK] = { "INFER_OK", false },
	[INFER_INTERNAL] = { "INFER_INTERNAL", false },
	[INFER_BAD_OPTION] = { "INFER_BAD_OPTION", false },
	[INFER_BAD_INPUT] = { "INFER_BAD_INPUT", false },
	[INFER_UNKNOWN_MODEL] = { "INFER_UNKNOWN_MODEL", false },
	[INFER_MODEL_NOT_READY] = { "INFER_MODEL_NOT_READY", false },
	[INFER_BAD_MODEL] = { "INFER_BAD_MODEL", false },
	[INFER_NO_ENGINE] = { "INFER_NO_ENGINE", false },
	[INFER_NO_PRIVILEGE] = { "INFER_NO_PRIVILEGE", false },
	[INFER_CANCELLED] = { "INFER_CANCELLED", false },
	[INFER_BUDGET_SPENT] = { "INFER_BUDGET_SPENT", false },
	[INFER_PROMPT_TOO_LONG] = { "INFER_PROMPT_TOO_LONG", true },
	[INFER_QUEUE_FULL] = { "INFER_QUEUE_FULL", true },
	[INFER_ENGINE_DIED] = { "INFER_ENGINE_DIED", true },
	[INFER_DEADLINE] = { "INFER_DEADLINE", true },
	[INFER_SCHEMA_INCOMPLETE] = { "INFER_SCHEMA_INCOMPLETE", true },
	[INFER_OUT_OF_KV] = { "INFER_OUT_OF_KV", true },
	[INFER_OUT_OF_MEMORY] = { "INFER_OUT_OF_MEMORY", true },
	[INFER_NOT_REPRESENTABLE] = { "INFER_NOT_REPRESENTABLE", true },
	[INFER_IO] = { "INFER_IO", false },
	[INFER_LIMIT] = { "INFER_LIMIT", false },
	[INFER_TEMPLATE_RAISED] = { "INFER_TEMPLATE_RAISED", false },
};

/* Copies a part and cuts it, if it must, before the first byte of a character that does not fit. */
static void
part_copy(char *part, const char *text, size_t n_bytes)
{
	size_t n = n_bytes < INFER_ERROR_TEXT_BYTES - 1 ? n_bytes : INFER_ERROR_TEXT_BYTES - 1;

	while (n > 0 && n < n_bytes && ((unsigned char) text[n] & 0xC0) == 0x80)
		n--;
	memcpy(part, text, n);
	part[n] = '\0';
}

#undef fail
#undef fail_prefix

bool
fail(InferError *err, InferCode code, const char *format, ...)
{
	char divided[FORMAT_BYTES];
	char text[3 * INFER_ERROR_TEXT_BYTES + 512];
	char *parts[3] = { err->message, err->detail, err->hint };
	const char *from = text;
	va_list args;

	snprintf(divided, sizeof(divided), "%s", format);
	for (char *c = divided; *c != '\0'; c++)
		if (*c == '\n')
			*c = PART_DIVIDER;

	va_start(args, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	vsnprintf(text, sizeof(text), divided, args);
#pragma GCC diagnostic pop
	va_end(args);

	infer_error_clear(err);
	err->code = code;
	for (int i = 0; i < 3; i++)
	{
		const char *end = i < 2 ? strchr(from, PART_DIVIDER) : NULL;

		part_copy(parts[i], from, end != NULL ? (size_t) (end - from) : strlen(from));
		if (end == NULL)
			break;
		from = end + 1;
	}
	return false;
}

bool
fail_prefix(InferError *err, const char *format, ...)
{
	char text[2 * INFER_ERROR_TEXT_BYTES];
	size_t n_bytes;
	va_list args;

	va_start(args, format);
	vsnprintf(text, INFER_ERROR_TEXT_BYTES, format, args);
	va_end(args);
	n_bytes = strlen(text);
	snprintf(text + n_bytes, sizeof(text) - n_bytes, "%s", err->message);
	part_copy(err->message, text, strlen(text));
	return false;
}

void
infer_error_clear(InferError *err)
{
	err->code = INFER_OK;
	err->message[0] = '\0';
	err->detail[0] = '\0';
	err->hint[0] = '\0';
}

const char *
infer_code_name(uint32_t code)
{
	return code < INFER_N_CODES ? codes[code].name : "unknown code";
}

bool
infer_code_is_soft(uint32_t code)
{
	return code < INFER_N_CODES && codes[code].soft;
}
