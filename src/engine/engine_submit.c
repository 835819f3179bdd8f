/* engine_submit.c: requests come in, wait for a model that loads, are cancelled. */
#include "engine/engine_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- birth and end ---- */

static void
all_link(EngineRequest *request)
{
	Engine *engine = request->engine;

	request->all_next = engine->all;
	if (engine->all != NULL)
		engine->all->all_previous = request;
	engine->all = request;
	engine->n_requests++;
}

static void
all_unlink(EngineRequest *request)
{
	if (request->all_previous != NULL)
		request->all_previous->all_next = request->all_next;
	else
		request->engine->all = request->all_next;
	if (request->all_next != NULL)
		request->all_next->all_previous = request->all_previous;
	request->engine->n_requests--;
}

void
request_free(EngineRequest *request)
{
	Engine *engine = request->engine;

	pthread_mutex_lock(&engine->lock);
	all_unlink(request);
	if (request->model != NULL)
		request->model->n_requests--;
	pthread_mutex_unlock(&engine->lock);
	arena_reset(&request->arena);
	free(request);
}

static EngineRequest *
request_make(Engine *engine, uint64_t session, const InferRequest *asked, const char *payload,
			 uint64_t payload_bytes, const EngineSink *sink)
{
	EngineRequest *request = calloc(1, sizeof(*request));

	if (request == NULL)
		return NULL;
	arena_init(&request->arena, ENGINE_REQUEST_BYTES);
	request->engine = engine;
	request->session = session;
	request->request = *asked;
	request->sink = *sink;
	request->output_unit = 1;
	request->payload = arena_copy_text(&request->arena, payload, (size_t) payload_bytes);
	if (request->payload == NULL)
	{
		arena_reset(&request->arena);
		free(request);
		return NULL;
	}
	request->sequence.submitted_us = engine->now_us();
	return request;
}

/* ---- a model for it ---- */

/* "chat, code": for the hint. */
static void
names_print(const Engine *engine, char *to, size_t to_bytes)
{
	size_t n = 0;

	to[0] = '\0';
	for (int i = 0; i < engine->n_names && n < to_bytes; i++)
		n += (size_t) snprintf(to + n, to_bytes - n, "%s%s", i > 0 ? ", " : "",
							   engine->names[i].name);
}

static bool
fail_unknown(const Engine *engine, const char *name, InferError *err)
{
	char known[200];

	if (engine->n_names == 0)
		return fail(err, name[0] == '\0' ? INFER_MODEL_NOT_READY : INFER_UNKNOWN_MODEL,
					"no model is configured\n\nSet infer.models = 'name=file.gguf' and reload.");
	names_print(engine, known, sizeof(known));
	return fail(err, INFER_UNKNOWN_MODEL, "model \"%s\" does not exist\n\nKnown models: %s.", name,
				known);
}

/* A reason is a message, which has no full stop, or a message and its detail, which has one. */
static bool
ends_in_stop(const char *text)
{
	size_t n = strlen(text);

	return n > 0 && text[n - 1] == '.';
}

bool
request_find_model(EngineRequest *request, bool *parked, InferError *err)
{
	Engine *engine = request->engine;
	const ModelName *name = model_name_find(engine, request->request.model);

	*parked = false;
	if (name == NULL)
		return fail_unknown(engine, request->request.model, err);
	if (name->current != NULL)
	{
		request->model = name->current;
		request->model->n_requests++;
		return true;
	}
	if (name->failed && !name->wants_load && !name->is_loading)
		return fail(err, INFER_MODEL_NOT_READY,
					"model \"%s\" could not be loaded\n%s%s\nPut the file right and reload.",
					name->name, name->reason, ends_in_stop(name->reason) ? "" : ".");
	*parked = true;
	return true;
}

/* ---- bounds of the queue; the lock is held ---- */

static bool
request_waits(const EngineRequest *request)
{
	return request->place <= REQUEST_INBOX ||
		   (request->place == REQUEST_SCHEDULED && request->sequence.state == SEQUENCE_WAITING);
}

static bool
queue_check(const Engine *engine, uint32_t role_id, InferError *err)
{
	int32_t n_waiting = 0;
	int32_t n_role = 0;

	if (engine->settings.max_queue <= 0 && engine->settings.max_role_queue <= 0)
		return true;
	for (const EngineRequest *r = engine->all; r != NULL; r = r->all_next)
	{
		bool waits = request_waits(r);

		n_waiting += waits;
		n_role += waits && r->request.role_id == role_id;
	}
	if (engine->settings.max_queue > 0 && n_waiting >= engine->settings.max_queue)
		return fail(err, INFER_QUEUE_FULL,
					"too many requests wait for the model\n%" PRId32
					" wait.\nTry again later, or raise infer.max_queue.",
					n_waiting);
	if (engine->settings.max_role_queue > 0 && n_role >= engine->settings.max_role_queue)
		return fail(err, INFER_QUEUE_FULL,
					"too many requests of this role wait for the model\n%" PRId32
					" wait.\nTry again later, or raise infer.max_role_queue.",
					n_role);
	return true;
}

/* ---- on its way ---- */

void
inbox_add(EngineRequest *request)
{
	Engine *engine = request->engine;

	pthread_mutex_lock(&engine->lock);
	request->place = REQUEST_INBOX;
	request_list_add(&engine->inbox, request);
	pthread_mutex_unlock(&engine->lock);
}

/* The caller has the reason already. */
static bool
request_refuse(EngineRequest *request)
{
	infer_counter_add(&request->engine->counters->requests_refused, 1);
	request_free(request);
	return false;
}

bool
engine_submit(Engine *engine, uint64_t session, const InferRequest *asked, const char *payload,
			  uint64_t payload_bytes, const EngineSink *sink, EngineRequest **handle,
			  InferError *err)
{
	EngineRequest *request;
	bool parked = false;
	bool found;

	*handle = NULL;
	infer_counter_add(&engine->counters->requests_submitted, 1);
	if (!infer_request_check(asked, payload_bytes, err))
	{
		infer_counter_add(&engine->counters->requests_refused, 1);
		return false;
	}
	request = request_make(engine, session, asked, payload, payload_bytes, sink);
	if (request == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a request");

	pthread_mutex_lock(&engine->lock);
	found = queue_check(engine, asked->role_id, err);
	all_link(request);
	found = found && request_find_model(request, &parked, err);
	if (found && parked)
	{
		request->parked_us = request->sequence.submitted_us;
		request->place = REQUEST_PARKED;
		request_list_add(&engine->parked, request);
		*handle = request;
	}
	pthread_mutex_unlock(&engine->lock);
	if (!found)
		return request_refuse(request);
	if (parked)
	{
		engine_wake(engine); /* its deadline may be the nearest now */
		return true;
	}
	if (request_is_long(request))
	{
		*handle = request;
		long_add(request);
		return true;
	}
	if (!request_prepare(request, err))
		return request_refuse(request);
	if (!request->has_answer && request_offer(request))
	{
		request_end(request);
		return true;
	}
	*handle = request;
	inbox_add(request);
	engine_wake(engine);
	return true;
}

void
engine_cancel(Engine *engine, EngineRequest *request)
{
	atomic_store(&request->sequence.cancel_wanted, true);
	engine_wake(engine);
}

void
engine_drained(Engine *engine, EngineRequest *request)
{
	atomic_store(&request->sequence.resume_wanted, true);
	engine_wake(engine);
}

/* ---- parked ---- */

static bool
parked_is_late(const EngineRequest *request, int64_t now_us, int64_t load_timeout_us,
			   InferError *err)
{
	if (atomic_load(&request->sequence.cancel_wanted))
	{
		fail(err, INFER_CANCELLED, "request was cancelled");
		return true;
	}
	if (request->request.deadline_us != 0 && now_us >= request->request.deadline_us)
	{
		fail(err, INFER_DEADLINE,
			 "request ran out of time\nIts model is still being loaded.\nRaise infer.timeout.");
		return true;
	}
	if (now_us - request->parked_us < load_timeout_us)
		return false;
	fail(err, INFER_MODEL_NOT_READY,
		 "model is still being loaded\nThe request waited %.1f s.\n"
		 "Try again later, or raise infer.load_timeout.",
		 (double) (now_us - request->parked_us) / 1e6);
	return true;
}

/* Takes out of the parked list what can go on or has to end; the rest stays in order. */
static RequestList
parked_take(Engine *engine, int64_t now_us)
{
	RequestList ready = { NULL, NULL };
	RequestList rest = { NULL, NULL };
	EngineRequest *request;

	pthread_mutex_lock(&engine->lock);
	while ((request = request_list_take(&engine->parked)) != NULL)
	{
		bool parked = false;

		infer_error_clear(&request->error);
		if (!parked_is_late(request, now_us, (int64_t) engine->settings.load_timeout_ms * 1000,
							&request->error) &&
			request_find_model(request, &parked, &request->error) && parked)
			request_list_add(&rest, request);
		else
			request_list_add(&ready, request);
	}
	engine->parked = rest;
	pthread_mutex_unlock(&engine->lock);
	return ready;
}

void
parked_sweep(Engine *engine)
{
	RequestList ready;
	EngineRequest *request;

	/* A look without the lock: whoever adds wakes this thread afterwards. */
	if (__atomic_load_n(&engine->parked.first, __ATOMIC_RELAXED) == NULL)
		return;
	ready = parked_take(engine, engine->now_us());
	while ((request = request_list_take(&ready)) != NULL)
	{
		if (request->error.code == INFER_OK && request_is_long(request))
		{
			long_add(request);
			continue;
		}
		if (request->error.code == INFER_OK)
			request_prepare(request, &request->error);
		inbox_add(request);
	}
}
