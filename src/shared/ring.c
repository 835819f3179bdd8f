/*
 * Who may trust what: head is the writer's, tail the reader's, yet both lie in memory that the
 * other program can scribble on. So each side takes its own counter for what it is, masks every
 * index, and refuses a distance that cannot be. The worst that a mad peer achieves is wrong bytes,
 * which the reader validates as text, or a ring reported as damaged.
 */
#include "shared/ring.h"

#include <string.h>

#define PIECE_ALIGN UINT64_C(8)

_Static_assert(sizeof(InferPiece) == PIECE_ALIGN, "a header fills one unit, so it never wraps");

static uint64_t
piece_span(uint32_t n_bytes)
{
	return sizeof(InferPiece) + (((uint64_t) n_bytes + PIECE_ALIGN - 1) & ~(PIECE_ALIGN - 1));
}

static void
ring_copy_in(InferRing *ring, uint64_t at, const void *bytes, uint64_t n_bytes)
{
	uint64_t offset = at & (ring->ring_bytes - 1);
	uint64_t first = ring->ring_bytes - offset;

	if (first > n_bytes)
		first = n_bytes;
	memcpy(ring->bytes + offset, bytes, first);
	memcpy(ring->bytes, (const char *) bytes + first, n_bytes - first);
}

static void
ring_copy_out(const InferRing *ring, uint64_t at, void *bytes, uint64_t n_bytes)
{
	uint64_t offset = at & (ring->ring_bytes - 1);
	uint64_t first = ring->ring_bytes - offset;

	if (first > n_bytes)
		first = n_bytes;
	memcpy(bytes, ring->bytes + offset, first);
	memcpy((char *) bytes + first, ring->bytes, n_bytes - first);
}

uint32_t
infer_ring_max_piece(const InferRing *ring)
{
	return (uint32_t) (ring->ring_bytes / 2 - sizeof(InferPiece));
}

bool
infer_ring_write(InferRing *ring, const void *bytes, uint32_t n_bytes, uint32_t output_tokens)
{
	InferPiece piece = { n_bytes, output_tokens };
	uint64_t head = atomic_load_explicit(&ring->slot->ring_head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->slot->ring_tail, memory_order_acquire);
	uint64_t used = head - tail;
	uint64_t span = piece_span(n_bytes);

	if (n_bytes > infer_ring_max_piece(ring) || used > ring->ring_bytes ||
		span > ring->ring_bytes - used || head % PIECE_ALIGN != 0)
		return false;

	ring_copy_in(ring, head, &piece, sizeof(piece));
	ring_copy_in(ring, head + sizeof(piece), bytes, n_bytes);
	atomic_store_explicit(&ring->slot->ring_head, head + span, memory_order_release);
	return true;
}

bool
infer_ring_peek(const InferRing *ring, InferPiece *piece, bool *damaged)
{
	uint64_t tail = atomic_load_explicit(&ring->slot->ring_tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&ring->slot->ring_head, memory_order_acquire);
	uint64_t used = head - tail;

	*damaged = false;
	if (used == 0)
		return false;
	if (used > ring->ring_bytes || used % PIECE_ALIGN != 0 || tail % PIECE_ALIGN != 0)
	{
		*damaged = true;
		return false;
	}
	ring_copy_out(ring, tail, piece, sizeof(*piece));
	if (piece_span(piece->n_bytes) > used)
	{
		*damaged = true;
		return false;
	}
	return true;
}

void
infer_ring_take(InferRing *ring, const InferPiece *piece, char *out)
{
	uint64_t tail = atomic_load_explicit(&ring->slot->ring_tail, memory_order_relaxed);

	ring_copy_out(ring, tail + sizeof(*piece), out, piece->n_bytes);
	atomic_store_explicit(&ring->slot->ring_tail, tail + piece_span(piece->n_bytes),
						  memory_order_release);
}
