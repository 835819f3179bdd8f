/* batch.c: what a step computes, the pass itself, and what follows from it. */
#include "engine/sched/scheduler_internal.h"

#include <string.h>

/* How much of a new measurement goes into the running mean of times. */
#define MEASURE_SHARE 0.2

/* ---- plan ----------------------------------------------------------------------------------- */

static int32_t
plan_decodes(Scheduler *s)
{
	int32_t n_decode = 0;

	/*
	 * From old to young. Growing may preempt, but only held ones and younger ones (or, as the
	 * youngest, itself): nothing that is planned already.
	 */
	for (Sequence *sequence = s->running.first; sequence != NULL; sequence = sequence->newer)
	{
		sequence->n_chunk = 0;
		if (sequence->state != SEQUENCE_DECODE || sequence->held)
			continue;
		if (!sequence_grow(s, sequence, sequence->n_tokens))
			break;
		sequence->n_chunk = 1;
		n_decode++;
	}
	return n_decode;
}

/* Prompt tokens that fit the step: its token budget and, while anyone decodes, the latency target.
 */
static int32_t
prompt_budget(const Scheduler *s, int32_t n_decode)
{
	int32_t budget = s->limits.batch_tokens - n_decode;

	if (n_decode > 0 && s->prompt_token_us > 0)
	{
		double room_us = (double) s->limits.latency_target_us - s->decode_step_us;
		double n_fit = room_us / s->prompt_token_us;

		if (n_fit < budget)
			budget = n_fit > 0 ? (int32_t) n_fit / KV_PAGE_TOKENS * KV_PAGE_TOKENS : 0;
	}
	return budget > SCHEDULER_MIN_CHUNK ? budget : SCHEDULER_MIN_CHUNK;
}

static int32_t
prompt_left(const Sequence *sequence)
{
	return sequence->n_tokens - sequence->n_computed - sequence->n_chunk;
}

static int32_t
chunk_give(Sequence *sequence, int32_t most)
{
	int32_t n = prompt_left(sequence);

	if (n > most)
		n = most;
	sequence->n_chunk += n;
	return n;
}

/*
 * Half of the budget to the oldest prompt, so that a long one always gets on; the rest to the
 * shortest first, so that a short one never waits for a long one; what is left over to the oldest
 * again.
 */
static void
plan_prompts(Scheduler *s, int32_t budget)
{
	Sequence *oldest = s->running.first;

	while (oldest != NULL && oldest->state != SEQUENCE_PREFILL)
		oldest = oldest->newer;
	if (oldest == NULL)
		return;
	budget -= chunk_give(oldest, (budget + 1) / 2);
	while (budget > 0)
	{
		Sequence *shortest = NULL;

		for (Sequence *sequence = oldest->newer; sequence != NULL; sequence = sequence->newer)
			if (sequence->state == SEQUENCE_PREFILL && sequence->n_chunk == 0 &&
				(shortest == NULL || prompt_left(sequence) < prompt_left(shortest)))
				shortest = sequence;
		if (shortest == NULL)
			break;
		budget -= chunk_give(shortest, budget);
	}
	chunk_give(oldest, budget);
}

static void
batch_add(Scheduler *s, Sequence *sequence)
{
	int32_t n_past = sequence->n_computed;

	memcpy(s->batch_ids + s->n_batch_tokens, sequence->token_ids + n_past,
		   (size_t) sequence->n_chunk * sizeof(int32_t));
	s->batch[s->n_batch] = (ForwardSequence){ .first_token = s->n_batch_tokens,
											  .n_tokens = sequence->n_chunk,
											  .n_past = n_past,
											  .block_table = sequence->block_table };
	s->batch_sequences[s->n_batch++] = sequence;
	s->n_batch_tokens += sequence->n_chunk;
	if (n_past + sequence->n_chunk == sequence->n_tokens)
	{
		s->output_tokens[s->n_outputs] = s->n_batch_tokens - 1;
		s->output_sequences[s->n_outputs++] = sequence;
	}
}

void
batch_plan(Scheduler *s)
{
	int32_t n_decode = plan_decodes(s);

	s->n_batch = 0;
	s->n_batch_tokens = 0;
	s->n_outputs = 0;
	plan_prompts(s, prompt_budget(s, n_decode));
	for (Sequence *sequence = s->running.first; sequence != NULL; sequence = sequence->newer)
		if (sequence->n_chunk > 0)
			batch_add(s, sequence);
}

/* ---- run ------------------------------------------------------------------------------------ */

static void
sample_job(void *context, int32_t thread, int32_t first, int32_t n)
{
	Scheduler *s = context;

	for (int32_t i = first; i < first + n; i++)
	{
		const Sequence *sequence = s->output_sequences[i];

		if (!s->failed_rows[i])
			s->picked[i] = sampler_pick(
				&sequence->sampler, s->config.kernels, s->logits + (int64_t) i * s->n_vocab,
				s->n_vocab, sequence->token_ids, sequence->n_tokens, s->samplers[thread]);
	}
}

static void
measure_mean(double *mean, double value)
{
	*mean = *mean > 0 ? *mean + MEASURE_SHARE * (value - *mean) : value;
}

static void
batch_measure(Scheduler *s, int64_t step_us)
{
	int32_t n_decode = 0;
	int32_t n_prompt;

	for (int32_t i = 0; i < s->n_batch; i++)
		n_decode += s->batch_sequences[i]->state == SEQUENCE_DECODE;
	n_prompt = s->n_batch_tokens - n_decode;
	infer_histogram_add(&s->config.histograms->step, step_us);
	if (step_us <= 0)
		return;
	if (n_prompt == 0)
		measure_mean(&s->decode_step_us, (double) step_us);
	else if (n_prompt >= SCHEDULER_MIN_CHUNK)
	{
		double prompt_us = (double) step_us - (n_decode > 0 ? s->decode_step_us : 0);

		if (prompt_us > 0)
			measure_mean(&s->prompt_token_us, prompt_us / n_prompt);
	}
}

/* Positions of this step count as computed; pages that became full are told to the index. */
static void
sequence_computed(Scheduler *s, Sequence *sequence, int64_t started_us)
{
	int32_t n_full;

	if (sequence->started_us == 0)
	{
		sequence->started_us = started_us;
		infer_histogram_add(&s->config.histograms->queue, started_us - sequence->submitted_us);
	}
	sequence->n_steps++;
	sequence->n_computed += sequence->n_chunk;
	n_full = sequence->n_computed / KV_PAGE_TOKENS;
	if (n_full > sequence->n_published)
	{
		kv_prefix_publish(s->config.kv, &sequence->salt, sequence->token_ids, sequence->n_published,
						  n_full, sequence->block_table);
		sequence->n_published = n_full;
	}
}

static void
sequence_time_token(Scheduler *s, Sequence *sequence, int64_t now_us)
{
	InferHistograms *histograms = s->config.histograms;

	if (sequence->first_token_us == 0)
	{
		sequence->first_token_us = now_us;
		infer_histogram_add(&histograms->first_token, now_us - sequence->submitted_us);
	}
	else
		infer_histogram_add(&histograms->inter_token, now_us - sequence->last_token_us);
	sequence->last_token_us = now_us;
}

static void
sequence_append(Scheduler *s, Sequence *sequence, int32_t token_id, int64_t now_us)
{
	bool decoded = sequence->state == SEQUENCE_DECODE;
	SequenceVerdict verdict;
	InferError none;

	sequence->state = SEQUENCE_DECODE;
	sequence->token_ids[sequence->n_tokens++] = token_id;
	sequence_time_token(s, sequence, now_us);
	infer_counter_add(&s->config.counters->output_tokens, 1);
	if (!decoded)
		sequence_progress(s, sequence);
	verdict = s->config.events.token(s->config.events.context, sequence);
	if (verdict == SEQUENCE_END || sequence->n_tokens >= sequence->max_tokens)
	{
		infer_error_clear(&none);
		sequence_finish(s, sequence, &none);
		return;
	}
	sequence->held = verdict == SEQUENCE_HOLD;
	/* Nobody reads: its place and pages are for others. Full pages stay in the prefix index, so
	 * that a reader who comes back soon costs a few tokens. */
	if (sequence->held)
		sequence_preempt(s, sequence);
}

/* The pass as a whole failed, or some rows did: those end with the error, the others hold. */
static void
batch_fail(Scheduler *s, const InferError *err)
{
	bool any_row = false;

	for (int32_t i = 0; i < s->n_outputs; i++)
		any_row = any_row || s->failed_rows[i];
	if (any_row)
		return;
	for (int32_t i = 0; i < s->n_batch; i++)
		sequence_finish(s, s->batch_sequences[i], err);
	s->n_batch = 0;
	s->n_outputs = 0;
}

void
batch_run(Scheduler *s)
{
	ForwardBatch batch = { .n_tokens = s->n_batch_tokens,
						   .token_ids = s->batch_ids,
						   .n_sequences = s->n_batch,
						   .sequences = s->batch,
						   .n_outputs = s->n_outputs,
						   .output_tokens = s->output_tokens };
	int64_t started_us = s->config.now_us();
	int64_t now_us;
	InferError err;

	infer_error_clear(&err);
	memset(s->failed_rows, 0, (size_t) s->n_outputs * sizeof(bool));
	if (!forward_run(s->forward, &batch, &s->logits, s->failed_rows, &err))
		batch_fail(s, &err);
	if (s->n_outputs == 1)
		sample_job(s, 0, 0, 1);
	else if (s->n_outputs > 1)
		pool_run(s->pool, sample_job, s, s->n_outputs, 1);

	now_us = s->config.now_us();
	infer_counter_add(&s->config.counters->steps, 1);
	infer_counter_add(&s->config.counters->step_tokens, (uint64_t) s->n_batch_tokens);
	if (s->n_batch > 0)
		batch_measure(s, now_us - started_us);
	for (int32_t i = 0; i < s->n_batch; i++)
		sequence_computed(s, s->batch_sequences[i], started_us);
	for (int32_t i = 0; i < s->n_outputs; i++)
	{
		if (s->failed_rows[i])
			sequence_finish(s, s->output_sequences[i], &err);
		else
			sequence_append(s, s->output_sequences[i], s->picked[i], now_us);
	}
}
