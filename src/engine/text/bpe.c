#include "engine/text/bpe.h"

#include "engine/text/utf8.h"

#include <inttypes.h>
#include <string.h>

#define MAX_MERGES (1 << 24)
#define NO_PAIR	   UINT64_MAX

/* A merge takes about a microsecond in a long word: a cancel is seen within a few milliseconds. */
#define MERGES_BETWEEN_LOOKS 4096

static uint64_t
pair_of(int32_t left, int32_t right)
{
	return (uint64_t) (uint32_t) left << 32 | (uint32_t) right;
}

static BpePair *
pair_slot(const BpeMerges *merges, uint64_t pair)
{
	uint64_t hash = pair * 0x9e3779b97f4a7c15u;
	uint32_t slot = (uint32_t) (hash >> 32) & (merges->n_slots - 1);

	while (merges->slots[slot].pair != NO_PAIR && merges->slots[slot].pair != pair)
		slot = (slot + 1) & (merges->n_slots - 1);
	return &merges->slots[slot];
}

/* ---- reading: texts of merges become numbers ---- */

/* Parts of merges that are no tokens; found by a table of their own while the file is read. */
typedef struct ExtraIndex
{
	int32_t *slots; /* index in extra, or -1 */
	uint32_t n_slots;
} ExtraIndex;

static int32_t
symbol_intern(const Vocab *vocab, Arena *arena, BpeMerges *merges, ExtraIndex *index,
			  const char *text, size_t n_bytes)
{
	int32_t id = vocab_find(vocab, text, n_bytes);
	uint32_t slot;

	if (id >= 0)
		return id;
	slot = (uint32_t) text_hash(text, n_bytes) & (index->n_slots - 1);
	for (; index->slots[slot] >= 0; slot = (slot + 1) & (index->n_slots - 1))
	{
		const VocabText *found = &merges->extra[index->slots[slot]];

		if (found->n_bytes == n_bytes && memcmp(found->bytes, text, n_bytes) == 0)
			return vocab->n_tokens + index->slots[slot];
	}
	index->slots[slot] = merges->n_symbols - vocab->n_tokens;
	merges->extra[index->slots[slot]] =
		(VocabText){ arena_copy_text(arena, text, n_bytes), n_bytes };
	return merges->extra[index->slots[slot]].bytes == NULL ? -1 : merges->n_symbols++;
}

/* "left right": divided at the first space behind the first byte, since a part may be no space. */
static bool
merge_read(const Gguf *gguf, const Vocab *vocab, Arena *arena, BpeMerges *merges, ExtraIndex *index,
		   GgufText text, int32_t rank, InferError *err)
{
	const char *space = text.n_bytes > 2 ? memchr(text.bytes + 1, ' ', text.n_bytes - 2) : NULL;
	char joined[2 * 4096];
	size_t n_left;
	int32_t left, right, product;
	BpePair *slot;

	if (space == NULL || text.n_bytes > sizeof(joined))
		return fail(err, INFER_BAD_MODEL,
					"vocabulary of model file \"%s\" is damaged\n"
					"Merge %" PRId32 " has %zu bytes and is not two parts with a space between.\n"
					"Download the file again, or take it from another publisher.",
					gguf_name(gguf), rank, text.n_bytes);
	n_left = (size_t) (space - text.bytes);
	memcpy(joined, text.bytes, n_left);
	memcpy(joined + n_left, space + 1, text.n_bytes - n_left - 1);
	left = symbol_intern(vocab, arena, merges, index, text.bytes, n_left);
	right = symbol_intern(vocab, arena, merges, index, space + 1, text.n_bytes - n_left - 1);
	product = symbol_intern(vocab, arena, merges, index, joined, text.n_bytes - 1);
	if (left < 0 || right < 0 || product < 0)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	slot = pair_slot(merges, pair_of(left, right));
	if (slot->pair == NO_PAIR) /* of duplicates the first counts */
		*slot = (BpePair){ pair_of(left, right), rank, product };
	return true;
}

static bool
tables_alloc(Arena *arena, uint64_t n_merges, BpeMerges *merges, ExtraIndex *index)
{
	/* Each merge brings three texts at most, the bytes 256. */
	uint64_t n_extra = 3 * n_merges + 256;

	merges->n_slots = 64;
	while (merges->n_slots < 2 * n_merges)
		merges->n_slots *= 2;
	index->n_slots = 64;
	while (index->n_slots < 2 * n_extra)
		index->n_slots *= 2;
	merges->slots = arena_alloc_array(arena, merges->n_slots, sizeof(*merges->slots));
	merges->extra = arena_alloc_array(arena, n_extra, sizeof(*merges->extra));
	index->slots = arena_alloc_array(arena, index->n_slots, sizeof(*index->slots));
	if (merges->slots == NULL || merges->extra == NULL || index->slots == NULL)
		return false;
	memset(merges->slots, 0xff, merges->n_slots * sizeof(*merges->slots));
	memset(index->slots, 0xff, index->n_slots * sizeof(*index->slots));
	return true;
}

bool
bpe_read(const Gguf *gguf, const Vocab *vocab, Arena *arena, BpeMerges *out, InferError *err)
{
	GgufArray merges = { 0 };
	ExtraIndex index;

	memset(out, 0, sizeof(*out));
	out->n_symbols = vocab->n_tokens;
	if (!gguf_get_array(gguf, "tokenizer.ggml.merges", &merges, err))
		return false;
	if (merges.n_items > MAX_MERGES || (merges.n_items > 0 && merges.texts == NULL))
		return fail(err, INFER_BAD_MODEL,
					"vocabulary of model file \"%s\" is damaged\n"
					"It has %" PRIu64 " merges, and they are to be texts.\n"
					"Download the file again, or take it from another publisher.",
					gguf_name(gguf), merges.n_items);
	if (!tables_alloc(arena, merges.n_items, out, &index))
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	for (int byte = 0; byte < 256; byte++)
	{
		char symbol[4];
		int n = byte_symbol((unsigned char) byte, symbol);

		out->byte_symbols[byte] = symbol_intern(vocab, arena, out, &index, symbol, (size_t) n);
		if (out->byte_symbols[byte] < 0)
			return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading a vocabulary");
	}
	for (uint64_t i = 0; i < merges.n_items; i++)
		if (!merge_read(gguf, vocab, arena, out, &index, merges.texts[i], (int32_t) i, err))
			return false;
	return true;
}

/* ---- merging ---- */

static bool
candidate_is_before(const BpeCandidate *a, const BpeCandidate *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void
heap_push(BpeScratch *scratch, BpeCandidate candidate)
{
	size_t at = scratch->n_heap++;

	while (at > 0 && candidate_is_before(&candidate, &scratch->heap[(at - 1) / 2]))
	{
		scratch->heap[at] = scratch->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	scratch->heap[at] = candidate;
}

static BpeCandidate
heap_pop(BpeScratch *scratch)
{
	BpeCandidate top = scratch->heap[0];
	BpeCandidate last = scratch->heap[--scratch->n_heap];
	size_t at = 0;

	for (;;)
	{
		size_t child = 2 * at + 1;

		if (child >= scratch->n_heap)
			break;
		if (child + 1 < scratch->n_heap &&
			candidate_is_before(&scratch->heap[child + 1], &scratch->heap[child]))
			child++;
		if (!candidate_is_before(&scratch->heap[child], &last))
			break;
		scratch->heap[at] = scratch->heap[child];
		at = child;
	}
	scratch->heap[at] = last;
	return top;
}

/* The pair of the symbol at `left` and the one after it, if there is a merge for them. */
static void
candidate_add(const BpeMerges *merges, BpeScratch *scratch, int32_t left)
{
	int32_t right = left < 0 ? -1 : scratch->symbols[left].next;
	const BpePair *found;

	if (right < 0)
		return;
	found = pair_slot(merges, pair_of(scratch->symbols[left].id, scratch->symbols[right].id));
	if (found->pair != NO_PAIR)
		heap_push(scratch, (BpeCandidate){ found->rank, left, scratch->symbols[left].id,
										   scratch->symbols[right].id, found->product });
}

static bool
scratch_reserve(Arena *arena, BpeScratch *scratch, size_t n_bytes)
{
	size_t capacity = scratch->capacity > 64 ? scratch->capacity : 64;

	if (n_bytes <= scratch->capacity)
		return true;
	while (capacity < n_bytes)
		capacity *= 2;
	scratch->symbols = arena_alloc_array(arena, capacity, sizeof(*scratch->symbols));
	/* n - 1 pairs at first; each of at most n - 1 merges takes one out and puts two in */
	scratch->heap = arena_alloc_array(arena, 2 * capacity, sizeof(*scratch->heap));
	scratch->capacity = scratch->symbols != NULL && scratch->heap != NULL ? capacity : 0;
	return scratch->capacity > 0;
}

bool
bpe_cancelled(const BpeScratch *scratch)
{
	return scratch->cancel_wanted != NULL &&
		   atomic_load_explicit(scratch->cancel_wanted, memory_order_relaxed);
}

/* False: cancelled. */
static bool
symbols_merge(const BpeMerges *merges, BpeScratch *scratch)
{
	for (size_t n = 1; scratch->n_heap > 0; n++)
	{
		BpeCandidate best = heap_pop(scratch);
		BpeSymbol *left = &scratch->symbols[best.at];
		int32_t right = left->next;

		if (n % MERGES_BETWEEN_LOOKS == 0 && bpe_cancelled(scratch))
			return false;
		/* one of the two may have been merged with somebody else meanwhile */
		if (left->id != best.left || right < 0 || scratch->symbols[right].id != best.right)
			continue;
		left->id = best.product;
		left->next = scratch->symbols[right].next;
		scratch->symbols[right].id = -1;
		if (left->next >= 0)
			scratch->symbols[left->next].previous = best.at;
		candidate_add(merges, scratch, left->previous);
		candidate_add(merges, scratch, best.at);
	}
	return true;
}

/* A symbol that is no token, as its bytes. */
static int32_t
symbol_spell(const BpeMerges *merges, const Vocab *vocab, const char *bytes, size_t n_bytes,
			 int32_t *ids)
{
	int32_t n = 0;

	for (size_t i = 0; i < n_bytes; i++)
	{
		int32_t id = merges->byte_symbols[(unsigned char) bytes[i]];

		if (id >= vocab->n_tokens)
			id = vocab->unknown_id;
		if (id >= 0)
			ids[n++] = id;
	}
	return n;
}

int32_t
bpe_word(const BpeMerges *merges, const Vocab *vocab, Arena *arena, BpeScratch *scratch,
		 const char *word, size_t n_bytes, int32_t *ids)
{
	int32_t n = 0;

	if (!scratch_reserve(arena, scratch, n_bytes))
		return -1;
	scratch->n_heap = 0;
	for (int32_t i = 0; i < (int32_t) n_bytes; i++)
		scratch->symbols[i] = (BpeSymbol){ merges->byte_symbols[(unsigned char) word[i]], i - 1,
										   i + 1 < (int32_t) n_bytes ? i + 1 : -1 };
	for (int32_t i = 0; i + 1 < (int32_t) n_bytes; i++)
	{
		if (i % MERGES_BETWEEN_LOOKS == 0 && bpe_cancelled(scratch))
			return -1;
		candidate_add(merges, scratch, i);
	}
	if (!symbols_merge(merges, scratch))
		return -1;
	for (int32_t i = 0; i >= 0; i = scratch->symbols[i].next)
	{
		int32_t end = scratch->symbols[i].next >= 0 ? scratch->symbols[i].next : (int32_t) n_bytes;

		if (scratch->symbols[i].id < vocab->n_tokens)
			ids[n++] = scratch->symbols[i].id;
		else
			n += symbol_spell(merges, vocab, word + i, (size_t) (end - i), ids + n);
	}
	return n;
}
