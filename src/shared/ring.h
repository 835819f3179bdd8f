/*
 * ring.h: the answer's way back: a byte ring with one writer (engine) and one reader (owner of the
 * slot), carrying pieces {InferPiece header, bytes}, header and bytes each padded to 8 bytes so
 * that a header never wraps. Output of any length passes, since the reader drains as it goes.
 *
 * Lock-free; head and tail only grow. Both sides clamp what they read: a head outside
 * [tail, tail + ring_bytes], or a piece longer than what is there, is a damaged ring
 * (INFER_INTERNAL).
 */
#ifndef INFER_SHARED_RING_H
#define INFER_SHARED_RING_H

#include "shared/slot.h"

typedef struct InferPiece
{
	uint32_t n_bytes;
	uint32_t output_tokens; /* of the answer so far, this piece included */
} InferPiece;

typedef struct InferRing
{
	InferSlot *slot;
	char *bytes;
	uint64_t ring_bytes; /* a power of two */
} InferRing;

/* Largest piece that a writer may put: half the ring less a header. Longer text goes in several. */
extern uint32_t infer_ring_max_piece(const InferRing *ring);

/* Writer. False when there is no room now (or the piece is larger than infer_ring_max_piece). */
extern bool infer_ring_write(InferRing *ring, const void *bytes, uint32_t n_bytes,
							 uint32_t output_tokens);

/* Reader. True with *piece set when a piece waits; copy it with infer_ring_take. False: empty. */
extern bool infer_ring_peek(const InferRing *ring, InferPiece *piece, bool *damaged);

/* Copies the bytes of the peeked piece to out and frees them. */
extern void infer_ring_take(InferRing *ring, const InferPiece *piece, char *out);

#endif
