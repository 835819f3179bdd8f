/*
 * engine_load.c: the loading thread. One file at a time becomes an EngineModel, complete with pages
 * and scheduler, before anybody hears of it; then it takes over its name in one step. A file that
 * cannot be loaded changes nothing but the reason that the view shows.
 */
#include "engine/engine_internal.h"

#include "engine/base/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEBIBYTE ((uint64_t) 1 << 20)

void
engine_model_free(EngineModel *model)
{
	if (model == NULL)
		return;
	scheduler_destroy(model->scheduler);
	kv_pages_destroy(model->kv);
	arena_reset(&model->template_arena);
	tokenizer_destroy(model->tokenizer);
	model_free(model->model);
	free(model);
}

/* What a load works on: a copy, since the table may change meanwhile. */
typedef struct Load
{
	Engine *engine;
	InferSettings settings;
	ModelName name;
} Load;

static ModelName *
load_target(Engine *engine, const Load *load)
{
	ModelName *name = model_name_find(engine, load->name.name);

	if (name == NULL || !name->is_loading || strcmp(name->path, load->name.path) != 0 ||
		name->file_stamp != load->name.file_stamp)
		return NULL;
	return name;
}

/* False stops the load: the engine ends, or the name wants another file by now. */
static bool
load_progress(void *context, float done)
{
	Load *load = context;
	Engine *engine = load->engine;
	ModelName *target;
	bool go_on;

	pthread_mutex_lock(&engine->lock);
	target = load_target(engine, load);
	if (target != NULL)
		target->progress = done;
	go_on = target != NULL && !engine->quits;
	pthread_mutex_unlock(&engine->lock);
	return go_on;
}

static KvType
kv_type_of(const InferSettings *settings)
{
	return strcmp(settings->kv_type, "f32") == 0 ? KV_F32 : KV_F16;
}

static int32_t
page_count(const InferSettings *settings, const ModelConfig *config)
{
	return kv_page_count(config, kv_type_of(settings), settings->kv_bytes,
						 engine_limits(settings).max_sequences);
}

/* A model is admitted only if weights and pages fit; else the kernel would choose whom to kill. */
static bool
memory_check(const Load *load, const Gguf *gguf, const ModelConfig *config, InferError *err)
{
	uint64_t available = machine_memory_available();
	size_t weights;
	uint64_t pages;

	if (!model_weight_bytes(gguf, &weights, err))
		return false;
	pages = (uint64_t) page_count(&load->settings, config) *
			kv_page_bytes(config, kv_type_of(&load->settings));
	if (weights <= available && pages <= available - weights)
		return true;
	return fail(err, INFER_OUT_OF_MEMORY,
				"not enough memory for model file \"%s\"\n"
				"Weights take %" PRIu64 " MiB and the KV cache %" PRIu64 " MiB, %" PRIu64
				" MiB are available.\n"
				"Lower infer.kv_memory, or take a smaller model.",
				gguf_name(gguf), (uint64_t) weights / MEBIBYTE, pages / MEBIBYTE,
				available / MEBIBYTE);
}

static bool
text_load(const Gguf *gguf, EngineModel *model, InferError *err)
{
	const char *source;
	size_t n_source;

	if (!tokenizer_create(gguf, &model->tokenizer, err))
		return false;
	if (tokenizer_vocab_size(model->tokenizer) != (size_t) model->model->config.n_vocab)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged\n"
					"Its vocabulary has %zu tokens, its embedding %" PRId32 ".",
					gguf_name(gguf), tokenizer_vocab_size(model->tokenizer),
					model->model->config.n_vocab);
	model->max_piece_bytes = tokenizer_max_piece_bytes(model->tokenizer);
	source = tokenizer_chat_template(model->tokenizer, &n_source);
	if (source == NULL)
		return true;
	if (!template_parse(&model->template_arena, source, n_source, &model->chat_template, err))
		return fail_prefix(err, "chat template of model file \"%s\": ", gguf_name(gguf));
	return true;
}

static bool
pages_load(const Load *load, EngineModel *model, InferError *err)
{
	const ModelConfig *config = &model->model->config;
	int32_t n_pages = page_count(&load->settings, config);
	SchedulerConfig scheduler = {
		.model = model->model,
		.kernels = &load->engine->kernels,
		.events = answer_events(load->engine),
		.counters = load->engine->counters,
		.histograms = load->engine->histograms,
		.now_us = load->engine->now_us,
	};
	SchedulerLimits limits = engine_limits(&load->settings);
	bool done;

	if (!kv_pages_create(config, kv_type_of(&load->settings), n_pages, &model->kv, err))
		return false;
	scheduler.kv = model->kv;
	model->kv_free = n_pages;
	model->n_context = kv_pages_context(model->kv, config);
	/* The lock keeps the pool there; the step thread gives its own before the first step. */
	pthread_mutex_lock(&load->engine->lock);
	done = scheduler_create(&scheduler, load->engine->pool, &limits, &model->scheduler, err);
	pthread_mutex_unlock(&load->engine->lock);
	return done;
}

static bool
model_fill(Load *load, Gguf *gguf, EngineModel *model, InferError *err)
{
	ModelConfig config;
	Pool *pool = NULL;
	bool done;

	if (!model_config_read(gguf, &config, err) || !memory_check(load, gguf, &config, err))
		return false;
	/* A pool of its own: the engine's may be in the middle of a step. */
	if (!pool_create(engine_thread_count(&load->settings), &pool, err))
		return false;
	done = model_load(gguf, pool, load_progress, load, &model->model, err);
	pool_destroy(pool);
	if (!done)
		return false;
	gguf_drop_pages(gguf);
	return text_load(gguf, model, err) && pages_load(load, model, err);
}

static int64_t
clock_realtime_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool
file_load(Load *load, EngineModel **out, InferError *err)
{
	EngineModel *model = calloc(1, sizeof(*model));
	Gguf *gguf = NULL;
	bool done;

	if (model == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for a model");
	arena_init(&model->template_arena, 0);
	memcpy(model->name, load->name.name, sizeof(model->name));
	memcpy(model->file, load->name.file, sizeof(model->file));
	done = gguf_open(load->name.path, &gguf, err);
	if (done)
	{
		model->file_bytes = gguf_file_bytes(gguf);
		done = model_fill(load, gguf, model, err);
		gguf_close(gguf);
	}
	model->loaded_at_us = clock_realtime_us();
	if (!done)
	{
		engine_model_free(model);
		return false;
	}
	*out = model;
	return true;
}

/* ---- the thread ---- */

/* The new model takes the name over; what it replaces finishes what it runs. */
static void
load_publish(Engine *engine, const Load *load, EngineModel *model, const InferError *err)
{
	ModelName *target = load_target(engine, load);

	if (target == NULL)
	{
		/* The name wants another file by now, or is gone. */
		if (model != NULL)
		{
			model->draining = true;
			model->next = engine->models;
			engine->models = model;
		}
		return;
	}
	target->is_loading = false;
	target->failed = model == NULL;
	target->reason[0] = '\0';
	if (model == NULL)
	{
		snprintf(target->reason, sizeof(target->reason), "%.150s%s%.160s", err->message,
				 err->detail[0] != '\0' ? ": " : "", err->detail);
		return;
	}
	if (target->current != NULL)
		target->current->draining = true;
	target->current = model;
	target->progress = 1.0f;
	model->next = engine->models;
	engine->models = model;
}

static bool
load_next(Engine *engine, Load *load)
{
	for (int i = 0; i < engine->n_names; i++)
	{
		ModelName *name = &engine->names[i];

		if (!name->wants_load)
			continue;
		name->wants_load = false;
		name->is_loading = true;
		name->failed = false;
		name->progress = 0.0f;
		load->engine = engine;
		load->settings = engine->settings;
		load->name = *name;
		return true;
	}
	return false;
}

static void *
loader_main(void *argument)
{
	Engine *engine = argument;
	Load load;

	pthread_setname_np(pthread_self(), "infer-load");
	pthread_mutex_lock(&engine->lock);
	while (!engine->quits)
	{
		EngineModel *model = NULL;
		InferError err;

		if (!load_next(engine, &load))
		{
			pthread_cond_wait(&engine->load_changed, &engine->lock);
			continue;
		}
		pthread_mutex_unlock(&engine->lock);
		infer_error_clear(&err);
		if (!file_load(&load, &model, &err))
			model = NULL;
		pthread_mutex_lock(&engine->lock);
		load_publish(engine, &load, model, &err);
		pthread_cond_broadcast(&engine->load_changed);
		pthread_mutex_unlock(&engine->lock);
		engine_wake(engine);
		pthread_mutex_lock(&engine->lock);
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

bool
loader_start(Engine *engine, InferError *err)
{
	int error = pthread_create(&engine->loader, NULL, loader_main, engine);

	if (error != 0)
		return fail(err, INFER_OUT_OF_MEMORY, "could not start the engine's loading thread\n%s.",
					strerror(error));
	engine->loader_runs = true;
	return true;
}

void
loader_stop(Engine *engine)
{
	if (!engine->loader_runs)
		return;
	pthread_mutex_lock(&engine->lock);
	engine->quits = true;
	pthread_cond_broadcast(&engine->load_changed);
	pthread_mutex_unlock(&engine->lock);
	pthread_join(engine->loader, NULL);
	engine->loader_runs = false;
}
