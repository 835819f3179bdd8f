/*
 * bpe.h: merges the bytes of a word into tokens: always the pair whose merge stands first in the
 * file, the leftmost of equals, until no pair of neighbours has a merge (Sennrich et al. 2016,
 * byte-level as in GPT-2). Private to text/.
 *
 * Symbols are numbers: the token ids, and behind them the parts of merges that are no tokens of
 * their own. A heap of candidate pairs makes a word of n bytes cost O(n log n).
 *
 * BpeMerges is read-only after bpe_read. BpeScratch belongs to one call of the tokenizer and grows
 * with the longest word, in the caller's arena.
 */
#ifndef INFER_ENGINE_BPE_H
#define INFER_ENGINE_BPE_H

#include "engine/text/vocab.h"

#include <stdatomic.h>

typedef struct BpePair
{
	uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
	int32_t rank;
	int32_t product;
} BpePair;

typedef struct BpeMerges
{
	BpePair *slots; /* open addressing */
	uint32_t n_slots;
	int32_t byte_symbols[256];
	int32_t n_symbols; /* ids from n_tokens on are no tokens */
	VocabText *extra;  /* [n_symbols - n_tokens] their texts */
} BpeMerges;

extern bool bpe_read(const Gguf *gguf, const Vocab *vocab, Arena *arena, BpeMerges *out,
					 InferError *err);

typedef struct BpeSymbol
{
	int32_t id;
	int32_t previous; /* index, or -1 */
	int32_t next;
} BpeSymbol;

typedef struct BpeCandidate
{
	int32_t rank;
	int32_t at; /* index of the left symbol */
	int32_t left;
	int32_t right;
	int32_t product;
} BpeCandidate;

typedef struct BpeScratch
{
	size_t capacity; /* bytes of a word */
	BpeSymbol *symbols;
	BpeCandidate *heap; /* [2 * capacity] */
	size_t n_heap;
	const _Atomic bool *cancel_wanted; /* or NULL; looked at now and then in a long word */
} BpeScratch;

extern bool bpe_cancelled(const BpeScratch *scratch);

/*
 * Writes the symbols of a word to ids (room for n_bytes); returns their number, or -1 when out of
 * memory or cancelled. All are tokens, or single bytes of a symbol that is none, as far as the
 * vocabulary has them: a byte that it lacks gives unknown_id.
 */
extern int32_t bpe_word(const BpeMerges *merges, const Vocab *vocab, Arena *arena,
						BpeScratch *scratch, const char *word, size_t n_bytes, int32_t *ids);

#endif
