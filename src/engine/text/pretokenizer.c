#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/text/pretokenizer.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define CONTRACTIONS	 "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define SPACES			 "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2			 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define LLAMA3(digits)	 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER			 "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER			 "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix, digits) \
	"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix \
	"|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

typedef struct PretokenizerInfo
{
	const char *names; /* with a space before and after each */
	PretokenizerTraits traits;
	const char *patterns[PRETOKENIZER_MAX_STAGES];
} PretokenizerInfo;

static const PretokenizerInfo infos[] = {
	{ " gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en "
	  "jina-v2-code roberta-bpe mpt olmo jais trillion granite-docling ", { false, false }, { GPT2 } },
	{ " smollm starcoder refact command-r codeshell exaone minerva-7b ", { false, false }, { "\\p{N}", GPT2 } },
	{ " llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", { true, true },
	  { LLAMA3("\\p{N}{1,3}") } },
	{ " dbrx smaug-bpe glm4 chatglm-bpe ", { false, false }, { LLAMA3("\\p{N}{1,3}") } },
	{ " qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open grok-2 seed-coder bailingmoe bailingmoe2 "
	  "llada-moe megrez ", { false, false }, { LLAMA3("\\p{N}") } },
	{ " gpt-4o llama4 kanana2 talkie minimax-m2 ", { true, false },
	  { CASED("(?:" CONTRACTIONS ")?", "\\p{N}{1,3}") } },
	{ " tekken ", { true, true }, { CASED("", "\\p{N}") } },
	{ " deepseek-v3 hunyuan-dense joyai-llm ", { false, false },
	  { "\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
		"| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES } },
	{ " deepseek-coder ", { false, false },
	  { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\\x{4e00}-\\x{9fa5}\\x{0800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
		"\\p{N}" } },
	{ " falcon ", { false, false }, { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]" } },
	{ " default ", { false, false },
	  { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
	{ " bloom poro-chat gpt3-finnish ", { false, false },
	  { " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{0964}\\x{06d4}\\x{060c})]+" } },
};
/* clang-format on */

struct Pretokenizer
{
	int n_stages;
	pcre2_code *patterns[PRETOKENIZER_MAX_STAGES];
};

static const PretokenizerInfo *
info_find(GgufText name)
{
	char padded[66];

	if (name.n_bytes == 0)
		return &infos[0];
	if (name.n_bytes > sizeof(padded) - 2 || memchr(name.bytes, ' ', name.n_bytes) != NULL)
		return NULL;
	padded[0] = ' ';
	memcpy(padded + 1, name.bytes, name.n_bytes);
	padded[name.n_bytes + 1] = ' ';
	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++)
		if (memmem(infos[i].names, strlen(infos[i].names), padded, name.n_bytes + 2) != NULL)
			return &infos[i];
	return NULL;
}

bool
pretokenizer_create(GgufText name, const char *file, Pretokenizer **out, PretokenizerTraits *traits,
					InferError *err)
{
	const PretokenizerInfo *info = info_find(name);
	Pretokenizer *pretokenizer;

	/* A near one would give other tokens, and answers that are a little wrong. */
	if (info == NULL)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" has pre-tokenizer \"%.*s\", which is not supported yet",
					file, (int) (name.n_bytes < 64 ? name.n_bytes : 64), name.bytes);
	pretokenizer = calloc(1, sizeof(*pretokenizer));
	if (pretokenizer == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	for (int i = 0; i < PRETOKENIZER_MAX_STAGES && info->patterns[i] != NULL; i++)
	{
		int code;
		PCRE2_SIZE at;

		pretokenizer->patterns[i] =
			pcre2_compile((PCRE2_SPTR) info->patterns[i], PCRE2_ZERO_TERMINATED,
						  PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &at, NULL);
		if (pretokenizer->patterns[i] == NULL)
		{
			pretokenizer_destroy(pretokenizer);
			return fail(err, INFER_INTERNAL, "pattern %d of pre-tokenizer \"%.*s\" is wrong", i,
						(int) name.n_bytes, name.bytes);
		}
		/* Without JIT (a hardened kernel) matching is slower and the same. */
		pcre2_jit_compile(pretokenizer->patterns[i], PCRE2_JIT_COMPLETE);
		pretokenizer->n_stages = i + 1;
	}
	*traits = info->traits;
	*out = pretokenizer;
	return true;
}

void
pretokenizer_destroy(Pretokenizer *pretokenizer)
{
	if (pretokenizer == NULL)
		return;
	for (int i = 0; i < PRETOKENIZER_MAX_STAGES; i++)
		pcre2_code_free(pretokenizer->patterns[i]);
	free(pretokenizer);
}

bool
pretokenizer_begin(PretokenizerRun *run, const Pretokenizer *pretokenizer, InferError *err)
{
	memset(run, 0, sizeof(*run));
	run->pretokenizer = pretokenizer;
	run->matches = pcre2_match_data_create(1, NULL);
	return run->matches != NULL || fail(err, INFER_OUT_OF_MEMORY, "out of memory while tokenizing");
}

void
pretokenizer_end(PretokenizerRun *run)
{
	pcre2_match_data_free(run->matches);
}

void
pretokenizer_set(PretokenizerRun *run, const char *text, size_t n_bytes)
{
	run->text = text;
	run->depth = n_bytes > 0 ? 1 : 0;
	run->frames[0] = (PretokenizerFrame){ .end = n_bytes };
}

/*
 * Takes the next piece of a stage's fragment: a match, or what lies before one. A pattern sees its
 * fragment as the whole text, so "followed by no space" is true at the fragment's end.
 */
static void
stage_next(PretokenizerRun *run, int stage, size_t *start, size_t *end)
{
	PretokenizerFrame *frame = &run->frames[stage];
	const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(run->matches);
	const pcre2_code *pattern = run->pretokenizer->patterns[stage];
	/* The fragment starts where its first piece did: nothing looks behind, so any start will do. */
	PCRE2_SPTR from = (PCRE2_SPTR) run->text + frame->at;

	*start = frame->at;
	if (frame->match_end > frame->at)
	{
		*end = frame->at = frame->match_end;
		return;
	}
	if (pcre2_match(pattern, from, frame->end - frame->at, 0, 0, run->matches, NULL) < 0 ||
		bounds[1] == bounds[0])
		*end = frame->end;
	else if (bounds[0] > 0)
	{
		*end = *start + bounds[0];
		frame->match_end = *start + bounds[1];
	}
	else
		*end = *start + bounds[1];
	frame->at = *end;
}

bool
pretokenizer_next(PretokenizerRun *run, size_t *start, size_t *end)
{
	while (run->depth > 0)
	{
		int stage = run->depth - 1;

		if (run->frames[stage].at == run->frames[stage].end)
		{
			run->depth--;
			continue;
		}
		stage_next(run, stage, start, end);
		if (run->depth == run->pretokenizer->n_stages)
			return true;
		run->frames[run->depth++] = (PretokenizerFrame){ .end = *end, .at = *start };
	}
	return false;
}
