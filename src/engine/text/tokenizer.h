/*
 * tokenizer.h: text to token ids and back, equal to the reference tokenizer of the model.
 *
 * A Tokenizer is built from the metadata of a model file and is read-only afterwards: any thread
 * may use it, each with its own arena for results. It copies what it needs; the Gguf may be closed.
 *
 * Kinds are a table in tokenizer.c (tokenizer.ggml.model): "gpt2" is byte-level BPE with the
 * model's pre-tokenizer pattern (tokenizer.ggml.pre, a table in pretokenizer.c; PCRE2 with match
 * limits); others are added as rows with the functions of the kind.
 *
 * Hostile input: any bytes are a text (invalid UTF-8 is tokenized byte-wise where the vocabulary
 * can express it); time is O(n log n) in the longest pre-token; 1 MB of one character class
 * works. No recursion.
 *
 * Promise §3.5: tokenize_plain never yields a special (control) token, whatever the text says.
 */
#ifndef INFER_ENGINE_TOKENIZER_H
#define INFER_ENGINE_TOKENIZER_H

#include "engine/base/arena.h"
#include "engine/model/gguf.h"
#include "shared/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Tokenizer Tokenizer;

typedef struct TokenList
{
	int32_t *ids; /* in the caller's arena */
	size_t n_ids;
} TokenList;

/* A stretch of text and whether special tokens written in it count. */
typedef struct TokenizePart
{
	const char *text;
	size_t n_bytes;
	bool special; /* template text: control tokens are recognised */
} TokenizePart;

typedef struct TokenizeLimits
{
	/*
	 * > 0 stops soon after that many ids (a prompt far past the context need not be finished); the
	 * list is then longer than max_ids, never cut to look right.
	 */
	size_t max_ids;
	const _Atomic bool *cancel_wanted; /* NULL, or set by another thread: INFER_CANCELLED, soon */
} TokenizeLimits;

extern bool tokenizer_create(const Gguf *gguf, Tokenizer **out, InferError *err);
extern void tokenizer_destroy(Tokenizer *tokenizer);

/*
 * Tokenizes the parts as *one* text: a pre-token or merge may cross the border of two parts that
 * are both ordinary text, exactly as if the text had been tokenized in one piece; only a special
 * token ends a piece. limits: NULL, or what may end it early: megabytes of one word take seconds.
 */
extern bool tokenize_parts(const Tokenizer *tokenizer, Arena *arena, const TokenizePart *parts,
						   size_t n_parts, const TokenizeLimits *limits, TokenList *out,
						   InferError *err);

/* One part, special parsing off, no BOS: `ids` of the golden data. */
extern bool tokenize_plain(const Tokenizer *tokenizer, Arena *arena, const char *text,
						   size_t n_bytes, TokenList *out, InferError *err);

/* Whether the model wants BOS before and EOS after a raw text, and their ids (-1: none). */
extern bool tokenizer_adds_bos(const Tokenizer *tokenizer);
extern bool tokenizer_adds_eos(const Tokenizer *tokenizer);
extern int32_t tokenizer_bos_id(const Tokenizer *tokenizer);
extern int32_t tokenizer_eos_id(const Tokenizer *tokenizer);

extern size_t tokenizer_vocab_size(const Tokenizer *tokenizer);
extern bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t id);

/* Ends a generation: eos, eot, eom and the texts of engine-reference.md §C4. */
extern bool tokenizer_is_end(const Tokenizer *tokenizer, int32_t id);

/* The vocabulary's own text of a token ("<|im_end|>", "\u0120the"): '\0'-terminated, for templates
 * and info. */
extern const char *tokenizer_token_text(const Tokenizer *tokenizer, int32_t id, size_t *n_bytes);

/* Id of a vocabulary entry by its exact text, or -1. */
extern int32_t tokenizer_token_find(const Tokenizer *tokenizer, const char *text, size_t n_bytes);

/*
 * Bytes that a token stands for in running text, possibly a fragment of a character; control tokens
 * give 0 bytes unless `special`. Points into the tokenizer. Ids outside the vocabulary give 0
 * bytes.
 */
extern const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id, bool special,
								   size_t *n_bytes);

/* Of all pieces, special ones too. Walks the vocabulary: once per model. */
extern size_t tokenizer_max_piece_bytes(const Tokenizer *tokenizer);

/* Source of the chat template in the file, or NULL; '\0'-terminated copy. */
extern const char *tokenizer_chat_template(const Tokenizer *tokenizer, size_t *n_bytes);

/* ---- whole characters out of token pieces ---- */

/*
 * Pieces go in, only whole UTF-8 characters come out; up to 3 bytes wait for the rest. Bytes that
 * can never become a character leave as U+FFFD, as the reference decoder writes them.
 */
typedef struct Utf8Stream
{
	unsigned char pending[4];
	uint32_t n_pending;
} Utf8Stream;

/* Appends to out (room for 3 * (n_bytes + 3)); returns the number of bytes written. */
extern size_t utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t n_bytes, char *out);

/* What still waits, as U+FFFD; returns bytes written (at most 9). */
extern size_t utf8_stream_flush(Utf8Stream *stream, char *out);

/* ids to text with the rules above; in arena. */
extern bool detokenize(const Tokenizer *tokenizer, Arena *arena, const int32_t *ids, size_t n_ids,
					   bool special, char **text, size_t *n_bytes, InferError *err);

#endif
