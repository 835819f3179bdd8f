/* engine_answer.c: tokens become text and leave through the sink. */
#include "engine/engine_internal.h"

#include <string.h>

/* An answer that nobody reads as it comes is handed over in pieces of this size. */
#define PIECE_BYTES 4096
static EngineRequest *
request_of(Sequence *sequence)
{
	return (EngineRequest *) sequence;
}

/* ---- handing over ---- */

static size_t
piece_limit(const EngineRequest *request)
{
	return request->sink.max_piece_bytes > 0 ? request->sink.max_piece_bytes : SIZE_MAX;
}

static bool
answer_offer(EngineRequest *request)
{
	Answer *answer = &request->answer;

	while (answer_ready(answer) > 0)
	{
		size_t n = text_whole_prefix(answer->text, answer_ready(answer), piece_limit(request));

		if (!request->sink.piece(request->sink.context, answer->text, (uint32_t) n,
								 (uint32_t) sequence_n_output(&request->sequence)))
			return false;
		answer_take(answer, n);
		request->n_given_bytes += n;
	}
	return true;
}

static bool
output_offer(EngineRequest *request)
{
	while (request->n_given_bytes < request->output_bytes)
	{
		const char *from = request->output + request->n_given_bytes;
		size_t left = request->output_bytes - (size_t) request->n_given_bytes;
		size_t n = left < piece_limit(request) ? left : piece_limit(request);

		if (request->output_unit > 1)
			n -= n % request->output_unit;
		else
			n = text_whole_prefix(from, left, n);
		if (!request->sink.piece(request->sink.context, from, (uint32_t) n,
								 (uint32_t) request->n_output_tokens))
			return false;
		request->n_given_bytes += n;
	}
	return true;
}

bool
request_offer(EngineRequest *request)
{
	return request->has_answer ? answer_offer(request) : output_offer(request);
}

/* ---- the end ---- */

static void
result_times(const EngineRequest *request, InferResult *result)
{
	const Sequence *sequence = &request->sequence;

	if (sequence->started_us != 0)
		result->queue_us = sequence->started_us - sequence->submitted_us;
	if (sequence->first_token_us != 0)
	{
		result->prefill_us = sequence->first_token_us - sequence->started_us;
		result->decode_us = sequence->last_token_us - sequence->first_token_us;
	}
}

static void
outcome_count(const EngineRequest *request)
{
	InferCounters *counters = request->engine->counters;

	if (request->error.code == INFER_OK)
		infer_counter_add(&counters->requests_finished, 1);
	else if (request->error.code == INFER_CANCELLED)
		infer_counter_add(&counters->requests_cancelled, 1);
	else
		infer_counter_add(&counters->requests_failed, 1);
}

void
request_end(EngineRequest *request)
{
	const Sequence *sequence = &request->sequence;
	InferResult result;

	memset(&result, 0, sizeof(result));
	result.error = request->error;
	result.finish = (uint32_t) request->finish;
	result.output_bytes = request->n_given_bytes;
	result.output_tokens = request->n_output_tokens;
	if (request->has_answer)
	{
		result.prompt_tokens = sequence->n_prompt;
		result.cached_tokens = sequence->n_cached;
		result.output_tokens = sequence_n_output(sequence);
		result.seed = sequence->sampler.seed;
		result_times(request, &result);
		infer_histogram_add(&request->engine->histograms->end_to_end,
							request->engine->now_us() - sequence->submitted_us);
	}
	if (request->model != NULL)
	{
		memcpy(result.model, request->model->name, sizeof(result.model));
		memcpy(result.fingerprint, request->model->model->fingerprint, sizeof(result.fingerprint));
	}
	else
		memcpy(result.model, request->request.model, sizeof(result.model));
	outcome_count(request);
	request->sink.finish(request->sink.context, &result);
	request_free(request);
}

void
request_leave(EngineRequest *request)
{
	if (request_offer(request))
	{
		request_end(request);
		return;
	}
	request->place = REQUEST_LEAVING;
	request_list_add(&request->engine->leaving, request);
}

/* One that is leaving; true when it is gone. */
static bool
leaving_step(EngineRequest *request, int64_t now_us)
{
	Sequence *sequence = &request->sequence;

	if (atomic_load(&sequence->cancel_wanted))
	{
		fail(&request->error, INFER_CANCELLED, "request was cancelled");
		request->finish = INFER_FINISH_CANCEL;
	}
	else if (request->request.deadline_us != 0 && now_us >= request->request.deadline_us)
	{
		fail(&request->error, INFER_DEADLINE,
			 "request ran out of time\nIts answer was not read.\nRaise infer.timeout.");
		request->finish = INFER_FINISH_ERROR;
	}
	else if (!atomic_exchange(&sequence->resume_wanted, false) || !request_offer(request))
		return false;
	request_end(request);
	return true;
}

void
leaving_sweep(Engine *engine)
{
	RequestList list = engine->leaving;
	EngineRequest *request;
	int64_t now_us;

	if (list.first == NULL)
		return;
	now_us = engine->now_us();
	engine->leaving = (RequestList){ NULL, NULL };
	while ((request = request_list_take(&list)) != NULL)
		if (!leaving_step(request, now_us))
			request_list_add(&engine->leaving, request);
}

/* ---- events of the scheduler ---- */

static InferPhase
phase_of(const Sequence *sequence)
{
	switch (sequence->state)
	{
		case SEQUENCE_WAITING:
			return INFER_PHASE_QUEUED;
		case SEQUENCE_PREFILL:
			return INFER_PHASE_PREFILL;
		case SEQUENCE_DECODE:
			return INFER_PHASE_DECODE;
		case SEQUENCE_PREEMPTED:
			return INFER_PHASE_PREEMPTED;
		case SEQUENCE_FINISHED:
			break;
	}
	return INFER_PHASE_FINISHED;
}

static void
on_progress(void *context, Sequence *sequence)
{
	EngineRequest *request = request_of(sequence);

	(void) context;
	if (request->sink.progress != NULL)
		request->sink.progress(request->sink.context, phase_of(sequence), sequence->n_prompt,
							   sequence->n_cached, sequence_n_output(sequence));
}

static void
on_admitted(void *context, Sequence *sequence)
{
	on_progress(context, sequence);
}

/* Whether a stream's reader, or one that waits for everything, is to be given what is ready. */
static SequenceVerdict
offer_verdict(EngineRequest *request)
{
	bool streams = (request->request.flags & INFER_FLAG_STREAM) != 0;
	size_t n_ready = answer_ready(&request->answer);

	if (n_ready < (streams ? 1 : PIECE_BYTES) || request_offer(request))
		return SEQUENCE_GO_ON;
	return streams || answer_ready(&request->answer) > ENGINE_HOLD_BYTES - PIECE_BYTES
			   ? SEQUENCE_HOLD
			   : SEQUENCE_GO_ON;
}

static SequenceVerdict
on_token(void *context, Sequence *sequence)
{
	EngineRequest *request = request_of(sequence);
	const Tokenizer *tokenizer = request->model->tokenizer;
	int32_t id = sequence->token_ids[sequence->n_tokens - 1];
	size_t n_piece;
	const char *piece;

	on_progress(context, sequence);
	if (tokenizer_is_end(tokenizer, id))
	{
		request->finish = INFER_FINISH_STOP;
		return SEQUENCE_END;
	}
	piece = tokenizer_piece(tokenizer, id, false, &n_piece);
	if (answer_push(&request->answer, piece, n_piece))
	{
		request->finish = INFER_FINISH_STOP;
		return SEQUENCE_END;
	}
	return offer_verdict(request);
}

static SequenceVerdict
on_resume(void *context, Sequence *sequence)
{
	(void) context;
	return offer_verdict(request_of(sequence));
}

static void
on_finished(void *context, Sequence *sequence, const InferError *err)
{
	EngineRequest *request = request_of(sequence);

	(void) context;
	request->error = *err;
	if (err->code != INFER_OK)
	{
		request->finish = err->code == INFER_CANCELLED ? INFER_FINISH_CANCEL : INFER_FINISH_ERROR;
		request_end(request);
		return;
	}
	if (request->finish == INFER_FINISH_NONE)
		request->finish = INFER_FINISH_LENGTH;
	answer_end(&request->answer);
	request_leave(request);
}

SchedulerEvents
answer_events(Engine *engine)
{
	return (SchedulerEvents){
		.context = engine,
		.token = on_token,
		.resume = on_resume,
		.progress = on_progress,
		.admitted = on_admitted,
		.finished = on_finished,
	};
}
