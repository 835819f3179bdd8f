/*
 * engine.h: the engine's one public header. Terminal program, server loop and tests see this and
 * nothing below it.
 *
 * An Engine owns models (each with its tokenizer, template, KV pages, scheduler and forward pass),
 * the thread pool, and all requests in flight. Two threads work on it:
 *
 * Intake calls engine_submit, engine_cancel, engine_models_*: it parses, renders, tokenizes and
 * queues, and never waits for a step, so token counts and refusals are answered while one runs.
 * Long texts are rendered and tokenized on a thread of their own.
 *
 * Step calls engine_wait and engine_step: it admits, runs one forward pass per model with work,
 * samples and delivers.
 *
 * They meet in one mutex-guarded queue that is held for pushing and popping only. Loading a model
 * happens on a thread of its own. A program with one thread may do all of it (tests, `generate`).
 *
 * Answers are delivered through the request's EngineSink, always from inside engine_step (or
 * engine_submit for kinds that run no model step), never after finish() was called.
 */
#ifndef INFER_ENGINE_H
#define INFER_ENGINE_H

#include "shared/metrics.h"
#include "shared/region.h"
#include "shared/request.h"
#include "shared/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Engine Engine;
typedef struct EngineRequest EngineRequest;

/* Where an answer goes. All three are called on one thread at a time. */
typedef struct EngineSink
{
	void *context;

	/*
	 * Whole characters of the answer (or the packed ids of TOKENIZE). False: no room now; the
	 * engine keeps the bytes, pauses the sequence (its pages may be preempted) and offers them
	 * again after engine_drained(). One call may carry at most max_piece_bytes.
	 */
	bool (*piece)(void *context, const char *bytes, uint32_t n_bytes, uint32_t output_tokens);
	uint32_t max_piece_bytes; /* 0: any */

	/* Phase or counts changed: for views. May be NULL. */
	void (*progress)(void *context, InferPhase phase, int32_t prompt_tokens, int32_t cached_tokens,
					 int32_t output_tokens);

	/* The end, once, after the last piece was accepted. The handle is gone when this returns. */
	void (*finish)(void *context, const InferResult *result);
} EngineSink;

typedef struct EngineConfig
{
	InferSettings settings;		 /* region.h; models may be "" and come by engine_models_set */
	InferCounters *counters;	 /* NULL: the engine's own */
	InferHistograms *histograms; /* likewise */
	int64_t (*now_us)(void);	 /* NULL: CLOCK_MONOTONIC; tests own the clock */
} EngineConfig;

/* Settings as infer-engine's subcommands use them: no models, defaults for the rest. */
extern void engine_settings_init(InferSettings *settings);

extern bool engine_create(const EngineConfig *config, Engine **out, InferError *err);

/* Cancels everything, joins threads, frees models. */
extern void engine_destroy(Engine *engine);

/* ---- intake thread ---- */

/*
 * Starts a request. `payload` (request.h tells its order) is copied as far as needed before return.
 * `session` groups requests for fairness: any number that names the connection.
 *
 * False: refused, *err says why, the sink is not called. True: finish() will be called, perhaps
 * already has been (then *handle is NULL). A request for a model that is still loading waits.
 */
extern bool engine_submit(Engine *engine, uint64_t session, const InferRequest *request,
						  const char *payload, uint64_t payload_bytes, const EngineSink *sink,
						  EngineRequest **handle, InferError *err);

/*
 * The sequence and its pages are free at the next step; finish() comes with INFER_CANCELLED. Call
 * only before finish() was called (the caller's own lock orders the two: see serve/).
 */
extern void engine_cancel(Engine *engine, EngineRequest *handle);

/* The reader made room: offer held output again. Same rule. */
extern void engine_drained(Engine *engine, EngineRequest *handle);

/* Takes new settings: loads, swaps and drops models in the background; limits apply at the next
 * step. */
extern void engine_settings_set(Engine *engine, const InferSettings *settings);

/* Snapshot of all models for infer_models; returns the number written. Any thread. */
extern int engine_models_list(Engine *engine, InferModelEntry *out, int max_entries);

/* Waits until no model is loading; false when the default model failed, with its reason. */
extern bool engine_models_wait(Engine *engine, InferError *err);

/* Loads one file under a name and waits for it: what the terminal program does. */
extern bool engine_model_load_file(Engine *engine, const char *name, const char *path,
								   InferError *err);

/* ---- step thread ---- */

/* One step: true while there is or may be more to do at once. */
extern bool engine_step(Engine *engine);

/* Sleeps until engine_step may have something to do, or engine_wake. Idle means 0 % CPU. */
extern void engine_wait(Engine *engine);
extern void engine_wake(Engine *engine);

/* What the tests audit: nothing may be left when nothing runs. */
typedef struct EngineAudit
{
	int32_t n_requests;
	int32_t kv_pages_total;
	int32_t kv_pages_free; /* cached ones count as free */
	int64_t n_frozen_allocs;
} EngineAudit;

extern void engine_audit(Engine *engine, EngineAudit *out);

/* Max sequences in force over all models: what a batch window is sized by. */
extern int32_t engine_max_sequences(const Engine *engine);

#endif
