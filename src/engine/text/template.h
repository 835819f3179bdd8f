/*
 * template.h: chat templates, the language that model files carry (Jinja2 as transformers uses it).
 *
 * A template is parsed once per model into an arena and is read-only from then on: any number of
 * threads may render it at the same time, each with an arena of its own.
 *
 *     lexer -> parser -> tree -> interpreter over values
 *
 * Environment: trim_blocks, lstrip_blocks, loop controls, autoescape off; globals and filters as
 * transformers sets them up (raise_exception, strftime_now, tojson with ensure_ascii off). Nothing
 * of the host is reachable from a template: no file, no environment, no object of ours.
 *
 * Template text comes from a file and is hostile until proven otherwise. A render runs under a
 * TemplateBudget: steps (one per node evaluated, per loop turn, per 64 bytes copied), depth, output
 * bytes and the arena's limit. Running out is INFER_LIMIT; raise_exception is INFER_TEMPLATE_RAISED
 * with the template's own text as message; any other mistake in the template or its input is
 * INFER_BAD_INPUT with the line of the template in DETAIL. Nothing recurses without counting depth.
 *
 * Output marks (design.md §3.5, user text is data): the renderer knows which bytes came from
 * template text and which from input values. A TemplateOutput carries, beside the text, the spans
 * that are template text; the tokenizer looks for special tokens only inside these.
 *
 * Source of the language: Jinja2 documentation 3.1; the reference results in golden/templates.
 */
#ifndef INFER_ENGINE_TEMPLATE_H
#define INFER_ENGINE_TEMPLATE_H

#include "engine/base/arena.h"
#include "shared/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Template Template;

typedef struct TemplateBudget
{
	uint64_t n_steps;	 /* default 10,000,000 */
	uint32_t depth;		 /* default 200 */
	size_t output_bytes; /* default 16 MiB */
} TemplateBudget;

extern const TemplateBudget template_default_budget;

/* A run of output bytes [start, start + n_bytes) that the template itself wrote. */
typedef struct TemplateSpan
{
	size_t start;
	size_t n_bytes;
} TemplateSpan;

typedef struct TemplateOutput
{
	const char *text; /* UTF-8, may contain '\0'; in the render arena */
	size_t n_bytes;
	const TemplateSpan *spans; /* ascending, disjoint, not touching */
	size_t n_spans;
} TemplateOutput;

/* Parses; the Template and all it points to live in `arena`. Source need not end in '\0'. */
extern bool template_parse(Arena *arena, const char *source, size_t n_bytes, Template **out,
						   InferError *err);

/*
 * Renders with the members of `context` (a JSON object: messages, tools, add_generation_prompt,
 * bos_token, eos_token, documents, enable_thinking, ...) as variables. Member "now"
 * ("2026-12-01T09:30:00") is not a variable: it is the clock of strftime_now; without it the real
 * local time is used. Output lives in `arena`.
 *
 * Bytes of the context members named in `trusted` (a NULL-terminated list, usually bos_token and
 * eos_token; may be NULL) count as template text. So does a member "role", wherever it lies, whose
 * value is one of the usual names (system, user, assistant, tool, developer, ipython, function):
 * templates write '<|' + role + '|>', and nobody can say anything with these words alone.
 */
extern bool template_render(const Template *tmpl, Arena *arena, const json_t *context,
							const char *const *trusted, const TemplateBudget *budget,
							TemplateOutput *out, InferError *err);

#endif
