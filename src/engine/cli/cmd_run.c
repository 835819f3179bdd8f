/* cmd_run.c: one prompt, its answer on stdout as it comes; and what embed says until it is there.
 */
#include "engine/cli/cli.h"

#include "engine/engine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct RunOptions
{
	const char *model;
	const char *prompt;
	const char *system;
	bool raw;
	int64_t max_tokens;
	double temperature;
	double top_p;
	int64_t top_k;
	int64_t seed;
	bool has_seed;
	int64_t n_threads;
} RunOptions;

typedef struct RunAnswer
{
	bool finished;
	InferResult result;
} RunAnswer;

static bool
piece_print(void *context, const char *bytes, uint32_t n_bytes, uint32_t output_tokens)
{
	(void) context;
	(void) output_tokens;
	fwrite(bytes, 1, n_bytes, stdout);
	fflush(stdout);
	return true;
}

static void
answer_finish(void *context, const InferResult *result)
{
	RunAnswer *answer = context;

	answer->result = *result;
	answer->finished = true;
}

static void
request_fill(const RunOptions *options, InferRequest *request)
{
	infer_request_init(request, INFER_KIND_GENERATE);
	request->flags = INFER_FLAG_STREAM;
	if (options->raw)
		request->flags |= INFER_FLAG_RAW;
	if (options->has_seed)
		request->flags |= INFER_FLAG_HAS_SEED;
	request->seed = (uint64_t) options->seed;
	request->max_tokens = (int32_t) options->max_tokens;
	request->temperature = options->temperature;
	request->top_p = options->top_p;
	request->top_k = (int32_t) options->top_k;
	request->system_bytes = options->system != NULL ? strlen(options->system) : 0;
	request->subject_bytes = strlen(options->prompt);
}

static bool
prompt_run(Engine *engine, const RunOptions *options, InferError *err)
{
	RunAnswer answer = { .finished = false };
	EngineSink sink = { .context = &answer, .piece = piece_print, .finish = answer_finish };
	EngineRequest *handle;
	InferRequest request;
	Arena arena;
	char *payload;
	bool done;

	request_fill(options, &request);
	arena_init(&arena, 0);
	payload = arena_alloc(&arena, (size_t) infer_request_payload_bytes(&request) + 1);
	if (payload == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory");
	if (request.system_bytes > 0)
		memcpy(payload, options->system, (size_t) request.system_bytes);
	memcpy(payload + request.system_bytes, options->prompt, (size_t) request.subject_bytes);
	done = engine_submit(engine, 1, &request, payload, infer_request_payload_bytes(&request), &sink,
						 &handle, err);
	while (done && !answer.finished)
		engine_step(engine);
	arena_reset(&arena);
	if (done && answer.result.error.code != INFER_OK)
	{
		*err = answer.result.error;
		return false;
	}
	if (done)
		putchar('\n');
	return done;
}

int
cmd_run(int argc, char **argv)
{
	RunOptions options = { .max_tokens = 256, .top_p = 1 };
	const CliOption table[] = {
		{ "-m", CLI_TEXT, &options.model, 0, 0, NULL },
		{ "-p", CLI_TEXT, &options.prompt, 0, 0, NULL },
		{ "-s", CLI_TEXT, &options.system, 0, 0, NULL },
		{ "--raw", CLI_FLAG, &options.raw, 0, 0, NULL },
		{ "-n", CLI_INT, &options.max_tokens, 1, 1 << 20, NULL },
		{ "--temperature", CLI_REAL, &options.temperature, 0, 10, NULL },
		{ "--top-p", CLI_REAL, &options.top_p, 1e-6, 1, NULL },
		{ "--top-k", CLI_INT, &options.top_k, 0, 1 << 20, NULL },
		{ "--seed", CLI_INT, &options.seed, INT64_MIN, INT64_MAX, &options.has_seed },
		{ "-t", CLI_INT, &options.n_threads, 1, 256, NULL },
	};
	EngineConfig config = { .counters = NULL };
	Engine *engine = NULL;
	InferError err;
	bool done;

	infer_error_clear(&err);
	done = options_parse(argc, argv, table, sizeof(table) / sizeof(table[0]), &err);
	if (done && options.prompt == NULL)
		done = fail(&err, INFER_BAD_OPTION, "no prompt is given\n\nGive one with -p TEXT.");
	if (done && options.model == NULL)
		done = fail(&err, INFER_BAD_OPTION, "no model is given\n\nName a GGUF file with -m FILE.");
	engine_settings_init(&config.settings);
	config.settings.n_threads = (int32_t) options.n_threads;
	config.settings.max_sequences = 1;
	done = done && engine_create(&config, &engine, &err) &&
		   engine_model_load_file(engine, "model", options.model, &err) &&
		   prompt_run(engine, &options, &err);
	engine_destroy(engine);
	return done ? 0 : cli_fail("run", &err);
}

int
cmd_embed(int argc, char **argv)
{
	InferError err;

	(void) argc;
	(void) argv;
	fail(&err, INFER_BAD_MODEL, "embedding models are not supported yet");
	return cli_fail("embed", &err);
}
