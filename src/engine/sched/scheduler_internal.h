/* scheduler_internal.h: what the files of sched/ share; nobody else includes it. */
#ifndef INFER_ENGINE_SCHEDULER_INTERNAL_H
#define INFER_ENGINE_SCHEDULER_INTERNAL_H

#include "engine/sched/scheduler.h"

/* By arrival: first is the oldest. */
typedef struct SequenceList
{
	Sequence *first;
	Sequence *last;
	int32_t n;
} SequenceList;

struct Scheduler
{
	/* Config */
	SchedulerConfig config;
	SchedulerLimits limits;
	Pool *pool;
	int32_t n_vocab;

	/* Scratch, sized by the limits */
	Forward *forward;
	int32_t max_batch_tokens;
	int32_t max_outputs;
	int32_t *batch_ids;			 /* [max_batch_tokens] */
	ForwardSequence *batch;		 /* [max_outputs] */
	Sequence **batch_sequences;	 /* [max_outputs] the same order as batch */
	int32_t *output_tokens;		 /* [max_outputs] */
	Sequence **output_sequences; /* [max_outputs] */
	int32_t *picked;			 /* [max_outputs] */
	bool *failed_rows;			 /* [max_outputs] */
	SamplerScratch **samplers;	 /* [n_samplers] one a thread of the pool */
	int32_t n_samplers;

	/* State */
	SequenceList waiting; /* WAITING and PREEMPTED */
	SequenceList running; /* PREFILL and DECODE, held ones too */
	uint64_t next_number;
	int32_t n_batch;
	int32_t n_batch_tokens;
	int32_t n_outputs;
	const float *logits;
	double decode_step_us;	/* measured: a step that only decodes */
	double prompt_token_us; /* measured: what a prompt token adds */

	/* The candidate for which there were no pages, and how many were free: not tried again before
	 * that number changes, since finding its prefix means hashing it. */
	const Sequence *blocked;
	int32_t blocked_free;
};

extern void sequence_list_insert(SequenceList *list, Sequence *sequence);
extern void sequence_list_remove(SequenceList *list, Sequence *sequence);

/* scheduler.c */
extern void sequence_preempt(Scheduler *scheduler, Sequence *sequence);
extern void sequence_finish(Scheduler *scheduler, Sequence *sequence, const InferError *err);
extern void sequence_progress(Scheduler *scheduler, Sequence *sequence);

/* admit.c: places and pages */
extern void scheduler_admit(Scheduler *scheduler);
extern bool sequence_grow(Scheduler *scheduler, Sequence *sequence, int32_t n_tokens);

/* batch.c: one pass */
extern void batch_plan(Scheduler *scheduler);
extern void batch_run(Scheduler *scheduler);

#endif
