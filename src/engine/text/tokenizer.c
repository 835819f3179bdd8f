#include "engine/text/tokenizer.h"

#include "engine/text/bpe.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/vocab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A token that is looked for in the text as it stands, before anything is cut into words. */
typedef struct WrittenToken
{
	int32_t id;
	bool control; /* only where special tokens count */
} WrittenToken;

struct Tokenizer
{
	Arena arena;
	Vocab vocab;
	BpeMerges merges;
	Pretokenizer *pretokenizer;
	PretokenizerTraits traits;
	bool adds_bos;
	bool adds_eos;
	const char *chat_template;
	size_t n_template;

	/* by first byte, the longest first: those of byte b are written[starts[b] .. starts[b + 1]) */
	WrittenToken *written;
	int32_t starts[257];
};

/* ---- creation ---- */

/* The kinds of vocabularies (tokenizer.ggml.model). */
static const struct
{
	const char *name;
	const char *about;
	bool runs;
} kinds[] = {
	{ "gpt2", "byte-level BPE", true },	   { "llama", "SentencePiece BPE", false },
	{ "bert", "WordPiece", false },		   { "t5", "SentencePiece unigram", false },
	{ "rwkv", "RWKV World", false },	   { "plamo2", "PLaMo-2", false },
	{ "no_vocab", "no tokenizer", false }, { "none", "no tokenizer", false },
};

static bool
kind_check(const Gguf *gguf, InferError *err)
{
	GgufText name = { "", 0 };

	if (!gguf_get_text(gguf, "tokenizer.ggml.model", &name, err))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		if (strlen(kinds[i].name) != name.n_bytes ||
			memcmp(kinds[i].name, name.bytes, name.n_bytes) != 0)
			continue;
		return kinds[i].runs ||
			   fail(err, INFER_BAD_MODEL,
					"model file \"%s\" has a tokenizer of kind \"%s\" (%s), which is not supported "
					"yet",
					gguf_name(gguf), kinds[i].name, kinds[i].about);
	}
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" has a tokenizer of an unknown kind\n"
				"tokenizer.ggml.model is \"%.*s\".",
				gguf_name(gguf), (int) (name.n_bytes < 64 ? name.n_bytes : 64), name.bytes);
}

static int
written_compare(const void *a, const void *b, void *context)
{
	const Vocab *vocab = context;
	const VocabText *x = &vocab->tokens[((const WrittenToken *) a)->id].text;
	const VocabText *y = &vocab->tokens[((const WrittenToken *) b)->id].text;

	if (x->bytes[0] != y->bytes[0])
		return (unsigned char) x->bytes[0] < (unsigned char) y->bytes[0] ? -1 : 1;
	if (x->n_bytes != y->n_bytes)
		return x->n_bytes > y->n_bytes ? -1 : 1;
	return memcmp(x->bytes, y->bytes, x->n_bytes);
}

static bool
type_is_written(TokenType type)
{
	return type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNKNOWN;
}

static bool
written_build(Tokenizer *tokenizer)
{
	Vocab *vocab = &tokenizer->vocab;
	int32_t n = 0;

	for (int32_t id = 0; id < vocab->n_tokens; id++)
		n += type_is_written(vocab->tokens[id].type) && vocab->tokens[id].text.n_bytes > 0;
	tokenizer->written =
		arena_alloc_array(&tokenizer->arena, (size_t) n + 1, sizeof(*tokenizer->written));
	if (tokenizer->written == NULL)
		return false;
	n = 0;
	for (int32_t id = 0; id < vocab->n_tokens; id++)
		if (type_is_written(vocab->tokens[id].type) && vocab->tokens[id].text.n_bytes > 0)
			tokenizer->written[n++] =
				(WrittenToken){ id, vocab->tokens[id].type != TOKEN_USER_DEFINED };
	qsort_r(tokenizer->written, (size_t) n, sizeof(*tokenizer->written), written_compare, vocab);
	for (int byte = 0, i = 0; byte <= 256; byte++)
	{
		while (i < n &&
			   (unsigned char) vocab->tokens[tokenizer->written[i].id].text.bytes[0] < byte)
			i++;
		tokenizer->starts[byte] = i;
	}
	return true;
}

static bool
template_read(const Gguf *gguf, Tokenizer *tokenizer, InferError *err)
{
	GgufText text = { NULL, 0 };

	if (!gguf_get_text(gguf, "tokenizer.chat_template", &text, err))
		return false;
	if (text.bytes == NULL)
		return true;
	tokenizer->chat_template = arena_copy_text(&tokenizer->arena, text.bytes, text.n_bytes);
	tokenizer->n_template = text.n_bytes;
	return tokenizer->chat_template != NULL ||
		   fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a chat template");
}

static bool
tokenizer_fill(const Gguf *gguf, Tokenizer *tokenizer, InferError *err)
{
	GgufText pre = { "", 0 };

	if (!kind_check(gguf, err) || !vocab_read(gguf, &tokenizer->arena, &tokenizer->vocab, err) ||
		!bpe_read(gguf, &tokenizer->vocab, &tokenizer->arena, &tokenizer->merges, err) ||
		!gguf_get_text(gguf, "tokenizer.ggml.pre", &pre, err) ||
		!pretokenizer_create(pre, gguf_name(gguf), &tokenizer->pretokenizer, &tokenizer->traits,
							 err) ||
		!template_read(gguf, tokenizer, err))
		return false;
	tokenizer->adds_bos = tokenizer->traits.adds_bos;
	if (!gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &tokenizer->adds_bos, err) ||
		!gguf_get_bool(gguf, "tokenizer.ggml.add_eos_token", &tokenizer->adds_eos, err))
		return false;
	tokenizer->adds_bos = tokenizer->adds_bos && tokenizer->vocab.bos_id >= 0;
	tokenizer->adds_eos = tokenizer->adds_eos && tokenizer->vocab.eos_id >= 0;
	return written_build(tokenizer) ||
		   fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
}

bool
tokenizer_create(const Gguf *gguf, Tokenizer **out, InferError *err)
{
	Tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));

	if (tokenizer == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	arena_init(&tokenizer->arena, 0);
	if (!tokenizer_fill(gguf, tokenizer, err))
	{
		tokenizer_destroy(tokenizer);
		return false;
	}
	*out = tokenizer;
	return true;
}

void
tokenizer_destroy(Tokenizer *tokenizer)
{
	if (tokenizer == NULL)
		return;
	pretokenizer_destroy(tokenizer->pretokenizer);
	arena_reset(&tokenizer->arena);
	free(tokenizer);
}

/* ---- tokenizing ---- */

/* The parts as one text, and up to where special tokens count. */
typedef struct Source
{
	const char *text;
	size_t n_bytes;
	const TokenizePart *parts;
	size_t n_parts;
} Source;

typedef struct TokenizeRun
{
	const Tokenizer *tokenizer;
	Arena *arena;
	PretokenizerRun words;
	BpeScratch scratch;
	int32_t *ids;
	size_t n_ids;
	size_t capacity;
	TokenizeLimits limits;
} TokenizeRun;

static bool
fail_memory(InferError *err)
{
	return fail(err, INFER_OUT_OF_MEMORY,
				"out of memory while tokenizing\n\nSend a shorter prompt.");
}

/* Room for n more ids. */
static bool
ids_reserve(TokenizeRun *run, size_t n)
{
	size_t capacity = run->capacity > 0 ? run->capacity : 256;
	int32_t *ids;

	if (n <= run->capacity - run->n_ids)
		return true;
	while (capacity - run->n_ids < n)
		capacity *= 2;
	ids = arena_alloc_array(run->arena, capacity, sizeof(*ids));
	if (ids == NULL)
		return false;
	if (run->n_ids > 0)
		memcpy(ids, run->ids, run->n_ids * sizeof(*ids));
	run->ids = ids;
	run->capacity = capacity;
	return true;
}

static bool
is_full(const TokenizeRun *run)
{
	return run->limits.max_ids > 0 && run->n_ids > run->limits.max_ids;
}

static bool
word_add(TokenizeRun *run, const char *word, size_t n_bytes)
{
	const Tokenizer *tokenizer = run->tokenizer;
	char symbols[512];
	size_t n_symbols = 0;
	int32_t n;

	if (!ids_reserve(run, n_bytes))
		return false;
	if (tokenizer->traits.ignore_merges && n_bytes <= sizeof(symbols) / 2)
	{
		int32_t id;

		for (size_t i = 0; i < n_bytes; i++)
			n_symbols += (size_t) byte_symbol((unsigned char) word[i], symbols + n_symbols);
		id = vocab_find(&tokenizer->vocab, symbols, n_symbols);
		if (id >= 0)
		{
			run->ids[run->n_ids++] = id;
			return true;
		}
	}
	n = bpe_word(&tokenizer->merges, &tokenizer->vocab, run->arena, &run->scratch, word, n_bytes,
				 run->ids + run->n_ids);
	run->n_ids += n > 0 ? (size_t) n : 0;
	return n >= 0;
}

/* Text without written tokens. */
static bool
text_add(TokenizeRun *run, const char *text, size_t n_bytes)
{
	size_t start;
	size_t end;

	pretokenizer_set(&run->words, text, n_bytes);
	while (!is_full(run) && pretokenizer_next(&run->words, &start, &end))
		if (bpe_cancelled(&run->scratch) || !word_add(run, text + start, end - start))
			return false;
	return true;
}

/* Bytes from `at` on that lie in parts where special tokens count; *part is moved along. */
static size_t
special_run(const Source *source, size_t at, size_t *part, size_t *part_start)
{
	size_t end;

	while (*part < source->n_parts && at >= *part_start + source->parts[*part].n_bytes)
		*part_start += source->parts[(*part)++].n_bytes;
	end = *part_start;
	for (size_t p = *part; p < source->n_parts && source->parts[p].special; p++)
		end += source->parts[p].n_bytes;
	return end > at ? end - at : 0;
}

/* The longest written token at this place, or NULL. */
static const WrittenToken *
written_find(const Tokenizer *tokenizer, const char *text, size_t n_left, size_t n_special)
{
	unsigned char first = (unsigned char) text[0];

	for (int32_t i = tokenizer->starts[first]; i < tokenizer->starts[first + 1]; i++)
	{
		const WrittenToken *written = &tokenizer->written[i];
		const VocabText *token = &tokenizer->vocab.tokens[written->id].text;

		if (token->n_bytes <= (written->control ? n_special : n_left) &&
			memcmp(token->bytes, text, token->n_bytes) == 0)
			return written;
	}
	return NULL;
}

static bool
source_add(TokenizeRun *run, const Source *source)
{
	const Tokenizer *tokenizer = run->tokenizer;
	size_t part = 0;
	size_t part_start = 0;
	size_t start = 0;

	for (size_t at = 0; at < source->n_bytes && !is_full(run);)
	{
		unsigned char first = (unsigned char) source->text[at];
		const WrittenToken *written = NULL;

		if (tokenizer->starts[first] < tokenizer->starts[first + 1])
			written = written_find(tokenizer, source->text + at, source->n_bytes - at,
								   special_run(source, at, &part, &part_start));
		if (written == NULL)
		{
			at++;
			continue;
		}
		if (!text_add(run, source->text + start, at - start) || !ids_reserve(run, 1))
			return false;
		run->ids[run->n_ids++] = written->id;
		at += tokenizer->vocab.tokens[written->id].text.n_bytes;
		start = at;
	}
	return is_full(run) || text_add(run, source->text + start, source->n_bytes - start);
}

/* One part is its own text; several are put behind each other. */
static bool
source_join(Arena *arena, const TokenizePart *parts, size_t n_parts, Source *out)
{
	size_t n_bytes = 0;
	char *text;

	*out = (Source){ .parts = parts, .n_parts = n_parts };
	for (size_t i = 0; i < n_parts; i++)
		if (__builtin_add_overflow(n_bytes, parts[i].n_bytes, &n_bytes))
			return false;
	out->n_bytes = n_bytes;
	if (n_parts == 1)
	{
		out->text = parts[0].text;
		return true;
	}
	text = arena_alloc(arena, n_bytes + 1);
	out->text = text;
	for (size_t i = 0; text != NULL && i < n_parts; i++)
	{
		if (parts[i].n_bytes > 0)
			memcpy(text, parts[i].text, parts[i].n_bytes);
		text += parts[i].n_bytes;
	}
	return out->text != NULL;
}

bool
tokenize_parts(const Tokenizer *tokenizer, Arena *arena, const TokenizePart *parts, size_t n_parts,
			   const TokenizeLimits *limits, TokenList *out, InferError *err)
{
	TokenizeRun run = { .tokenizer = tokenizer, .arena = arena };
	Source source;
	bool done;

	if (limits != NULL)
		run.limits = *limits;
	run.scratch.cancel_wanted = run.limits.cancel_wanted;
	if (!source_join(arena, parts, n_parts, &source))
		return fail_memory(err);
	if (source.n_bytes > INT32_MAX)
		return fail(err, INFER_BAD_INPUT, "text of %zu bytes is too long to be tokenized",
					source.n_bytes);
	if (!pretokenizer_begin(&run.words, tokenizer->pretokenizer, err))
		return false;
	done = source_add(&run, &source);
	pretokenizer_end(&run.words);
	if (!done && bpe_cancelled(&run.scratch))
		return fail(err, INFER_CANCELLED, "request was cancelled");
	if (!done)
		return fail_memory(err);
	out->ids = run.ids;
	out->n_ids = run.n_ids;
	return true;
}

bool
tokenize_plain(const Tokenizer *tokenizer, Arena *arena, const char *text, size_t n_bytes,
			   TokenList *out, InferError *err)
{
	TokenizePart part = { text, n_bytes, false };

	return tokenize_parts(tokenizer, arena, &part, 1, NULL, out, err);
}

/* ---- what the vocabulary says ---- */

bool
tokenizer_adds_bos(const Tokenizer *tokenizer)
{
	return tokenizer->adds_bos;
}

bool
tokenizer_adds_eos(const Tokenizer *tokenizer)
{
	return tokenizer->adds_eos;
}

int32_t
tokenizer_bos_id(const Tokenizer *tokenizer)
{
	return tokenizer->vocab.bos_id;
}

int32_t
tokenizer_eos_id(const Tokenizer *tokenizer)
{
	return tokenizer->vocab.eos_id;
}

size_t
tokenizer_vocab_size(const Tokenizer *tokenizer)
{
	return (size_t) tokenizer->vocab.n_tokens;
}

static const VocabToken *
token_at(const Tokenizer *tokenizer, int32_t id)
{
	return id >= 0 && id < tokenizer->vocab.n_tokens ? &tokenizer->vocab.tokens[id] : NULL;
}

bool
tokenizer_is_special(const Tokenizer *tokenizer, int32_t id)
{
	const VocabToken *token = token_at(tokenizer, id);

	return token != NULL && (token->type == TOKEN_CONTROL || token->type == TOKEN_UNKNOWN);
}

bool
tokenizer_is_end(const Tokenizer *tokenizer, int32_t id)
{
	const VocabToken *token = token_at(tokenizer, id);

	return token != NULL && token->is_end;
}

const char *
tokenizer_token_text(const Tokenizer *tokenizer, int32_t id, size_t *n_bytes)
{
	const VocabToken *token = token_at(tokenizer, id);

	*n_bytes = token != NULL ? token->text.n_bytes : 0;
	return token != NULL ? token->text.bytes : "";
}

int32_t
tokenizer_token_find(const Tokenizer *tokenizer, const char *text, size_t n_bytes)
{
	return vocab_find(&tokenizer->vocab, text, n_bytes);
}

const char *
tokenizer_piece(const Tokenizer *tokenizer, int32_t id, bool special, size_t *n_bytes)
{
	const VocabToken *token = token_at(tokenizer, id);

	*n_bytes = 0;
	if (token == NULL || (!special && tokenizer_is_special(tokenizer, id)))
		return "";
	*n_bytes = token->piece.n_bytes;
	return token->piece.bytes;
}

size_t
tokenizer_max_piece_bytes(const Tokenizer *tokenizer)
{
	size_t max_bytes = 0;

	for (int32_t id = 0; id < tokenizer->vocab.n_tokens; id++)
		if (tokenizer->vocab.tokens[id].piece.n_bytes > max_bytes)
			max_bytes = tokenizer->vocab.tokens[id].piece.n_bytes;
	return max_bytes;
}

const char *
tokenizer_chat_template(const Tokenizer *tokenizer, size_t *n_bytes)
{
	*n_bytes = tokenizer->n_template;
	return tokenizer->chat_template;
}
