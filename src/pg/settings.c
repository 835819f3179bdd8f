#include "pg/settings.h"

#include <limits.h>
#include <stddef.h>

int setting_request_slots;
int setting_slot_size_kb;

char *setting_model_directory;
char *setting_models;
int setting_device;
int setting_threads;
int setting_kv_memory_mb;
int setting_kv_type;
int setting_batch_tokens;
int setting_max_sequences;
int setting_latency_target_ms;
int setting_max_queue;
int setting_max_role_queue;
int setting_load_timeout_ms;
int setting_max_session_requests;

char *setting_model;
double setting_temperature;
int setting_max_tokens;
double setting_top_p;
int setting_top_k;
double setting_min_p;
double setting_repeat_penalty;
int setting_repeat_last_n;
double setting_frequency_penalty;
double setting_presence_penalty;
int setting_on_error;
int setting_prefetch;
bool setting_batch;
int setting_timeout_ms;
int setting_priority;
int setting_retries;

const SettingChoice on_error_choices[] = {
	{ "error", ON_ERROR_RAISE },
	{ "null", ON_ERROR_NULL },
	{ NULL, 0 },
};

const SettingChoice device_choices[] = { { "auto", 0 }, { "cpu", 1 }, { "cuda", 2 }, { NULL, 0 } };

const SettingChoice kv_type_choices[] = { { "f16", 0 }, { "f32", 1 }, { NULL, 0 } };

/* clang-format off */
#define NUMBER(name, type, context, unit, variable, min, max, fallback, about, more) \
	{ "infer." name, type, context, unit, &variable, min, max, fallback, NULL, NULL, false, about, more }
#define CHOICE(name, context, variable, choices, about, more) \
	{ "infer." name, SETTING_CHOICE, context, UNIT_NONE, &variable, 0, 0, 0, NULL, choices, false, about, more }
#define STRING(name, context, variable, fallback, hidden, about, more) \
	{ "infer." name, SETTING_STRING, context, UNIT_NONE, &variable, 0, 0, 0, fallback, NULL, hidden, about, more }

const SettingInfo infer_settings[] = {
	/* server start: these two size the shared region */
	NUMBER("request_slots", SETTING_INT, SETTING_POSTMASTER, UNIT_NONE, setting_request_slots, 8, 65536, 1024,
		   "Requests that all sessions together may have in flight.",
		   "Each takes infer.slot_size of shared memory."),
	NUMBER("slot_size", SETTING_INT, SETTING_POSTMASTER, UNIT_KB, setting_slot_size_kb, 16, 65536, 32,
		   "Shared memory of one request slot; a power of two.",
		   "A quarter of it is the buffer for the answer. Longer prompts and answers work too, a little slower."),

	/* reload: what the engine is told */
	STRING("model_directory", SETTING_SIGHUP, setting_model_directory, "infer_models", true,
		   "Directory that holds the model files.",
		   "Relative paths start at the data directory. Models are named by their base name; nothing outside is opened."),
	STRING("models", SETTING_SIGHUP, setting_models, "", false,
		   "Models to serve: a list of name=file, separated by commas; the first is the default.",
		   "After a change and reload new models load beside the old ones, which finish what they run."),
	CHOICE("device", SETTING_SIGHUP, setting_device, device_choices,
		   "Where models run: auto takes a GPU where there is one.", NULL),
	NUMBER("threads", SETTING_INT, SETTING_SIGHUP, UNIT_NONE, setting_threads, 0, 1024, 0,
		   "Threads of the engine; 0 takes one per physical core.", NULL),
	NUMBER("kv_memory", SETTING_INT, SETTING_SIGHUP, UNIT_MB, setting_kv_memory_mb, 1, 64 * 1024 * 1024, 512,
		   "Memory of each model for the keys and values of running sequences.",
		   "It bounds how many tokens all running requests together may have."),
	CHOICE("kv_type", SETTING_SIGHUP, setting_kv_type, kv_type_choices,
		   "Number format of stored keys and values.", "f32 takes twice the memory of f16."),
	NUMBER("batch_tokens", SETTING_INT, SETTING_SIGHUP, UNIT_NONE, setting_batch_tokens, 1, 65536, 512,
		   "Most tokens that one step of the engine computes.", NULL),
	NUMBER("max_sequences", SETTING_INT, SETTING_SIGHUP, UNIT_NONE, setting_max_sequences, 1, 4096, 32,
		   "Most requests that a model runs at once; others wait.", NULL),
	NUMBER("latency_target", SETTING_INT, SETTING_SIGHUP, UNIT_MS, setting_latency_target_ms, 1, 60000, 100,
		   "Longest step while anyone is receiving an answer.",
		   "Prompts are computed in pieces that keep a step below this."),
	NUMBER("max_queue", SETTING_INT, SETTING_SIGHUP, UNIT_NONE, setting_max_queue, 0, INT_MAX, 0,
		   "Most requests that may wait; further ones fail with 53300. 0 sets no bound.", NULL),
	NUMBER("max_role_queue", SETTING_INT, SETTING_SIGHUP, UNIT_NONE, setting_max_role_queue, 0, INT_MAX, 0,
		   "Most requests of one role that may wait; 0 sets no bound.", NULL),
	NUMBER("load_timeout", SETTING_INT, SETTING_SIGHUP, UNIT_MS, setting_load_timeout_ms, 1, INT_MAX, 60000,
		   "How long a request waits for the engine to start or its model to load.", NULL),
	NUMBER("max_session_requests", SETTING_INT, SETTING_SIGHUP, UNIT_NONE, setting_max_session_requests, 0, 65536, 0,
		   "Most requests that one session may have in flight; 0 means a quarter of infer.request_slots.", NULL),

	/* any session */
	STRING("model", SETTING_USER, setting_model, "", false,
		   "Name of the model to use where a call names none; empty means the first of infer.models.", NULL),
	NUMBER("temperature", SETTING_REAL, SETTING_USER, UNIT_NONE, setting_temperature, 0, 10, 0,
		   "Randomness of answers; 0 gives the same answer each time.", NULL),
	NUMBER("max_tokens", SETTING_INT, SETTING_USER, UNIT_NONE, setting_max_tokens, 1, 1 << 20, 256,
		   "Most tokens that an answer may have.", NULL),
	NUMBER("top_p", SETTING_REAL, SETTING_USER, UNIT_NONE, setting_top_p, 1e-9, 1, 1,
		   "Keeps the likeliest tokens that together have this probability; 1 keeps all.", NULL),
	NUMBER("top_k", SETTING_INT, SETTING_USER, UNIT_NONE, setting_top_k, 0, 1 << 20, 0,
		   "Keeps this many of the likeliest tokens; 0 keeps all.", NULL),
	NUMBER("min_p", SETTING_REAL, SETTING_USER, UNIT_NONE, setting_min_p, 0, 1, 0,
		   "Drops tokens less likely than this share of the likeliest; 0 drops none.", NULL),
	NUMBER("repeat_penalty", SETTING_REAL, SETTING_USER, UNIT_NONE, setting_repeat_penalty, 1e-9, 10, 1,
		   "Divides the score of tokens that occurred before; 1 leaves it.", NULL),
	NUMBER("repeat_last_n", SETTING_INT, SETTING_USER, UNIT_NONE, setting_repeat_last_n, 0, 1 << 20, 64,
		   "How many tokens back the penalties look; 0 looks at all.", NULL),
	NUMBER("frequency_penalty", SETTING_REAL, SETTING_USER, UNIT_NONE, setting_frequency_penalty, -2, 2, 0,
		   "Taken from a token's score for each time it occurred.", NULL),
	NUMBER("presence_penalty", SETTING_REAL, SETTING_USER, UNIT_NONE, setting_presence_penalty, -2, 2, 0,
		   "Taken from a token's score once if it occurred.", NULL),
	CHOICE("on_error", SETTING_USER, setting_on_error, on_error_choices,
		   "What a call does that fails softly: error raises, null answers NULL.",
		   "With null each statement gives one WARNING with the number of failures by SQLSTATE."),
	NUMBER("prefetch", SETTING_INT, SETTING_USER, UNIT_NONE, setting_prefetch, 0, 65536, 0,
		   "Requests that one query keeps in flight; 0 means twice the engine's infer.max_sequences.", NULL),
	NUMBER("batch", SETTING_BOOL, SETTING_USER, UNIT_NONE, setting_batch, 0, 0, true,
		   "Lets queries have many rows in flight at once.", NULL),
	NUMBER("timeout", SETTING_INT, SETTING_USER, UNIT_MS, setting_timeout_ms, 0, INT_MAX, 0,
		   "Longest time for one request, waiting included; 0 sets none.", NULL),
	NUMBER("priority", SETTING_INT, SETTING_USER, UNIT_NONE, setting_priority, -10, 0, 0,
		   "Place of requests in the queue; below 0 they wait behind normal ones.", NULL),
	NUMBER("retries", SETTING_INT, SETTING_USER, UNIT_NONE, setting_retries, 0, 1, 1,
		   "Whether a request is sent again when the engine died under it; 0 raises 58000 at once.",
		   "An answer of which a part was already delivered is never started again."),
};
/* clang-format on */

const int infer_n_settings = (int) (sizeof(infer_settings) / sizeof(infer_settings[0]));

const char *
setting_choice_name(const SettingChoice *choices, int value)
{
	for (; choices->name != NULL; choices++)
		if (choices->value == value)
			return choices->name;
	return "";
}
