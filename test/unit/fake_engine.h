/*
 * fake_engine.h: a stand-in for engine.h's functions in tests of the server loop, where the
 * engine's answers must be known. Included by one .c file per program; its definitions win over
 * libengine.a.
 *
 *   GENERATE, CHAT  max_tokens pieces, each the whole subject; one piece a step
 *   COUNT_TOKENS    answered inside engine_submit, output_tokens = bytes of the payload
 *   TOKENIZE        the subject as pieces, inside engine_submit as far as the ring has room
 *   model "nope"    refused with INFER_UNKNOWN_MODEL
 */
#ifndef INFER_TEST_FAKE_ENGINE_H
#define INFER_TEST_FAKE_ENGINE_H

#include "engine/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct EngineRequest
{
	EngineSink sink;
	InferRequest request;
	char *subject;
	uint64_t subject_bytes;
	uint64_t given_bytes; /* of the current piece */
	int32_t n_given;
	bool cancelled;
	bool drained;
	bool paused; /* the sink had no room; the step's */
	EngineRequest *next;
};

struct Engine
{
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool woken;
	EngineRequest *requests;
	int n_requests;
	int n_cancels;
	int n_drained;
	uint64_t last_session;
	InferSettings settings;
	InferModelEntry model;
};

/* State of its one model from the start. */
static InferModelState fake_model_state = INFER_MODEL_READY;

void
engine_settings_init(InferSettings *settings)
{
	memset(settings, 0, sizeof(*settings));
}

bool
engine_create(const EngineConfig *config, Engine **out, InferError *err)
{
	Engine *engine = calloc(1, sizeof(*engine));

	if (engine == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory");
	pthread_mutex_init(&engine->lock, NULL);
	pthread_cond_init(&engine->changed, NULL);
	engine->settings = config->settings;
	engine->model.state = (uint32_t) fake_model_state;
	memcpy(engine->model.name, "fake", 5);
	*out = engine;
	return true;
}

static void
fake_finish(EngineRequest *request, InferCode code, InferFinish finish, int32_t output_tokens)
{
	InferResult result = { .error.code = (uint32_t) code,
						   .finish = (uint32_t) finish,
						   .output_tokens = output_tokens };

	request->sink.finish(request->sink.context, &result);
	free(request->subject);
	free(request);
}

void
engine_destroy(Engine *engine)
{
	while (engine->requests != NULL)
	{
		EngineRequest *request = engine->requests;

		engine->requests = request->next;
		fake_finish(request, INFER_CANCELLED, INFER_FINISH_CANCEL, request->n_given);
	}
	pthread_mutex_destroy(&engine->lock);
	pthread_cond_destroy(&engine->changed);
	free(engine);
}

/* The rest of the current piece, in parts of max_piece_bytes. False: no room. */
static bool
fake_piece(EngineRequest *request)
{
	do
	{
		uint64_t left = request->subject_bytes - request->given_bytes;
		uint32_t n = request->sink.max_piece_bytes;

		if (left < n)
			n = (uint32_t) left;
		if (!request->sink.piece(request->sink.context, request->subject + request->given_bytes, n,
								 (uint32_t) request->n_given + 1))
			return false;
		request->given_bytes += n;
	} while (request->given_bytes < request->subject_bytes);
	request->given_bytes = 0;
	request->n_given++;
	return true;
}

bool
engine_submit(Engine *engine, uint64_t session, const InferRequest *request, const char *payload,
			  uint64_t payload_bytes, const EngineSink *sink, EngineRequest **handle,
			  InferError *err)
{
	EngineRequest *own;

	if (strcmp(request->model, "nope") == 0)
		return fail(err, INFER_UNKNOWN_MODEL, "there is no model \"nope\"");
	own = calloc(1, sizeof(*own));
	own->sink = *sink;
	own->request = *request;
	own->subject_bytes = request->subject_bytes;
	own->subject = malloc((size_t) request->subject_bytes + 1);
	memcpy(own->subject, payload + request->system_bytes, (size_t) request->subject_bytes);
	*handle = NULL;
	if (request->kind == INFER_KIND_COUNT_TOKENS)
	{
		fake_finish(own, INFER_OK, INFER_FINISH_STOP, (int32_t) payload_bytes);
		return true;
	}
	if (request->kind == INFER_KIND_TOKENIZE)
	{
		own->request.max_tokens = 1;
		if (fake_piece(own))
		{
			fake_finish(own, INFER_OK, INFER_FINISH_STOP, 1);
			return true;
		}
		own->paused = true;
	}
	*handle = own;
	pthread_mutex_lock(&engine->lock);
	engine->last_session = session;
	own->next = engine->requests;
	engine->requests = own;
	engine->n_requests++;
	pthread_cond_signal(&engine->changed);
	pthread_mutex_unlock(&engine->lock);
	return true;
}

void
engine_cancel(Engine *engine, EngineRequest *handle)
{
	pthread_mutex_lock(&engine->lock);
	handle->cancelled = true;
	engine->n_cancels++;
	pthread_cond_signal(&engine->changed);
	pthread_mutex_unlock(&engine->lock);
}

void
engine_drained(Engine *engine, EngineRequest *handle)
{
	pthread_mutex_lock(&engine->lock);
	handle->drained = true;
	engine->n_drained++;
	pthread_cond_signal(&engine->changed);
	pthread_mutex_unlock(&engine->lock);
}

void
engine_settings_set(Engine *engine, const InferSettings *settings)
{
	pthread_mutex_lock(&engine->lock);
	engine->settings = *settings;
	memcpy(engine->model.description, settings->models, sizeof(engine->model.description) - 1);
	pthread_mutex_unlock(&engine->lock);
}

int
engine_models_list(Engine *engine, InferModelEntry *out, int max_entries)
{
	(void) max_entries;
	pthread_mutex_lock(&engine->lock);
	out[0] = engine->model;
	pthread_mutex_unlock(&engine->lock);
	return 1;
}

bool
engine_models_wait(Engine *engine, InferError *err)
{
	(void) engine;
	(void) err;
	return true;
}

bool
engine_model_load_file(Engine *engine, const char *name, const char *path, InferError *err)
{
	(void) engine;
	(void) name;
	(void) path;
	(void) err;
	return true;
}

/* One piece, or the end, of one request. True: it is over and off the list. */
static bool
fake_advance(EngineRequest *request, bool cancelled)
{
	if (cancelled)
	{
		fake_finish(request, INFER_CANCELLED, INFER_FINISH_CANCEL, request->n_given);
		return true;
	}
	if (request->n_given >= request->request.max_tokens)
	{
		fake_finish(request, INFER_OK, INFER_FINISH_LENGTH, request->n_given);
		return true;
	}
	request->sink.progress(request->sink.context, INFER_PHASE_DECODE, 1, 0, request->n_given + 1);
	return false;
}

static bool
fake_is_ready(const EngineRequest *request)
{
	return !request->paused || request->drained || request->cancelled;
}

bool
engine_step(Engine *engine)
{
	EngineRequest *batch;
	bool more = false;

	pthread_mutex_lock(&engine->lock);
	batch = engine->requests;
	engine->requests = NULL;
	engine->n_requests = 0;
	pthread_mutex_unlock(&engine->lock);
	while (batch != NULL)
	{
		EngineRequest *request = batch;
		bool cancelled;

		batch = request->next;
		pthread_mutex_lock(&engine->lock);
		cancelled = request->cancelled;
		if (request->drained)
			request->paused = false;
		request->drained = false;
		pthread_mutex_unlock(&engine->lock);
		if (cancelled || !request->paused)
		{
			if (fake_advance(request, cancelled))
				continue;
			request->paused = !fake_piece(request);
		}
		pthread_mutex_lock(&engine->lock);
		request->next = engine->requests;
		engine->requests = request;
		engine->n_requests++;
		more = more || fake_is_ready(request);
		pthread_mutex_unlock(&engine->lock);
	}
	return more;
}

static bool
fake_has_work(const Engine *engine)
{
	for (EngineRequest *r = engine->requests; r != NULL; r = r->next)
		if (fake_is_ready(r))
			return true;
	return false;
}

void
engine_wait(Engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	while (!engine->woken && !fake_has_work(engine))
		pthread_cond_wait(&engine->changed, &engine->lock);
	engine->woken = false;
	pthread_mutex_unlock(&engine->lock);
}

void
engine_wake(Engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	engine->woken = true;
	pthread_cond_signal(&engine->changed);
	pthread_mutex_unlock(&engine->lock);
}

void
engine_audit(Engine *engine, EngineAudit *out)
{
	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&engine->lock);
	out->n_requests = engine->n_requests;
	pthread_mutex_unlock(&engine->lock);
}

int32_t
engine_max_sequences(const Engine *engine)
{
	(void) engine;
	return 32;
}

#endif
