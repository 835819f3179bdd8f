/*
 * cmd_generate.c: many prompts, all in flight together, answers in the order of the input. Works on
 * the scheduler itself, with the limits that the server has by default: what it measures is the
 * engine without the server.
 */
#include "engine/cli/cli.h"

#include "engine/base/machine.h"
#include "engine/engine.h"
#include "engine/sample/answer.h"
#include "engine/sched/scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Generation
{
	Sequence sequence; /* first: events lead back here */
	InferRequest request;
	Arena arena;
	char *text; /* collected */
	size_t n_text;
	size_t capacity;
	Answer answer;
	bool done;
	InferError error;
	InferFinish finish;
	struct Generation *next;
} Generation;

typedef struct GenerateRun
{
	CliModel model;
	KvPages *kv;
	Scheduler *scheduler;
	InferCounters counters;
	InferHistograms histograms;
	int32_t n_context;
	size_t max_piece_bytes;
	Generation *first;
	Generation *last;
} GenerateRun;

/* ---- events ---- */

static Generation *
generation_of(Sequence *sequence)
{
	return (Generation *) sequence;
}

/* The answer's text so far moves to where it is collected. */
static bool
text_collect(Generation *generation)
{
	size_t n = answer_ready(&generation->answer);

	if (n > generation->capacity - generation->n_text)
	{
		size_t capacity = 2 * (generation->capacity + n);
		char *text = realloc(generation->text, capacity);

		if (text == NULL)
			return false;
		generation->text = text;
		generation->capacity = capacity;
	}
	if (n > 0)
		memcpy(generation->text + generation->n_text, generation->answer.text, n);
	generation->n_text += n;
	answer_take(&generation->answer, n);
	return true;
}

static SequenceVerdict
on_token(void *context, Sequence *sequence)
{
	GenerateRun *run = context;
	Generation *generation = generation_of(sequence);
	int32_t id = sequence->token_ids[sequence->n_tokens - 1];
	size_t n_piece;
	const char *piece = tokenizer_piece(run->model.tokenizer, id, false, &n_piece);

	if (tokenizer_is_end(run->model.tokenizer, id) ||
		answer_push(&generation->answer, piece, n_piece))
	{
		generation->finish = INFER_FINISH_STOP;
		return SEQUENCE_END;
	}
	return text_collect(generation) ? SEQUENCE_GO_ON : SEQUENCE_END;
}

static SequenceVerdict
on_resume(void *context, Sequence *sequence)
{
	(void) context;
	(void) sequence;
	return SEQUENCE_GO_ON;
}

static void
on_change(void *context, Sequence *sequence)
{
	(void) context;
	(void) sequence;
}

static void
on_finished(void *context, Sequence *sequence, const InferError *err)
{
	Generation *generation = generation_of(sequence);

	(void) context;
	generation->error = *err;
	if (generation->finish == INFER_FINISH_NONE)
		generation->finish = INFER_FINISH_LENGTH;
	answer_end(&generation->answer);
	text_collect(generation);
	generation->done = true;
}

/* ---- reading a line ---- */

static bool
number_get(const json_t *line, const char *key, InferRequest *request, InferError *err)
{
	const json_t *value = json_object_get(line, key);

	if (value == NULL)
		return true;
	if (!json_is_number(value))
		return fail(err, INFER_BAD_OPTION, "\"%s\" is not a number", key);
	return infer_option_set_number(request, infer_option_find(key), json_number_value(value), err);
}

static bool
keys_read(const json_t *line, InferRequest *request, InferError *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *) (uintptr_t) line, key, value)
	{
		const InferOptionInfo *option = infer_option_find(key);

		if (strcmp(key, "ids") == 0)
			continue;
		if (strcmp(key, "schema") == 0 && !json_is_null(value))
			return fail(err, INFER_BAD_OPTION, "\"schema\" is not supported yet");
		if (strcmp(key, "seed") == 0)
		{
			if (!json_is_integer(value))
				return fail(err, INFER_BAD_OPTION, "\"seed\" is not an integer");
			request->seed = (uint64_t) json_integer_value(value);
			request->flags |= INFER_FLAG_HAS_SEED;
			continue;
		}
		if (option == NULL ||
			(option->type != INFER_OPTION_INT && option->type != INFER_OPTION_DOUBLE))
			return fail(err, INFER_BAD_OPTION, "key \"%s\" is not known", key);
		if (!number_get(line, key, request, err))
			return false;
	}
	return true;
}

static bool
sequence_fill(GenerateRun *run, Generation *generation, const TokenList *tokens, InferError *err)
{
	Sequence *sequence = &generation->sequence;
	int64_t max_tokens = (int64_t) tokens->n_ids + generation->request.max_tokens;

	if (tokens->n_ids == 0 || tokens->n_ids >= (size_t) run->n_context)
		return fail(err, INFER_PROMPT_TOO_LONG,
					"prompt has %zu tokens\nIt may have 1 to %" PRId32 ".", tokens->n_ids,
					run->n_context - 1);
	if (max_tokens > run->n_context)
		max_tokens = run->n_context;
	sequence->submitted_us = machine_clock_us();
	sequence->n_prompt = (int32_t) tokens->n_ids;
	sequence->max_tokens = (int32_t) max_tokens;
	sequence->token_ids =
		arena_alloc_array(&generation->arena, (size_t) max_tokens, sizeof(int32_t));
	sequence->block_table = arena_alloc_array(
		&generation->arena, (size_t) pages_of_tokens((int32_t) max_tokens), sizeof(int32_t));
	if (sequence->token_ids == NULL || sequence->block_table == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory");
	memcpy(sequence->token_ids, tokens->ids, tokens->n_ids * sizeof(int32_t));
	sampler_params_init(&sequence->sampler, &generation->request);
	if (generation->request.temperature > 0 &&
		(generation->request.flags & INFER_FLAG_HAS_SEED) == 0)
		sequence->sampler.seed = (uint64_t) machine_clock_us();
	return answer_init(&generation->answer, &generation->arena, "", 0, 0, run->max_piece_bytes, 64,
					   err);
}

static bool
line_read(GenerateRun *run, const json_t *line, Generation *generation, InferError *err)
{
	TokenList tokens;

	infer_request_init(&generation->request, INFER_KIND_GENERATE);
	if (!json_is_object(line))
		return fail(err, INFER_BAD_INPUT, "a JSON object with \"ids\" was expected");
	return keys_read(line, &generation->request, err) &&
		   ids_of_json(json_object_get(line, "ids"), run->model.model->config.n_vocab,
					   &generation->arena, &tokens, err) &&
		   sequence_fill(run, generation, &tokens, err);
}

static bool
lines_read(GenerateRun *run, InferError *err)
{
	CliLines lines = { 0 };
	json_t *line;

	while ((line = lines_next(&lines, err)) != NULL)
	{
		Generation *generation = calloc(1, sizeof(*generation));

		if (generation == NULL)
		{
			json_decref(line);
			fail(err, INFER_OUT_OF_MEMORY, "out of memory");
			break;
		}
		arena_init(&generation->arena, 0);
		if (run->last != NULL)
			run->last->next = generation;
		else
			run->first = generation;
		run->last = generation;
		/* What is wrong with one line is answered in its place. */
		generation->done = !line_read(run, line, generation, &generation->error);
		json_decref(line);
	}
	lines_close(&lines);
	return err->code == INFER_OK;
}

/* ---- all of it ---- */

static bool
run_open(GenerateRun *run, const char *path, int64_t n_threads, InferError *err)
{
	SchedulerConfig config = { .events = { run, on_token, on_resume, on_change, on_change,
										   on_finished },
							   .counters = &run->counters,
							   .histograms = &run->histograms,
							   .now_us = machine_clock_us };
	InferSettings settings;
	SchedulerLimits limits;
	const ModelConfig *shape;
	int32_t n_pages;

	engine_settings_init(&settings);
	limits = (SchedulerLimits){ settings.max_sequences, settings.batch_tokens,
								(int64_t) settings.latency_target_ms * 1000 };
	if (!cli_model_open(&run->model, path, CLI_TOKENIZER | CLI_WEIGHTS, n_threads, err))
		return false;
	shape = &run->model.model->config;
	n_pages = kv_page_count(shape, KV_F16, settings.kv_bytes, limits.max_sequences);
	if (!kv_pages_create(shape, KV_F16, n_pages, &run->kv, err))
		return false;
	run->n_context = kv_pages_context(run->kv, shape);
	run->max_piece_bytes = tokenizer_max_piece_bytes(run->model.tokenizer);
	config.model = run->model.model;
	config.kv = run->kv;
	config.kernels = &run->model.kernels;
	return scheduler_create(&config, run->model.pool, &limits, &run->scheduler, err);
}

static void
run_close(GenerateRun *run)
{
	while (run->first != NULL)
	{
		Generation *next = run->first->next;

		free(run->first->text);
		arena_reset(&run->first->arena);
		free(run->first);
		run->first = next;
	}
	scheduler_destroy(run->scheduler);
	kv_pages_destroy(run->kv);
	cli_model_close(&run->model);
}

static void
generation_print(const Generation *generation)
{
	const Sequence *sequence = &generation->sequence;
	json_t *text;

	if (generation->error.code != INFER_OK)
	{
		json_print(json_pack("{s:s}", "error", generation->error.message));
		return;
	}
	text = json_stringn(generation->n_text > 0 ? generation->text : "", generation->n_text);
	json_print(json_pack(
		"{s:o, s:o, s:s}", "ids",
		ids_to_json(sequence->token_ids + sequence->n_prompt, (size_t) sequence_n_output(sequence)),
		"text", text != NULL ? text : json_string(""), "finish_reason",
		infer_finish_name(generation->finish)));
}

static void
run_all(GenerateRun *run)
{
	for (Generation *generation = run->first; generation != NULL; generation = generation->next)
		if (!generation->done)
			scheduler_add(run->scheduler, &generation->sequence);
	for (Generation *generation = run->first; generation != NULL; generation = generation->next)
	{
		while (!generation->done)
			scheduler_step(run->scheduler);
		generation_print(generation);
	}
}

int
cmd_generate(int argc, char **argv)
{
	const char *path = NULL;
	int64_t n_threads = 0;
	const CliOption table[] = { { "-m", CLI_TEXT, &path, 0, 0, NULL },
								{ "-t", CLI_INT, &n_threads, 1, 256, NULL } };
	GenerateRun *run = calloc(1, sizeof(*run));
	InferError err;

	infer_error_clear(&err);
	if (run == NULL)
		fail(&err, INFER_OUT_OF_MEMORY, "out of memory");
	else if (options_parse(argc, argv, table, 2, &err) && run_open(run, path, n_threads, &err) &&
			 lines_read(run, &err))
		run_all(run);
	if (run != NULL)
		run_close(run);
	free(run);
	return err.code == INFER_OK ? 0 : cli_fail("generate", &err);
}
