/*
 * arena.h: memory that is freed together.
 *
 * One arena per model, per request, per parse. Allocation is a pointer bump in blocks that double
 * in size; nothing is freed alone. A byte limit makes hostile input fail cleanly: an allocation
 * past it returns NULL, as does a failing malloc, and the caller turns that into
 * INFER_OUT_OF_MEMORY or INFER_LIMIT.
 *
 * A frozen arena is a promise that the code running now does not allocate (the step loop): in a
 * debug build the first allocation aborts the test, in a release build it is served and counted.
 *
 * Not thread safe: one arena, one thread at a time. An Arena may be embedded; arena_init does not
 * allocate.
 */
#ifndef INFER_ENGINE_ARENA_H
#define INFER_ENGINE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena
{
	/* Config */
	size_t limit_bytes; /* 0: none */

	/* State */
	ArenaBlock *newest;
	size_t used_bytes;		/* sum of all allocations, rounded */
	size_t reserved_bytes;	/* sum of all blocks */
	size_t n_frozen_allocs; /* broken promises, see above */
	bool frozen;
} Arena;

extern void arena_init(Arena *arena, size_t limit_bytes);

/* Frees every block; the arena may be used again. */
extern void arena_reset(Arena *arena);

/* Zeroed, aligned to 16 bytes (arena_alloc) or to a power of two up to 4096 (arena_alloc_aligned).
 */
extern void *arena_alloc(Arena *arena, size_t n_bytes);
extern void *arena_alloc_aligned(Arena *arena, size_t n_bytes, size_t alignment);

/* n * item_bytes with the overflow checked: NULL then. */
extern void *arena_alloc_array(Arena *arena, size_t n, size_t item_bytes);

/* A copy of n_bytes with a '\0' after it. */
extern char *arena_copy_text(Arena *arena, const char *text, size_t n_bytes);

extern void arena_freeze(Arena *arena);
extern void arena_thaw(Arena *arena);

#endif
