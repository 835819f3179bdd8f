/* clang-format off */
/*
 * sequence.h: one generation on its way through the scheduler.
 *
 *           admitted: pages for all its tokens         last prompt chunk         end, stop,
 *   WAITING ---------------------------------> PREFILL ----------------> DECODE ------------> FINISHED
 *      ^                                          |                         |   length, error
 *      |      pages or its place go to others,    |                         |
 *      +--- PREEMPTED <---------------------------+-------------------------+
 *             nobody reads its output
 *
 *   any state --cancel, deadline--> FINISHED
 *
 * A preempted sequence keeps its tokens (prompt and what was generated), gives back its pages (full
 * ones stay in the prefix cache while there is room) and is computed again: promise 3.2 of the design
 * makes the continuation equal bit for bit. PREEMPTED waits in the same queue as WAITING.
 *
 * Owner: whoever made it (the engine's request); it is linked into one scheduler from scheduler_add
 * until the finished event. All State fields belong to the step thread.
 */
/* clang-format on */
#ifndef INFER_ENGINE_SEQUENCE_H
#define INFER_ENGINE_SEQUENCE_H

#include "engine/kv/kv_pages.h"
#include "engine/sample/sampler.h"
#include "shared/request.h"
#include "shared/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum SequenceState
{
	SEQUENCE_WAITING,
	SEQUENCE_PREFILL,
	SEQUENCE_DECODE,
	SEQUENCE_PREEMPTED,
	SEQUENCE_FINISHED
} SequenceState;

typedef struct Sequence
{
	/* Config: set before scheduler_add */
	uint64_t session; /* fairness */
	uint32_t role_id;
	int32_t priority;
	int64_t deadline_us; /* 0: none */
	int64_t submitted_us;
	KvSalt salt;
	SamplerParams sampler;
	int32_t n_prompt;
	int32_t max_tokens;	  /* of token_ids: where the answer ends with LENGTH */
	int32_t *token_ids;	  /* [max_tokens] prompt, then answer */
	int32_t *block_table; /* [pages of max_tokens] */

	/* anyone */
	_Atomic bool cancel_wanted;
	_Atomic bool resume_wanted; /* the reader made room */

	/* State */
	SequenceState state;
	bool held;			/* nobody reads: not decoded until resumed */
	bool ended;			/* the token event said so, or LENGTH */
	uint64_t number;	/* order of arrival: smaller is older */
	int32_t n_tokens;	/* in token_ids */
	int32_t n_computed; /* positions whose K and V are in its pages */
	int32_t n_pages;
	int32_t n_published; /* pages told to the prefix index */
	int32_t n_cached;	 /* prompt tokens that the prefix index gave, at first admission */
	int32_t n_chunk;	 /* tokens of the step being planned */
	int32_t n_steps;	 /* since admitted */
	int64_t started_us;	 /* first step, or 0 */
	int64_t first_token_us;
	int64_t last_token_us;
	struct Sequence *older; /* in the list that holds it, by arrival */
	struct Sequence *newer;
} Sequence;

static inline int32_t
sequence_n_output(const Sequence *sequence)
{
	return sequence->n_tokens - sequence->n_prompt;
}

static inline bool
sequence_runs(const Sequence *sequence)
{
	return sequence->state == SEQUENCE_PREFILL || sequence->state == SEQUENCE_DECODE;
}

#endif
