/*
 * engine_internal.h: the inside of an Engine, for the engine_*.c files and nobody else.
 *
 *     engine.c          life, the step, waiting
 *     engine_models.c   the table of names, settings, what the view shows
 *     engine_load.c     the loading thread: files become EngineModels
 *     engine_submit.c   requests come in, wait for a model, are cancelled
 *     engine_prompt.c   template and tokenizer: a request becomes token ids
 *     engine_long.c     the thread that does so for long texts
 *     engine_answer.c   tokens become text and leave through the sink
 *
 * A request is always in one place, and moves only this way:
 *
 *     submit ─┬─▶ parked (its model loads) ─┬─▶ long (much text) ─┐
 *             └─────────────────────────────┴─────────────────────┴─▶ inbox ─▶ scheduler ─▶
 *     leaving (output waits) ─▶ gone
 *
 * `lock` guards the table, the lists `all`, `parked`, `long_texts` and `inbox`, and reference
 * counts. It is never held while a sink is called, while a model runs, or while text is tokenized.
 */
#ifndef INFER_ENGINE_INTERNAL_H
#define INFER_ENGINE_INTERNAL_H

#include "engine/base/arena.h"
#include "engine/engine.h"
#include "engine/sample/answer.h"
#include "engine/sched/scheduler.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"

#include <pthread.h>

/* A model that was loaded: everything that serves one file. */
typedef struct EngineModel
{
	char name[INFER_MODEL_NAME_BYTES];
	char file[128];
	Model *model;
	Tokenizer *tokenizer;
	Template *chat_template; /* NULL: none in the file */
	Arena template_arena;
	KvPages *kv;
	Scheduler *scheduler;
	int32_t n_context; /* longest sequence: trained context, or what the KV cache holds */
	size_t max_piece_bytes;
	uint64_t file_bytes;
	int64_t loaded_at_us;
	int32_t n_requests; /* that hold it; lock */
	bool draining;		/* no name leads here any more; lock */
	bool adopted;		/* the step thread has brought its scheduler up to date; step */

	/* what the step thread last saw, for views */
	_Atomic int32_t kv_free;
	_Atomic int32_t kv_cached;
	_Atomic int32_t n_running;
	_Atomic int32_t n_waiting;
	struct EngineModel *next; /* in engine->models; lock */
} EngineModel;

/* A name of the `models` setting. */
typedef struct ModelName
{
	char name[INFER_MODEL_NAME_BYTES];
	char file[128];
	char path[INFER_DIRECTORY_BYTES + 130];
	uint64_t file_stamp;  /* of the file that is or was to be loaded: a new one is loaded anew */
	EngineModel *current; /* NULL: nothing serves yet */
	bool wants_load;
	bool is_loading;
	bool failed; /* the last try; reason says why */
	char reason[INFER_ERROR_TEXT_BYTES];
	_Atomic float progress;
} ModelName;

typedef enum RequestPlace
{
	REQUEST_NEW, /* in the hands of submit */
	REQUEST_PARKED,
	REQUEST_LONG,
	REQUEST_INBOX, /* with an error already: it could not be prepared */
	REQUEST_SCHEDULED,
	REQUEST_LEAVING
} RequestPlace;

struct EngineRequest
{
	Sequence sequence; /* first: events lead back here */
	Engine *engine;
	EngineSink sink;
	Arena arena;
	InferRequest request;
	const char *payload; /* a copy */
	uint64_t session;
	int64_t parked_us;
	EngineModel *model; /* a reference, or NULL while parked */
	RequestPlace place;

	/* kinds without a step: bytes to hand over; GENERATE and CHAT: through answer */
	bool has_answer;
	Answer answer;
	char *output;
	size_t output_bytes;
	size_t output_unit; /* 1: text, cut between characters; 4: ids */
	int32_t n_output_tokens;

	uint64_t n_given_bytes;
	InferFinish finish;
	InferError error;

	EngineRequest *all_previous; /* engine->all */
	EngineRequest *all_next;
	EngineRequest *next; /* parked, inbox or leaving */
};

typedef struct RequestList
{
	EngineRequest *first;
	EngineRequest *last;
} RequestList;

struct Engine
{
	/* Config */
	int64_t (*now_us)(void);
	InferCounters *counters;
	InferHistograms *histograms;
	InferCounters own_counters;
	InferHistograms own_histograms;
	Kernels kernels;
	uint8_t secret[16]; /* of the salts of prefix reuse */

	/* lock */
	pthread_mutex_t lock;
	pthread_cond_t load_changed; /* work for the loader, or a load ended */
	InferSettings settings;
	uint32_t settings_serial;
	ModelName names[INFER_MAX_MODELS];
	int n_names;
	EngineModel *models; /* all, draining ones too */
	EngineRequest *all;
	int32_t n_requests;
	RequestList parked;
	RequestList long_texts;
	pthread_cond_t long_changed;
	pthread_t long_thread;
	bool long_runs;
	RequestList inbox;
	bool quits;
	pthread_t loader;
	bool loader_runs;

	/* the step thread */
	Pool *pool;
	uint32_t applied_serial;
	RequestList leaving;

	/* waking */
	pthread_mutex_t wake_lock;
	pthread_cond_t wake_changed;
	bool woken;
};

/* Text that may wait for a reader before its sequence is held. */
#define ENGINE_HOLD_BYTES 16384

/*
 * A text above this is rendered and tokenized on a thread of its own: in the worst case, one word
 * of one letter, a byte takes 1.2 microseconds, and neither intake nor a step waits for longer than
 * 80 ms. 64 kB are more than 8192 tokens of ordinary text.
 */
#define ENGINE_LONG_BYTES 65536

/*
 * Most memory of one request: text of 300 MB fits with its ids, and a single word of 25 MB with the
 * eighty bytes that each of its bytes takes to merge.
 */
#define ENGINE_REQUEST_BYTES ((size_t) 2 << 30)

/* ---- lists ---- */

extern void request_list_add(RequestList *list, EngineRequest *request);
extern EngineRequest *request_list_take(RequestList *list);

/* ---- engine_models.c; the lock is held ---- */

extern ModelName *model_name_find(Engine *engine, const char *name); /* "": the default */
extern void model_names_set(Engine *engine, const InferSettings *settings);
extern SchedulerLimits engine_limits(const InferSettings *settings);
extern int32_t engine_thread_count(const InferSettings *settings);

/* ---- engine_load.c ---- */

extern bool loader_start(Engine *engine, InferError *err);
extern void loader_stop(Engine *engine);
extern void engine_model_free(EngineModel *model);

/* ---- engine_submit.c ---- */

/* Finds its model and takes a reference, or says why not; *parked: it loads, come again. */
extern bool request_find_model(EngineRequest *request, bool *parked, InferError *err);

/* Parked requests whose model is there now, or that may not wait longer. Step thread. */
extern void parked_sweep(Engine *engine);

/* Unlinks and frees, after finish was called or instead of it. */
extern void request_free(EngineRequest *request);

/* Prepared, or with the reason why not in its error: the next step takes it. */
extern void inbox_add(EngineRequest *request);

/* ---- engine_long.c ---- */

extern bool long_start(Engine *engine, InferError *err);

/* Ends its thread; what was in its hands keeps its place. */
extern void long_stop(Engine *engine);

extern bool request_is_long(const EngineRequest *request);

/* Prepares it in the background and puts it into the inbox. */
extern void long_add(EngineRequest *request);

/* ---- engine_prompt.c ---- */

/* With a model: output of a kind without a step, or the sequence's tokens. */
extern bool request_prepare(EngineRequest *request, InferError *err);

/* ---- engine_answer.c ---- */

extern SchedulerEvents answer_events(Engine *engine);

/* Hands over what is ready; false: the sink has no room. */
extern bool request_offer(EngineRequest *request);

/* Tells the sink the end, and frees. */
extern void request_end(EngineRequest *request);

/* request_end once everything is handed over, else the request waits in `leaving`. */
extern void request_leave(EngineRequest *request);

/* Offers again what the readers made room for. Step thread. */
extern void leaving_sweep(Engine *engine);

#endif
