/*
 * template: a hostile chat template over a hostile context.
 *
 * The input is a template, and behind a zero byte the JSON object that it is rendered with; where
 * there is none, a fixed conversation. Nothing may crash, outlive its budget or hold more memory
 * than its arena. What renders is UTF-8, its spans are in order, and no character of the
 * conversation lies in one: the strings of the fixed context hold U+E000, which a template that
 * does not name it cannot write.
 */
#include "engine/text/template.h"
#include "engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PARSE_BYTES	 ((size_t) 16 << 20)
#define RENDER_BYTES ((size_t) 32 << 20)
#define MARK		 "\xEE\x80\x80"

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const TemplateBudget budget = { .n_steps = 200000, .depth = 100, .output_bytes = 1 << 18 };

static const char conversation[] =
	"{\"messages\":[{\"role\":\"user\",\"content\":\"" MARK "a b" MARK "\"},"
	"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"type\":\"function\","
	"\"function\":{\"name\":\"f" MARK "\",\"arguments\":{\"x\":1.5,\"y\":[true,\"" MARK "\""
	"]}}}]}],\"tools\":[],\"add_generation_prompt\":true,\"n\":7,"
	"\"now\":\"2026-12-01T09:30:00\"}";

/* What a template raises is its own text, which may be empty. */
static void
refusal_check(const InferError *err)
{
	if (err->code != INFER_TEMPLATE_RAISED &&
		(err->message[0] == '\0' || (err->code != INFER_BAD_INPUT && err->code != INFER_LIMIT)))
		abort();
}

/* Whether the source could write the mark itself: as it is, or by an escape. */
static bool
source_names_mark(const char *source, size_t n_bytes)
{
	return memmem(source, n_bytes, MARK, 3) != NULL || memmem(source, n_bytes, "e000", 4) != NULL ||
		   memmem(source, n_bytes, "E000", 4) != NULL;
}

static void
utf8_check(const char *text, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes;)
	{
		int n;

		if (utf8_decode(text + i, n_bytes - i, &n) == 0xFFFD && n == 1)
			abort();
		i += (size_t) n;
	}
}

static void
output_check(const TemplateOutput *out, bool may_hold_mark)
{
	size_t after = 0;

	if (out->n_bytes > budget.output_bytes)
		abort();
	utf8_check(out->text, out->n_bytes);
	for (size_t i = 0; i < out->n_spans; i++)
	{
		const TemplateSpan *span = &out->spans[i];

		if (span->n_bytes == 0 || (i > 0 && span->start <= after) || span->start > out->n_bytes ||
			span->n_bytes > out->n_bytes - span->start)
			abort();
		if (!may_hold_mark && memmem(out->text + span->start, span->n_bytes, MARK, 3) != NULL)
			abort();
		after = span->start + span->n_bytes;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	const char *source = (const char *) data;
	const char *end = n_bytes > 0 ? memchr(data, '\0', n_bytes) : NULL;
	size_t n_source = end != NULL ? (size_t) (end - source) : n_bytes;
	json_t *given = end != NULL ? json_loadb(end + 1, n_bytes - n_source - 1, 0, NULL) : NULL;
	json_t *context =
		json_is_object(given) ? json_incref(given) : json_loads(conversation, 0, NULL);
	bool may_hold_mark = context == given || source_names_mark(source, n_source);
	Arena parsed;
	Arena rendered;
	Template *tmpl;
	TemplateOutput out;
	InferError err;

	arena_init(&parsed, PARSE_BYTES);
	arena_init(&rendered, RENDER_BYTES);
	if (!template_parse(&parsed, source, n_source, &tmpl, &err) ||
		!template_render(tmpl, &rendered, context, NULL, &budget, &out, &err))
		refusal_check(&err);
	else
		output_check(&out, may_hold_mark);
	arena_reset(&rendered);
	arena_reset(&parsed);
	json_decref(context);
	json_decref(given);
	return 0;
}
