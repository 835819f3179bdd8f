/*
 * scheduler.h: continuous batching over the sequences of one model. scheduler_step does one turn:
 *
 *   sweep     cancelled and late sequences end; their pages are free at once
 *   admit     waiting ones get a place and pages, fairly
 *   plan      each DECODE sequence its token; the rest of the token budget to prompt chunks
 *   forward   one pass
 *   sample    a token for each sequence whose last token was computed; its owner hears of it
 *   publish   full pages go to the prefix index
 *
 * Fairness. A place goes to the request of the session with the fewest running, then of the role
 * with the fewest, both weighted by priority, then to the oldest. When all places are taken and a
 * waiting session has at least two fewer than the one with most, that one's youngest sequence is
 * preempted: a chat never waits behind a backfill.
 *
 * Pages. A sequence is admitted when pages for all its tokens are there, and grows by a page at a
 * time. When there is none, sequences that nobody reads give theirs back first, then the
 * youngest; the oldest running one is never preempted for pages, so every step makes progress.
 *
 * Latency. While anyone decodes, prompt chunks are sized by the measured time of decode steps and
 * prompt tokens so that a step stays within latency_target_us; never below SCHEDULER_MIN_CHUNK
 * tokens. Sizes change when tokens come, never which (forward.h).
 *
 * One thread: the step thread. Allocates only in scheduler_create and scheduler_limits_set.
 */
#ifndef INFER_ENGINE_SCHEDULER_H
#define INFER_ENGINE_SCHEDULER_H

#include "engine/forward/forward.h"
#include "engine/sched/sequence.h"
#include "shared/metrics.h"

#define SCHEDULER_MIN_CHUNK KV_PAGE_TOKENS

typedef enum SequenceVerdict
{
	SEQUENCE_GO_ON,
	SEQUENCE_HOLD, /* no room for its output: decode again after resume_wanted */
	SEQUENCE_END
} SequenceVerdict;

/* What the owner of the sequences hears, always inside scheduler_step. */
typedef struct SchedulerEvents
{
	void *context;

	/* The last of sequence->token_ids is new. */
	SequenceVerdict (*token)(void *context, Sequence *sequence);

	/* resume_wanted was set on a held sequence: GO_ON or still HOLD. */
	SequenceVerdict (*resume)(void *context, Sequence *sequence);

	/* State or counts changed. */
	void (*progress)(void *context, Sequence *sequence);

	/* A waiting sequence got its first place. */
	void (*admitted)(void *context, Sequence *sequence);

	/* The end: it is unlinked and holds no pages. err->code: INFER_OK, or why. */
	void (*finished)(void *context, Sequence *sequence, const InferError *err);
} SchedulerEvents;

typedef struct SchedulerLimits
{
	int32_t max_sequences;
	int32_t batch_tokens;
	int64_t latency_target_us;
} SchedulerLimits;

typedef struct SchedulerConfig
{
	const Model *model;
	KvPages *kv;
	const Kernels *kernels;
	SchedulerEvents events;
	InferCounters *counters;
	InferHistograms *histograms;
	int64_t (*now_us)(void);
} SchedulerConfig;

typedef struct Scheduler Scheduler;

extern bool scheduler_create(const SchedulerConfig *config, Pool *pool,
							 const SchedulerLimits *limits, Scheduler **out, InferError *err);

/* Nothing may be linked any more. */
extern void scheduler_destroy(Scheduler *scheduler);

/* Takes effect at once; on failure (no memory) everything stays as it was. Also for a new pool. */
extern bool scheduler_limits_set(Scheduler *scheduler, Pool *pool, const SchedulerLimits *limits,
								 InferError *err);

extern void scheduler_add(Scheduler *scheduler, Sequence *sequence);

/* One turn; true when another would do something at once. */
extern bool scheduler_step(Scheduler *scheduler);

/* Ends all sequences with this error (shutdown). */
extern void scheduler_finish_all(Scheduler *scheduler, const InferError *err);

/* Nearest deadline of its sequences; 0: none. */
extern int64_t scheduler_deadline_us(const Scheduler *scheduler);

extern int32_t scheduler_n_running(const Scheduler *scheduler);
extern int32_t scheduler_n_waiting(const Scheduler *scheduler);

/* Pages that n_tokens positions need. */
static inline int32_t
pages_of_tokens(int32_t n_tokens)
{
	return n_tokens / KV_PAGE_TOKENS + (n_tokens % KV_PAGE_TOKENS != 0);
}

#endif
