#include "engine/engine_internal.h"

#include "engine/base/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define IDLE_WAIT_MS                                                                               \
	60000 /* nothing is due: a wake-up a minute costs nothing and heals anything                   \
		   */

void
request_list_add(RequestList *list, EngineRequest *request)
{
	request->next = NULL;
	if (list->last != NULL)
		list->last->next = request;
	else
		list->first = request;
	list->last = request;
}

EngineRequest *
request_list_take(RequestList *list)
{
	EngineRequest *request = list->first;

	if (request == NULL)
		return NULL;
	list->first = request->next;
	if (list->first == NULL)
		list->last = NULL;
	request->next = NULL;
	return request;
}

/* ---- life ---- */

void
engine_settings_init(InferSettings *settings)
{
	memset(settings, 0, sizeof(*settings));
	strcpy(settings->device, "auto");
	strcpy(settings->kv_type, "f16");
	settings->max_sequences = 32;
	settings->batch_tokens = 512;
	settings->latency_target_ms = 100;
	settings->load_timeout_ms = 60000;
	settings->kv_bytes = (uint64_t) 1 << 30;
}

static bool
locks_init(Engine *engine)
{
	pthread_condattr_t monotonic;

	if (pthread_condattr_init(&monotonic) != 0)
		return false;
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	return pthread_mutex_init(&engine->lock, NULL) == 0 &&
		   pthread_mutex_init(&engine->wake_lock, NULL) == 0 &&
		   pthread_cond_init(&engine->load_changed, &monotonic) == 0 &&
		   pthread_cond_init(&engine->long_changed, &monotonic) == 0 &&
		   pthread_cond_init(&engine->wake_changed, &monotonic) == 0;
}

static bool
engine_fill(Engine *engine, const EngineConfig *config, InferError *err)
{
	const char *problem = NULL;

	engine->now_us = config->now_us != NULL ? config->now_us : machine_clock_us;
	engine->counters = config->counters != NULL ? config->counters : &engine->own_counters;
	engine->histograms = config->histograms != NULL ? config->histograms : &engine->own_histograms;
	if (!kernels_select(&engine->kernels, &problem))
		return fail(err, INFER_BAD_OPTION, "INFER_CPU has a value that is not known\n\n%s.",
					problem);
	if (getrandom(engine->secret, sizeof(engine->secret), 0) != (ssize_t) sizeof(engine->secret))
		return fail(err, INFER_INTERNAL, "the kernel has no random numbers\n%s.", strerror(errno));
	if (!pool_create(engine_thread_count(&config->settings), &engine->pool, err))
		return false;
	pthread_mutex_lock(&engine->lock);
	model_names_set(engine, &config->settings);
	pthread_mutex_unlock(&engine->lock);
	return loader_start(engine, err) && long_start(engine, err);
}

bool
engine_create(const EngineConfig *config, Engine **out, InferError *err)
{
	Engine *engine = calloc(1, sizeof(*engine));

	if (engine == NULL || !locks_init(engine))
	{
		free(engine);
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for the engine");
	}
	if (!engine_fill(engine, config, err))
	{
		engine_destroy(engine);
		return false;
	}
	*out = engine;
	return true;
}

/* Every request ends with this error, wherever it is. No other thread is in the engine any more. */
static void
requests_end(Engine *engine)
{
	InferError err;
	EngineRequest *request;

	fail(&err, INFER_CANCELLED, "the inference engine is shutting down");
	for (EngineModel *model = engine->models; model != NULL; model = model->next)
		scheduler_finish_all(model->scheduler, &err);
	while ((request = engine->all) != NULL)
	{
		request->error = err;
		request->finish = INFER_FINISH_CANCEL;
		request_end(request);
	}
}

void
engine_destroy(Engine *engine)
{
	if (engine == NULL)
		return;
	long_stop(engine);
	loader_stop(engine);
	requests_end(engine);
	while (engine->models != NULL)
	{
		EngineModel *model = engine->models;

		engine->models = model->next;
		engine_model_free(model);
	}
	pool_destroy(engine->pool);
	pthread_mutex_destroy(&engine->lock);
	pthread_mutex_destroy(&engine->wake_lock);
	pthread_cond_destroy(&engine->load_changed);
	pthread_cond_destroy(&engine->long_changed);
	pthread_cond_destroy(&engine->wake_changed);
	free(engine);
}

/* ---- the step ---- */

/* A new number of threads means a new pool; limits go to every scheduler. */
static void
settings_apply(Engine *engine)
{
	InferSettings settings;
	uint32_t serial;
	Pool *old = NULL;
	InferError err;

	pthread_mutex_lock(&engine->lock);
	settings = engine->settings;
	serial = engine->settings_serial;
	pthread_mutex_unlock(&engine->lock);
	if (serial == engine->applied_serial)
		return;
	engine->applied_serial = serial;
	if (engine_thread_count(&settings) != pool_thread_count(engine->pool))
	{
		Pool *pool;

		/* On failure the old pool goes on: fewer or more threads are no reason to stop. */
		if (pool_create(engine_thread_count(&settings), &pool, &err))
		{
			old = engine->pool;
			pthread_mutex_lock(&engine->lock);
			engine->pool = pool;
			pthread_mutex_unlock(&engine->lock);
		}
	}
	pthread_mutex_lock(&engine->lock);
	for (EngineModel *model = engine->models; model != NULL; model = model->next)
		model->adopted = false;
	pthread_mutex_unlock(&engine->lock);
	/* No scheduler runs now, and each is given the new pool before it runs again. */
	pool_destroy(old);
}

/* New models, and all of them after a change of settings. */
static void
model_adopt(Engine *engine, EngineModel *model)
{
	SchedulerLimits limits;
	InferError err;

	if (model->adopted)
		return;
	pthread_mutex_lock(&engine->lock);
	limits = engine_limits(&engine->settings);
	pthread_mutex_unlock(&engine->lock);
	if (!scheduler_limits_set(model->scheduler, engine->pool, &limits, &err))
	{
		/* Out of memory for larger steps: smaller ones will do, with the new pool. */
		limits.batch_tokens = 1;
		limits.max_sequences = 1;
		if (!scheduler_limits_set(model->scheduler, engine->pool, &limits, &err))
			return;
	}
	model->adopted = true;
}

static void
inbox_take(Engine *engine)
{
	RequestList inbox;
	EngineRequest *request;

	pthread_mutex_lock(&engine->lock);
	inbox = engine->inbox;
	engine->inbox = (RequestList){ NULL, NULL };
	pthread_mutex_unlock(&engine->lock);
	while ((request = request_list_take(&inbox)) != NULL)
	{
		if (request->error.code != INFER_OK)
		{
			request->finish =
				request->error.code == INFER_CANCELLED ? INFER_FINISH_CANCEL : INFER_FINISH_ERROR;
			request_end(request);
			continue;
		}
		if (!request->has_answer)
		{
			request_leave(request);
			continue;
		}
		request->place = REQUEST_SCHEDULED;
		scheduler_add(request->model->scheduler, &request->sequence);
	}
}

static void
model_note(EngineModel *model)
{
	atomic_store_explicit(&model->kv_free, kv_pages_free_count(model->kv), memory_order_relaxed);
	atomic_store_explicit(&model->kv_cached, kv_pages_cached_count(model->kv),
						  memory_order_relaxed);
	atomic_store_explicit(&model->n_running, scheduler_n_running(model->scheduler),
						  memory_order_relaxed);
	atomic_store_explicit(&model->n_waiting, scheduler_n_waiting(model->scheduler),
						  memory_order_relaxed);
}

/* Models that were replaced and have nothing left to do. */
static void
models_reap(Engine *engine)
{
	EngineModel *reaped = NULL;

	pthread_mutex_lock(&engine->lock);
	for (EngineModel **link = &engine->models; *link != NULL;)
	{
		EngineModel *model = *link;

		if (!model->draining || model->n_requests > 0)
		{
			link = &model->next;
			continue;
		}
		*link = model->next;
		model->next = reaped;
		reaped = model;
	}
	pthread_mutex_unlock(&engine->lock);
	while (reaped != NULL)
	{
		EngineModel *next = reaped->next;

		engine_model_free(reaped);
		reaped = next;
	}
}

/* The next of the table; only the step thread takes models out, so the pointer stays good. */
static EngineModel *
model_next(Engine *engine, EngineModel *model)
{
	EngineModel *next;

	pthread_mutex_lock(&engine->lock);
	next = model == NULL ? engine->models : model->next;
	pthread_mutex_unlock(&engine->lock);
	return next;
}

bool
engine_step(Engine *engine)
{
	bool more = false;

	settings_apply(engine);
	parked_sweep(engine);
	inbox_take(engine);
	leaving_sweep(engine);
	for (EngineModel *model = model_next(engine, NULL); model != NULL;
		 model = model_next(engine, model))
	{
		model_adopt(engine, model);
		if (model->adopted && scheduler_step(model->scheduler))
			more = true;
		model_note(model);
	}
	models_reap(engine);
	pthread_mutex_lock(&engine->lock);
	more = more || engine->inbox.first != NULL;
	pthread_mutex_unlock(&engine->lock);
	return more;
}

/* ---- waiting ---- */

/* The nearest moment at which something must happen by itself; 0: none. */
static int64_t
nearest_deadline_us(Engine *engine)
{
	int64_t nearest_us = 0;

	pthread_mutex_lock(&engine->lock);
	for (const EngineModel *model = engine->models; model != NULL; model = model->next)
	{
		int64_t deadline_us = scheduler_deadline_us(model->scheduler);

		if (deadline_us != 0 && (nearest_us == 0 || deadline_us < nearest_us))
			nearest_us = deadline_us;
	}
	for (const EngineRequest *request = engine->parked.first; request != NULL;
		 request = request->next)
	{
		int64_t deadline_us =
			request->parked_us + (int64_t) engine->settings.load_timeout_ms * 1000;

		if (request->request.deadline_us != 0 && request->request.deadline_us < deadline_us)
			deadline_us = request->request.deadline_us;
		if (nearest_us == 0 || deadline_us < nearest_us)
			nearest_us = deadline_us;
	}
	for (const EngineRequest *request = engine->leaving.first; request != NULL;
		 request = request->next)
		if (request->request.deadline_us != 0 &&
			(nearest_us == 0 || request->request.deadline_us < nearest_us))
			nearest_us = request->request.deadline_us;
	pthread_mutex_unlock(&engine->lock);
	return nearest_us;
}

void
engine_wait(Engine *engine)
{
	int64_t nearest_us = nearest_deadline_us(engine);
	int64_t wait_us = (int64_t) IDLE_WAIT_MS * 1000;
	struct timespec until;

	if (nearest_us != 0)
	{
		int64_t left_us = nearest_us - engine->now_us();

		if (left_us < wait_us)
			wait_us = left_us > 0 ? left_us : 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_us / 1000000;
	until.tv_nsec += wait_us % 1000000 * 1000;
	if (until.tv_nsec >= 1000000000)
	{
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&engine->wake_lock);
	while (!engine->woken &&
		   pthread_cond_timedwait(&engine->wake_changed, &engine->wake_lock, &until) != ETIMEDOUT)
		;
	engine->woken = false;
	pthread_mutex_unlock(&engine->wake_lock);
}

void
engine_wake(Engine *engine)
{
	pthread_mutex_lock(&engine->wake_lock);
	engine->woken = true;
	pthread_cond_signal(&engine->wake_changed);
	pthread_mutex_unlock(&engine->wake_lock);
}

void
engine_audit(Engine *engine, EngineAudit *out)
{
	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&engine->lock);
	out->n_requests = engine->n_requests;
	for (const EngineModel *model = engine->models; model != NULL; model = model->next)
	{
		out->kv_pages_total += kv_pages_total(model->kv);
		out->kv_pages_free += atomic_load(&model->kv_free);
	}
	pthread_mutex_unlock(&engine->lock);
}
