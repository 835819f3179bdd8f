#include "engine/sched/scheduler.h"

#include "engine/sched/scheduler_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- lists ---------------------------------------------------------------------------------- */

void
sequence_list_insert(SequenceList *list, Sequence *sequence)
{
	Sequence *older = list->last;

	while (older != NULL && older->number > sequence->number)
		older = older->older;
	sequence->older = older;
	sequence->newer = older != NULL ? older->newer : list->first;
	if (sequence->older != NULL)
		sequence->older->newer = sequence;
	else
		list->first = sequence;
	if (sequence->newer != NULL)
		sequence->newer->older = sequence;
	else
		list->last = sequence;
	list->n++;
}

void
sequence_list_remove(SequenceList *list, Sequence *sequence)
{
	if (sequence->older != NULL)
		sequence->older->newer = sequence->newer;
	else
		list->first = sequence->newer;
	if (sequence->newer != NULL)
		sequence->newer->older = sequence->older;
	else
		list->last = sequence->older;
	sequence->older = NULL;
	sequence->newer = NULL;
	list->n--;
}

/* ---- making and resizing -------------------------------------------------------------------- */

typedef struct Scratch
{
	Forward *forward;
	int32_t *batch_ids;
	ForwardSequence *batch;
	Sequence **batch_sequences;
	int32_t *output_tokens;
	Sequence **output_sequences;
	int32_t *picked;
	bool *failed_rows;
	SamplerScratch **samplers;
	int32_t n_samplers;
} Scratch;

static void
scratch_free(Scratch *scratch)
{
	forward_destroy(scratch->forward);
	free(scratch->batch_ids);
	free(scratch->batch);
	free(scratch->batch_sequences);
	free(scratch->output_tokens);
	free(scratch->output_sequences);
	free(scratch->picked);
	free(scratch->failed_rows);
	for (int32_t i = 0; scratch->samplers != NULL && i < scratch->n_samplers; i++)
		sampler_scratch_destroy(scratch->samplers[i]);
	free(scratch->samplers);
	memset(scratch, 0, sizeof(*scratch));
}

static bool
scratch_make(Scratch *scratch, const SchedulerConfig *config, Pool *pool, int32_t max_batch_tokens,
			 int32_t max_outputs, InferError *err)
{
	size_t n_outputs = (size_t) max_outputs;

	memset(scratch, 0, sizeof(*scratch));
	scratch->batch_ids = calloc((size_t) max_batch_tokens, sizeof(int32_t));
	scratch->batch = calloc(n_outputs, sizeof(ForwardSequence));
	scratch->batch_sequences = calloc(n_outputs, sizeof(Sequence *));
	scratch->output_tokens = calloc(n_outputs, sizeof(int32_t));
	scratch->output_sequences = calloc(n_outputs, sizeof(Sequence *));
	scratch->picked = calloc(n_outputs, sizeof(int32_t));
	scratch->failed_rows = calloc(n_outputs, sizeof(bool));
	scratch->n_samplers = pool_thread_count(pool);
	scratch->samplers = calloc((size_t) scratch->n_samplers, sizeof(SamplerScratch *));
	if (scratch->batch_ids == NULL || scratch->batch == NULL || scratch->batch_sequences == NULL ||
		scratch->output_tokens == NULL || scratch->output_sequences == NULL ||
		scratch->picked == NULL || scratch->failed_rows == NULL || scratch->samplers == NULL)
		goto out_of_memory;
	for (int32_t i = 0; i < scratch->n_samplers; i++)
	{
		scratch->samplers[i] = sampler_scratch_create(config->model->config.n_vocab);
		if (scratch->samplers[i] == NULL)
			goto out_of_memory;
	}
	if (forward_create(config->model, config->kv, pool, config->kernels, max_batch_tokens,
					   max_outputs, &scratch->forward, err))
		return true;
	scratch_free(scratch);
	return false;

out_of_memory:
	scratch_free(scratch);
	return fail(err, INFER_OUT_OF_MEMORY,
				"out of memory for a step of %d tokens\n\nLower infer.batch_tokens or "
				"infer.max_sequences.",
				max_batch_tokens);
}

/* Exchanges the scheduler's scratch with *scratch. */
static void
scratch_swap(Scheduler *s, Scratch *scratch)
{
	Scratch old = { s->forward,		  s->batch_ids,		   s->batch,  s->batch_sequences,
					s->output_tokens, s->output_sequences, s->picked, s->failed_rows,
					s->samplers,	  s->n_samplers };

	s->forward = scratch->forward;
	s->batch_ids = scratch->batch_ids;
	s->batch = scratch->batch;
	s->batch_sequences = scratch->batch_sequences;
	s->output_tokens = scratch->output_tokens;
	s->output_sequences = scratch->output_sequences;
	s->picked = scratch->picked;
	s->failed_rows = scratch->failed_rows;
	s->samplers = scratch->samplers;
	s->n_samplers = scratch->n_samplers;
	*scratch = old;
}

bool
scheduler_limits_set(Scheduler *s, Pool *pool, const SchedulerLimits *limits, InferError *err)
{
	/* A step of nothing but decodes must fit, and a chunk beside them. */
	int32_t max_outputs = limits->max_sequences;
	int32_t max_batch_tokens = limits->max_sequences + SCHEDULER_MIN_CHUNK;
	Scratch scratch;

	if (limits->batch_tokens > max_batch_tokens)
		max_batch_tokens = limits->batch_tokens;
	/* What runs now may be more than the new limit allows. */
	if (max_outputs < s->max_outputs)
		max_outputs = s->max_outputs;
	if (max_batch_tokens < s->max_outputs + SCHEDULER_MIN_CHUNK)
		max_batch_tokens = s->max_outputs + SCHEDULER_MIN_CHUNK;

	/* A new pool may lie at the address of the old one: the number of threads is compared too. */
	if (pool != s->pool || s->n_samplers != pool_thread_count(pool) ||
		max_outputs > s->max_outputs || max_batch_tokens > s->max_batch_tokens)
	{
		if (!scratch_make(&scratch, &s->config, pool, max_batch_tokens, max_outputs, err))
			return false;
		scratch_swap(s, &scratch);
		scratch_free(&scratch);
		s->pool = pool;
		s->max_outputs = max_outputs;
		s->max_batch_tokens = max_batch_tokens;
	}
	s->limits = *limits;
	return true;
}

bool
scheduler_create(const SchedulerConfig *config, Pool *pool, const SchedulerLimits *limits,
				 Scheduler **out, InferError *err)
{
	Scheduler *s = calloc(1, sizeof(Scheduler));

	*out = NULL;
	if (s == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a scheduler");
	s->config = *config;
	s->n_vocab = config->model->config.n_vocab;
	if (!scheduler_limits_set(s, pool, limits, err))
	{
		free(s);
		return false;
	}
	*out = s;
	return true;
}

void
scheduler_destroy(Scheduler *s)
{
	Scratch nothing = { 0 };

	if (s == NULL)
		return;
	scratch_swap(s, &nothing);
	scratch_free(&nothing);
	free(s);
}

/* ---- a sequence changes state --------------------------------------------------------------- */

void
sequence_progress(Scheduler *s, Sequence *sequence)
{
	s->config.events.progress(s->config.events.context, sequence);
}

static void
sequence_release_pages(Scheduler *s, Sequence *sequence)
{
	/* From the end: the deepest page of a chain is the first to be evicted. */
	while (sequence->n_pages > 0)
		kv_page_release(s->config.kv, sequence->block_table[--sequence->n_pages]);
	sequence->n_computed = 0;
	sequence->n_published = 0;
}

void
sequence_preempt(Scheduler *s, Sequence *sequence)
{
	sequence_release_pages(s, sequence);
	sequence_list_remove(&s->running, sequence);
	sequence->state = SEQUENCE_PREEMPTED;
	sequence_list_insert(&s->waiting, sequence);
	infer_counter_add(&s->config.counters->preemptions, 1);
	sequence_progress(s, sequence);
}

void
sequence_finish(Scheduler *s, Sequence *sequence, const InferError *err)
{
	bool ran = sequence_runs(sequence);

	sequence_release_pages(s, sequence);
	sequence_list_remove(ran ? &s->running : &s->waiting, sequence);
	sequence->state = SEQUENCE_FINISHED;
	if (s->blocked == sequence)
		s->blocked = NULL;
	s->config.events.finished(s->config.events.context, sequence, err);
}

/* ---- one turn ------------------------------------------------------------------------------- */

static void
sequence_sweep(Scheduler *s, Sequence *sequence, int64_t now_us)
{
	InferError err;

	if (atomic_load(&sequence->cancel_wanted))
	{
		fail(&err, INFER_CANCELLED, "request was cancelled");
		sequence_finish(s, sequence, &err);
	}
	else if (sequence->deadline_us != 0 && now_us >= sequence->deadline_us)
	{
		fail(&err, INFER_DEADLINE,
			 "request ran out of time\n%d tokens were generated in %.1f s.\nRaise infer.timeout.",
			 sequence_n_output(sequence), (double) (now_us - sequence->submitted_us) / 1e6);
		sequence_finish(s, sequence, &err);
	}
	else if (sequence->held && atomic_exchange(&sequence->resume_wanted, false))
	{
		SequenceVerdict verdict = s->config.events.resume(s->config.events.context, sequence);

		sequence->held = verdict == SEQUENCE_HOLD;
	}
}

static void
list_sweep(Scheduler *s, SequenceList *list, int64_t now_us)
{
	Sequence *newer;

	for (Sequence *sequence = list->first; sequence != NULL; sequence = newer)
	{
		newer = sequence->newer;
		sequence_sweep(s, sequence, now_us);
	}
}

void
scheduler_add(Scheduler *s, Sequence *sequence)
{
	sequence->state = SEQUENCE_WAITING;
	sequence->number = s->next_number++;
	sequence->n_tokens = sequence->n_prompt;
	sequence_list_insert(&s->waiting, sequence);
}

bool
scheduler_step(Scheduler *s)
{
	int64_t now_us = s->config.now_us();

	list_sweep(s, &s->running, now_us);
	list_sweep(s, &s->waiting, now_us);
	scheduler_admit(s);
	batch_plan(s);
	if (s->n_batch == 0)
		return false;
	batch_run(s);
	return s->running.n + s->waiting.n > 0;
}

static void
list_finish(Scheduler *s, SequenceList *list, const InferError *err)
{
	while (list->first != NULL)
		sequence_finish(s, list->first, err);
}

void
scheduler_finish_all(Scheduler *s, const InferError *err)
{
	list_finish(s, &s->running, err);
	list_finish(s, &s->waiting, err);
}

static void
list_deadline(const SequenceList *list, int64_t *nearest_us)
{
	for (const Sequence *sequence = list->first; sequence != NULL; sequence = sequence->newer)
		if (sequence->deadline_us != 0 && (*nearest_us == 0 || sequence->deadline_us < *nearest_us))
			*nearest_us = sequence->deadline_us;
}

int64_t
scheduler_deadline_us(const Scheduler *s)
{
	int64_t nearest_us = 0;

	list_deadline(&s->waiting, &nearest_us);
	list_deadline(&s->running, &nearest_us);
	return nearest_us;
}

int32_t
scheduler_n_running(const Scheduler *s)
{
	return s->running.n;
}

int32_t
scheduler_n_waiting(const Scheduler *s)
{
	return s->waiting.n;
}
