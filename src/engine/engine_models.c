/* engine_models.c: the table of names, and what the settings make of it. */
#include "engine/engine_internal.h"

#include "engine/base/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int32_t
engine_thread_count(const InferSettings *settings)
{
	return settings->n_threads > 0 ? settings->n_threads : machine_physical_cores();
}

SchedulerLimits
engine_limits(const InferSettings *settings)
{
	return (SchedulerLimits){
		.max_sequences = settings->max_sequences > 0 ? settings->max_sequences : 1,
		.batch_tokens = settings->batch_tokens > 0 ? settings->batch_tokens : 1,
		.latency_target_us = (int64_t) settings->latency_target_ms * 1000,
	};
}

ModelName *
model_name_find(Engine *engine, const char *name)
{
	if (name[0] == '\0')
		return engine->n_names > 0 ? &engine->names[0] : NULL;
	for (int i = 0; i < engine->n_names; i++)
		if (strcmp(engine->names[i].name, name) == 0)
			return &engine->names[i];
	return NULL;
}

/* Changes when somebody puts another file in the place. */
static uint64_t
file_stamp(const char *path)
{
	struct stat about;

	if (stat(path, &about) != 0)
		return 0;
	return ((uint64_t) about.st_ino * 31 + (uint64_t) about.st_size) * 31 +
		   (uint64_t) about.st_mtim.tv_sec * 1000000007 + (uint64_t) about.st_mtim.tv_nsec;
}

/* A setting that shapes what is loaded; then every model is loaded anew. */
static bool
settings_reshape(const InferSettings *a, const InferSettings *b)
{
	return strcmp(a->kv_type, b->kv_type) != 0 || a->kv_bytes != b->kv_bytes ||
		   strcmp(a->device, b->device) != 0;
}

static void
text_trim(const char **text, size_t *n_bytes)
{
	while (*n_bytes > 0 && **text == ' ')
	{
		(*text)++;
		(*n_bytes)--;
	}
	while (*n_bytes > 0 && (*text)[*n_bytes - 1] == ' ')
		(*n_bytes)--;
}

static void
text_take(char *to, size_t to_bytes, const char *text, size_t n_bytes)
{
	text_trim(&text, &n_bytes);
	if (n_bytes >= to_bytes)
		n_bytes = to_bytes - 1;
	memcpy(to, text, n_bytes);
	to[n_bytes] = '\0';
}

/* A file by its base name: nothing that leads out of the directory. */
static bool
file_name_is_plain(const char *file)
{
	return file[0] != '\0' && file[0] != '.' && strchr(file, '/') == NULL;
}

/* "name=file" of the setting; false when it is none. */
static bool
name_parse(const InferSettings *settings, const char *text, size_t n_bytes, ModelName *out)
{
	const char *equals = memchr(text, '=', n_bytes);
	char file[sizeof(out->file)];

	memset(out, 0, sizeof(*out));
	if (equals == NULL)
		return false;
	text_take(out->name, sizeof(out->name), text, (size_t) (equals - text));
	text_take(file, sizeof(file), equals + 1, n_bytes - (size_t) (equals + 1 - text));
	memcpy(out->file, file, sizeof(out->file));
	snprintf(out->path, sizeof(out->path), "%s/%s", settings->model_directory, file);
	if (!file_name_is_plain(file))
	{
		out->failed = true;
		snprintf(out->reason, sizeof(out->reason),
				 "file name \"%.100s\" is not the plain name of a file in infer.model_directory",
				 file);
		return out->name[0] != '\0';
	}
	out->wants_load = true;
	out->file_stamp = file_stamp(out->path);
	return out->name[0] != '\0';
}

/* What is known of the name already is kept: the model that serves, or its loading. */
static void
name_keep(Engine *engine, ModelName *wanted, bool reshape)
{
	ModelName *known = model_name_find(engine, wanted->name);

	if (known == NULL || wanted->name[0] == '\0')
		return;
	wanted->current = known->current;
	known->current = NULL;
	if (reshape || strcmp(known->path, wanted->path) != 0 ||
		known->file_stamp != wanted->file_stamp || known->failed)
		return; /* load; one that failed is tried again */
	wanted->wants_load = known->wants_load;
	wanted->is_loading = known->is_loading;
	wanted->failed = known->failed;
	wanted->progress = known->progress;
	memcpy(wanted->reason, known->reason, sizeof(wanted->reason));
}

void
model_names_set(Engine *engine, const InferSettings *settings)
{
	bool reshape = engine->settings_serial > 0 && settings_reshape(&engine->settings, settings);
	ModelName names[INFER_MAX_MODELS];
	int n_names = 0;

	memset(names, 0, sizeof(names));
	for (const char *at = settings->models; *at != '\0' && n_names < INFER_MAX_MODELS;)
	{
		size_t n_bytes = strcspn(at, ",");

		if (name_parse(settings, at, n_bytes, &names[n_names]))
			name_keep(engine, &names[n_names++], reshape);
		at += n_bytes + (at[n_bytes] == ',');
	}
	/* Names that are gone: their models finish what they run. */
	for (int i = 0; i < engine->n_names; i++)
		if (engine->names[i].current != NULL)
			engine->names[i].current->draining = true;
	memcpy(engine->names, names, sizeof(names[0]) * (size_t) n_names);
	engine->n_names = n_names;
	engine->settings = *settings;
	engine->settings_serial++;
	pthread_cond_broadcast(&engine->load_changed);
}

void
engine_settings_set(Engine *engine, const InferSettings *settings)
{
	pthread_mutex_lock(&engine->lock);
	model_names_set(engine, settings);
	pthread_mutex_unlock(&engine->lock);
	engine_wake(engine);
}

int32_t
engine_max_sequences(const Engine *engine)
{
	Engine *e = (Engine *) (uintptr_t) engine;
	int32_t most;

	pthread_mutex_lock(&e->lock);
	most = engine_limits(&e->settings).max_sequences;
	pthread_mutex_unlock(&e->lock);
	return most;
}

/* ---- the view ---- */

static void
entry_of_model(const EngineModel *model, InferModelEntry *entry)
{
	const Model *weights = model->model;

	snprintf(entry->architecture, sizeof(entry->architecture), "%s", weights->config.arch->name);
	snprintf(entry->type_name, sizeof(entry->type_name), "%s", weights->type_name);
	snprintf(entry->description, sizeof(entry->description), "%s", weights->model_name);
	snprintf(entry->device, sizeof(entry->device), "cpu");
	entry->has_template = model->chat_template != NULL;
	entry->load_progress = 1.0f;
	entry->n_parameters = weights->n_parameters;
	entry->file_bytes = model->file_bytes;
	entry->resident_bytes = weights->weight_bytes + kv_pages_bytes(model->kv);
	entry->n_context = model->n_context;
	entry->n_vocab = weights->config.n_vocab;
	entry->kv_pages_total = kv_pages_total(model->kv);
	entry->kv_pages_free = atomic_load(&model->kv_free);
	entry->kv_pages_cached = atomic_load(&model->kv_cached);
	entry->n_running = atomic_load(&model->n_running);
	entry->n_waiting = atomic_load(&model->n_waiting);
	entry->loaded_at_us = model->loaded_at_us;
	memcpy(entry->fingerprint, weights->fingerprint, sizeof(entry->fingerprint));
}

static void
entry_of_name(const ModelName *name, InferModelEntry *entry)
{
	memset(entry, 0, sizeof(*entry));
	memcpy(entry->name, name->name, sizeof(entry->name));
	memcpy(entry->file, name->current != NULL ? name->current->file : name->file,
		   sizeof(entry->file));
	memcpy(entry->reason, name->reason, sizeof(entry->reason));
	entry->state = name->current != NULL ? INFER_MODEL_READY
				   : name->failed		 ? INFER_MODEL_FAILED
										 : INFER_MODEL_LOADING;
	entry->load_progress = atomic_load(&name->progress);
	if (name->current != NULL)
		entry_of_model(name->current, entry);
}

int
engine_models_list(Engine *engine, InferModelEntry *out, int max_entries)
{
	int n = 0;

	pthread_mutex_lock(&engine->lock);
	for (int i = 0; i < engine->n_names && n < max_entries; i++)
	{
		entry_of_name(&engine->names[i], &out[n]);
		out[n++].is_default = i == 0;
	}
	for (const EngineModel *model = engine->models; model != NULL && n < max_entries;
		 model = model->next)
	{
		if (!model->draining)
			continue;
		memset(&out[n], 0, sizeof(out[n]));
		memcpy(out[n].name, model->name, sizeof(out[n].name));
		memcpy(out[n].file, model->file, sizeof(out[n].file));
		out[n].state = INFER_MODEL_DRAINING;
		entry_of_model(model, &out[n++]);
	}
	pthread_mutex_unlock(&engine->lock);
	return n;
}

static bool
any_is_loading(const Engine *engine)
{
	for (int i = 0; i < engine->n_names; i++)
		if (engine->names[i].wants_load || engine->names[i].is_loading)
			return true;
	return false;
}

bool
engine_models_wait(Engine *engine, InferError *err)
{
	bool failed;

	pthread_mutex_lock(&engine->lock);
	while (any_is_loading(engine))
		pthread_cond_wait(&engine->load_changed, &engine->lock);
	failed = engine->n_names > 0 && engine->names[0].current == NULL;
	if (failed)
		fail(err, INFER_MODEL_NOT_READY, "%s", engine->names[0].reason);
	pthread_mutex_unlock(&engine->lock);
	return !failed;
}

bool
engine_model_load_file(Engine *engine, const char *name, const char *path, InferError *err)
{
	ModelName *entry;
	const char *base = strrchr(path, '/');
	bool done;

	pthread_mutex_lock(&engine->lock);
	entry = model_name_find(engine, name);
	if (entry == NULL && engine->n_names < INFER_MAX_MODELS)
	{
		entry = &engine->names[engine->n_names++];
		memset(entry, 0, sizeof(*entry));
		text_take(entry->name, sizeof(entry->name), name, strlen(name));
	}
	if (entry == NULL)
	{
		pthread_mutex_unlock(&engine->lock);
		return fail(err, INFER_LIMIT, "there are %d models already", INFER_MAX_MODELS);
	}
	text_take(entry->file, sizeof(entry->file), base != NULL ? base + 1 : path,
			  strlen(base != NULL ? base + 1 : path));
	text_take(entry->path, sizeof(entry->path), path, strlen(path));
	entry->file_stamp = file_stamp(path);
	entry->wants_load = true;
	pthread_cond_broadcast(&engine->load_changed);
	while (entry->wants_load || entry->is_loading)
		pthread_cond_wait(&engine->load_changed, &engine->lock);
	done = !entry->failed;
	if (!done)
		fail(err, INFER_BAD_MODEL, "%s", entry->reason);
	pthread_mutex_unlock(&engine->lock);
	return done;
}
