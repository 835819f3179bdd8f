/*
 * engine_rig.h: an Engine with the real model and a caller that collects its answers: what the
 * tests of engine.h need, on one thread.
 */
#ifndef INFER_TEST_ENGINE_RIG_H
#define INFER_TEST_ENGINE_RIG_H

#include "engine/engine.h"

#include "golden.h"

/* Sanitizers make the model twenty times slower: the same tests with less of everything. */
#ifdef INFER_DEBUG
#	define AMOUNT(full, small) (small)
#else
#	define AMOUNT(full, small) (full)
#endif

#define FRANCE		  "What is the capital of France?"
#define FRANCE_ANSWER "The capital of France is Paris."

/* ---- a caller ---- */

typedef struct Caller
{
	char text[8192];
	size_t n_text;
	int n_pieces;
	int n_refused;
	bool full; /* takes nothing now */
	bool finished;
	InferResult result;
	EngineRequest *handle;
} Caller;

static inline bool
caller_piece(void *context, const char *bytes, uint32_t n_bytes, uint32_t output_tokens)
{
	Caller *caller = context;

	(void) output_tokens;
	assert_false(caller->finished);
	if (caller->full)
	{
		caller->n_refused++;
		return false;
	}
	assert_true(caller->n_text + n_bytes < sizeof(caller->text));
	memcpy(caller->text + caller->n_text, bytes, n_bytes);
	caller->n_text += n_bytes;
	caller->n_pieces++;
	return true;
}

static inline void
caller_finish(void *context, const InferResult *result)
{
	Caller *caller = context;

	assert_false(caller->finished);
	caller->finished = true;
	caller->result = *result;
}

typedef struct Ask
{
	InferKind kind;
	const char *prompt;
	const char *stop;
	const char *model;
	int32_t max_tokens;
	double temperature;
	uint64_t seed; /* 0: none */
	bool streams;
	int64_t deadline_us;
	uint64_t session;
} Ask;

static inline bool
ask(Engine *engine, const Ask *what, Caller *caller, InferError *err)
{
	EngineSink sink = { .context = caller, .piece = caller_piece, .finish = caller_finish };
	size_t n_prompt = strlen(what->prompt);
	size_t n_stop = what->stop != NULL ? strlen(what->stop) + 1 : 0;
	char *payload = malloc(n_prompt + n_stop + 1);
	InferRequest request;
	bool taken;

	assert_non_null(payload);
	memset(caller, 0, sizeof(*caller));
	infer_error_clear(err);
	infer_request_init(&request, what->kind != 0 ? what->kind : INFER_KIND_GENERATE);
	request.subject_bytes = n_prompt;
	request.max_tokens = what->max_tokens > 0 ? what->max_tokens : 32;
	request.temperature = what->temperature;
	request.deadline_us = what->deadline_us;
	request.flags =
		(what->streams ? INFER_FLAG_STREAM : 0) | (what->seed != 0 ? INFER_FLAG_HAS_SEED : 0);
	request.seed = what->seed;
	request.n_stops = n_stop > 0;
	request.stops_bytes = (uint32_t) n_stop;
	if (what->model != NULL)
		strcpy(request.model, what->model);
	memcpy(payload, what->prompt, n_prompt);
	if (n_stop > 0)
		memcpy(payload + n_prompt, what->stop, n_stop);
	taken = engine_submit(engine, what->session, &request, payload, n_prompt + n_stop, &sink,
						  &caller->handle, err);
	free(payload);
	return taken;
}

static inline void
asked(Engine *engine, const Ask *what, Caller *caller)
{
	InferError err;

	if (!ask(engine, what, caller, &err))
		fail_msg("%s: %s", err.message, err.detail);
}

static inline void
run_until(Engine *engine, const bool *done)
{
	for (int i = 0; i < 100000 && !*done; i++)
		engine_step(engine);
	assert_true(*done);
}

static inline void
answer(Engine *engine, const Ask *what, Caller *caller)
{
	asked(engine, what, caller);
	run_until(engine, &caller->finished);
	caller->text[caller->n_text] = '\0';
}

/* ---- engines ---- */

static InferCounters counters;

static inline Engine *
engine_of(const char *path, int32_t max_sequences, int32_t batch_tokens, uint64_t kv_bytes)
{
	EngineConfig config = { .counters = &counters };
	Engine *engine;
	InferError err;

	memset(&counters, 0, sizeof(counters));
	engine_settings_init(&config.settings);
	config.settings.max_sequences = max_sequences;
	config.settings.batch_tokens = batch_tokens;
	config.settings.kv_bytes = kv_bytes;
	config.settings.n_threads = 2;
	if (!engine_create(&config, &engine, &err) ||
		(path != NULL && !engine_model_load_file(engine, "real", path, &err)))
		fail_msg("%s: %s", err.message, err.detail);
	return engine;
}

#define MEBIBYTE ((uint64_t) 1 << 20)

static inline Engine *
real_engine(void)
{
	return engine_of(REAL_MODEL, 32, 512, 256 * MEBIBYTE);
}

/* No request, no page and no allocation in a step is left over. */
static inline void
assert_idle(Engine *engine)
{
	EngineAudit audit;

	for (int i = 0; i < 4; i++)
		engine_step(engine);
	engine_audit(engine, &audit);
	assert_int_equal(audit.n_requests, 0);
	assert_int_equal(audit.kv_pages_free, audit.kv_pages_total);
}

/* For what other threads have a part in. */
static inline void
wait_until(Engine *engine, const bool *done)
{
	while (!*done)
	{
		engine_wait(engine);
		while (engine_step(engine))
			;
	}
}

#endif
