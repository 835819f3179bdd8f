/*
 * vocab.h: the vocabulary of a model file: text, type and running bytes of each token, found by id
 * or by text. Private to text/.
 *
 * Byte-level vocabularies write the bytes of a token as printable characters (a space is U+0120);
 * `piece` holds the bytes themselves. Tokens that the file calls user-defined, and control tokens,
 * stand for their text as it is.
 *
 * Owner: an arena. Read-only after vocab_read.
 */
#ifndef INFER_ENGINE_VOCAB_H
#define INFER_ENGINE_VOCAB_H

#include "engine/base/arena.h"
#include "engine/model/gguf.h"

#include <stdint.h>

/* tokenizer.ggml.token_type */
typedef enum TokenType
{
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER_DEFINED = 4,
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6
} TokenType;

typedef struct VocabText
{
	const char *bytes; /* '\0' behind */
	size_t n_bytes;
} VocabText;

typedef struct VocabToken
{
	VocabText text;
	VocabText piece;
	TokenType type;
	bool is_end; /* ends a generation */
} VocabToken;

typedef struct Vocab
{
	int32_t n_tokens;
	VocabToken *tokens;
	int32_t *slots;	  /* open addressing by text: id, or -1 */
	uint32_t n_slots; /* a power of two */
	int32_t bos_id;	  /* -1: none */
	int32_t eos_id;
	int32_t unknown_id;
} Vocab;

extern bool vocab_read(const Gguf *gguf, Arena *arena, Vocab *out, InferError *err);

/* Id of the token with exactly this text, or -1. Of duplicates the first. */
extern int32_t vocab_find(const Vocab *vocab, const char *text, size_t n_bytes);

extern uint64_t text_hash(const char *text, size_t n_bytes);

/* The character that stands for a byte, as UTF-8 (1 or 2 bytes); returns their number. */
extern int byte_symbol(unsigned char byte, char *out);

#endif
