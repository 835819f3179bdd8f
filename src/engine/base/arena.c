#include "engine/base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_FIRST_BLOCK_BYTES ((size_t) 4096)
#define ARENA_LAST_DOUBLING_BYTES                                                                  \
	((size_t) 8 << 20) /* beyond it blocks stay this size: waste <= 8 MiB */
#define ARENA_MIN_ALIGNMENT ((size_t) 16)

struct ArenaBlock
{
	ArenaBlock *older;
	size_t n_bytes;
	size_t n_used;
	unsigned char bytes[];
};

void
arena_init(Arena *arena, size_t limit_bytes)
{
	memset(arena, 0, sizeof(*arena));
	arena->limit_bytes = limit_bytes;
}

void
arena_reset(Arena *arena)
{
	ArenaBlock *block = arena->newest;

	while (block != NULL)
	{
		ArenaBlock *older = block->older;

		free(block);
		block = older;
	}
	arena_init(arena, arena->limit_bytes);
}

static size_t
next_block_bytes(const Arena *arena, size_t n_needed)
{
	size_t n = arena->newest != NULL ? 2 * arena->newest->n_bytes : ARENA_FIRST_BLOCK_BYTES;

	if (n > ARENA_LAST_DOUBLING_BYTES)
		n = ARENA_LAST_DOUBLING_BYTES;
	return n < n_needed ? n_needed : n;
}

static bool
block_add(Arena *arena, size_t n_needed)
{
	size_t n_bytes = next_block_bytes(arena, n_needed);
	ArenaBlock *block;

	if (n_bytes > SIZE_MAX - sizeof(ArenaBlock))
		return false;
	block = malloc(sizeof(ArenaBlock) + n_bytes);
	if (block == NULL)
		return false;
	block->older = arena->newest;
	block->n_bytes = n_bytes;
	block->n_used = 0;
	arena->newest = block;
	arena->reserved_bytes += n_bytes;
	return true;
}

/* The first free byte of the newest block at this alignment, or NULL if n_bytes do not fit. */
static void *
block_take(ArenaBlock *block, size_t n_bytes, size_t alignment)
{
	uintptr_t base = (uintptr_t) block->bytes;
	uintptr_t at = (base + block->n_used + alignment - 1) & ~(uintptr_t) (alignment - 1);
	size_t n_skipped = (size_t) (at - base);

	if (n_skipped > block->n_bytes || n_bytes > block->n_bytes - n_skipped)
		return NULL;
	block->n_used = n_skipped + n_bytes;
	return (void *) at;
}

void *
arena_alloc_aligned(Arena *arena, size_t n_bytes, size_t alignment)
{
	void *memory = NULL;

	if (arena->frozen)
	{
		arena->n_frozen_allocs++;
#ifdef INFER_DEBUG
		abort();
#endif
	}
	if (alignment < ARENA_MIN_ALIGNMENT)
		alignment = ARENA_MIN_ALIGNMENT;
	if (n_bytes > SIZE_MAX - 2 * alignment)
		return NULL;
	if (arena->limit_bytes != 0 &&
		(n_bytes > arena->limit_bytes || arena->used_bytes > arena->limit_bytes - n_bytes))
		return NULL;
	if (arena->newest != NULL)
		memory = block_take(arena->newest, n_bytes, alignment);
	if (memory == NULL)
	{
		if (!block_add(arena, n_bytes + alignment))
			return NULL;
		memory = block_take(arena->newest, n_bytes, alignment);
	}
	arena->used_bytes += n_bytes;
	return memset(memory, 0, n_bytes);
}

void *
arena_alloc(Arena *arena, size_t n_bytes)
{
	return arena_alloc_aligned(arena, n_bytes, ARENA_MIN_ALIGNMENT);
}

void *
arena_alloc_array(Arena *arena, size_t n, size_t item_bytes)
{
	if (item_bytes != 0 && n > SIZE_MAX / item_bytes)
		return NULL;
	return arena_alloc(arena, n * item_bytes);
}

char *
arena_copy_text(Arena *arena, const char *text, size_t n_bytes)
{
	char *copy = n_bytes < SIZE_MAX ? arena_alloc(arena, n_bytes + 1) : NULL;

	if (copy != NULL && n_bytes > 0)
		memcpy(copy, text, n_bytes);
	return copy;
}

void
arena_freeze(Arena *arena)
{
	arena->frozen = true;
}

void
arena_thaw(Arena *arena)
{
	arena->frozen = false;
}
