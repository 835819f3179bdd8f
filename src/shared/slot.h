/*
 * slot.h: one request in the shared region, and the protocol by which two processes hand it over
 * without a lock.
 *
 *                    backend (owner)            engine                     supervisor, engine dead
 *     FREE      ──claim──▶ CLAIMED
 *     CLAIMED   ──submit─▶ SUBMITTED
 *     CLAIMED   ──drop───▶ FREE
 *     SUBMITTED                        ──take──▶ RUNNING
 *     SUBMITTED ──take back▶ FREE
 *     RUNNING                          ──finish▶ DONE                     ──sweep──▶ DONE (engine
 * died) RUNNING   ──cancel─▶ ABORTING RUNNING                          ──owner's socket at EOF──▶
 * FREE ABORTING                         ──next step──▶ FREE                ──sweep──▶ FREE DONE
 * ──copied─▶ FREE DONE                             ──owner's socket at EOF──▶ FREE
 *
 * The word is generation << 8 | state, and the generation rises by one on every transition. A
 * transition is a compare-and-swap from the exact word that the actor last saw, never from a state
 * alone: a slot that was freed and claimed again in between has another generation, and the swap
 * fails. Whoever frees a slot forgets its number in the same statement. These rules were paid for:
 * pg-reference.md §2.4.
 *
 * Who writes what, and when:
 *   request, payload        the owner while CLAIMED
 *   result                  the engine while RUNNING, before DONE; the sweep for a dead engine
 *   ring bytes and head     the engine while RUNNING; tail: the owner
 *   output_tokens, phase    the engine while RUNNING, relaxed, for views only
 * A reader of any length or offset clamps it: the other side may have gone mad.
 *
 * The owner knows its slot by an InferSlotRef {index, word}; a doorbell carries the same.
 */
#ifndef INFER_SHARED_SLOT_H
#define INFER_SHARED_SLOT_H

#include "shared/request.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum InferSlotState
{
	INFER_SLOT_FREE = 0,
	INFER_SLOT_CLAIMED,
	INFER_SLOT_SUBMITTED,
	INFER_SLOT_RUNNING,
	INFER_SLOT_ABORTING,
	INFER_SLOT_DONE,
	INFER_N_SLOT_STATES
} InferSlotState;

typedef enum InferPhase
{
	INFER_PHASE_QUEUED = 0,
	INFER_PHASE_PREFILL,
	INFER_PHASE_DECODE,
	INFER_PHASE_PREEMPTED, /* its pages were needed, or nobody reads its output */
	INFER_PHASE_FINISHED
} InferPhase;

typedef struct InferSlot
{
	/* the protocol: anyone, only along the arrows above */
	_Atomic uint64_t word;

	/* Set by the owner before it sleeps, cleared by whoever wakes it: the engine rings only then.
	 * Who sets one of these flags looks at the slot once more, behind a read-modify-write of the
	 * flag or a full fence: so no wake-up falls between. */
	_Atomic uint32_t backend_waiting;

	/* set by the engine when it holds output for which the ring has no room: the owner rings
	 * DRAINED then */
	_Atomic uint32_t engine_waiting;

	/* the owner while CLAIMED */
	uint32_t owner_procno; /* for SetLatch in the sweep; bound-checked there */
	uint32_t payload_in_memfd;
	InferRequest request;

	/* the engine while RUNNING */
	InferResult result;
	_Atomic uint32_t phase;
	_Atomic uint32_t output_tokens;
	_Atomic uint32_t prompt_tokens;
	_Atomic uint32_t cached_tokens;

	/* the ring: cumulative counters, index = counter % ring_bytes; ring.h */
	_Alignas(64) _Atomic uint64_t ring_head; /* engine */
	_Alignas(64) _Atomic uint64_t ring_tail; /* owner */

	/* then, at the offsets that the region header gives: the prompt area and the ring's bytes */
} InferSlot;

typedef struct InferSlotRef
{
	uint32_t index;
	uint64_t word; /* as the holder last saw it */
} InferSlotRef;

static inline InferSlotState
infer_word_state(uint64_t word)
{
	return (InferSlotState) (word & 0xff);
}

static inline uint64_t
infer_word_next(uint64_t word, InferSlotState state)
{
	return ((word >> 8) + 1) << 8 | (uint64_t) state;
}

/*
 * The one transition function: *word is what the caller last saw. On success the slot is in
 * `to`, *word is the new word and true is returned; otherwise nothing changed and *word is what the
 * slot holds now. Acquire-release.
 */
static inline bool
infer_slot_move(InferSlot *slot, uint64_t *word, InferSlotState to)
{
	uint64_t next = infer_word_next(*word, to);

	if (atomic_compare_exchange_strong_explicit(&slot->word, word, next, memory_order_acq_rel,
												memory_order_acquire))
	{
		*word = next;
		return true;
	}
	return false;
}

#endif
