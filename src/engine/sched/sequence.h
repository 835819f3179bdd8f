/*
 * sequence.h: one generation on its way through the scheduler.
 *
 *                    admitted: pages for the first chunk
 *        WAITING ───────────────────────────────────▶ PREFILL ──last prompt chunk──▶ DECODE ──end,
 * stop,──▶ FINISHED ▲                                             │                             │
 * length, error │                                             └───────────┬─────────────────┘ │
 * pages needed for an older one, or                      │ └───────────── nobody reads its output
 * ◀── PREEMPTED ◀────┘
 *
 *   any state ──cancel──▶ FINISHED
 *
 * A preempted sequence keeps its tokens (prompt and what was generated) and its sampler state,
 * gives back its pages (full ones stay in the prefix cache while there is room) and is computed
 * again: promise §3.2 makes the continuation equal bit for bit.
 */
#ifndef INFER_ENGINE_SEQUENCE_H
#define INFER_ENGINE_SEQUENCE_H

typedef enum SequenceState
{
	SEQUENCE_WAITING,
	SEQUENCE_PREFILL,
	SEQUENCE_DECODE,
	SEQUENCE_PREEMPTED,
	SEQUENCE_FINISHED
} SequenceState;

#endif
