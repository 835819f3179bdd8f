/*
 * cmd_bench.c: how fast prompts are read and tokens written, by the forward pass itself, with
 * synthetic token ids. One JSON object a line; tokens_per_s is the median of the repetitions.
 */
#include "engine/cli/cli.h"

#include "engine/base/machine.h"
#include "engine/forward/forward.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPS	 100
#define CHUNK_TOKENS 512
#define BATCH_DEPTH	 16 /* tokens that each sequence of a batch has before it is timed */

typedef struct BenchOptions
{
	const char *model;
	CliList prompts;
	CliList depths;
	CliList batches;
	int64_t n_decode;
	int64_t n_threads;
	int64_t n_reps;
} BenchOptions;

typedef struct Bench
{
	CliModel model;
	KvPages *kv;
	Forward *forward;
	int32_t n_sequences;
	int32_t pages_each; /* of a sequence */
	int32_t *pages;		/* [n_sequences][pages_each] */
	int32_t *token_ids; /* [max(CHUNK_TOKENS, n_sequences)] */
	int32_t *outputs;
	ForwardSequence *sequences; /* [n_sequences] */
} Bench;

static double
clock_s(void)
{
	return (double) machine_clock_ns() * 1e-9;
}

static void
ids_fill(const Bench *bench, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		bench->token_ids[i] =
			(int32_t) (((int64_t) i * 7919 + 13) % bench->model.model->config.n_vocab);
}

/* One sequence reads n tokens behind n_past; logits of the last. */
static bool
prompt_read(Bench *bench, int32_t sequence, int32_t n_past, int32_t n, InferError *err)
{
	while (n > 0)
	{
		int32_t n_chunk = n < CHUNK_TOKENS ? n : CHUNK_TOKENS;
		ForwardSequence part = { 0, n_chunk, n_past,
								 bench->pages + (int64_t) sequence * bench->pages_each };
		int32_t last = n_chunk - 1;
		ForwardBatch batch = { n_chunk, bench->token_ids, 1, &part, n == n_chunk, &last };
		const float *logits;

		ids_fill(bench, n_chunk);
		if (!forward_run(bench->forward, &batch, &logits, NULL, err))
			return false;
		n_past += n_chunk;
		n -= n_chunk;
	}
	return true;
}

/* n_sequences sequences of equal length write n_steps tokens each. */
static bool
tokens_write(Bench *bench, int32_t n_sequences, int32_t n_past, int32_t n_steps, InferError *err)
{
	ForwardBatch batch = { n_sequences,		 bench->token_ids, n_sequences,
						   bench->sequences, n_sequences,	   bench->outputs };
	const float *logits;

	ids_fill(bench, n_sequences);
	for (int32_t step = 0; step < n_steps; step++)
	{
		for (int32_t i = 0; i < n_sequences; i++)
		{
			bench->sequences[i] =
				(ForwardSequence){ i, 1, n_past + step,
								   bench->pages + (int64_t) i * bench->pages_each };
			bench->outputs[i] = i;
		}
		if (!forward_run(bench->forward, &batch, &logits, NULL, err))
			return false;
	}
	return true;
}

static int
real_compare(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static bool
result_print(const char *name, const double *rates, int64_t n_reps)
{
	double sorted[MAX_REPS];
	json_t *reps = json_array();

	memcpy(sorted, rates, (size_t) n_reps * sizeof(*rates));
	qsort(sorted, (size_t) n_reps, sizeof(*sorted), real_compare);
	for (int64_t i = 0; i < n_reps; i++)
		json_array_append_new(reps, json_real(rates[i]));
	json_print(json_pack("{s:s, s:f, s:o}", "test", name, "tokens_per_s", sorted[n_reps / 2],
						 "reps", reps));
	fflush(stdout);
	return true;
}

static bool
prompt_bench(Bench *bench, const BenchOptions *options, int32_t n_tokens, InferError *err)
{
	double rates[MAX_REPS];
	char name[32];

	if (!prompt_read(bench, 0, 0, n_tokens < 64 ? n_tokens : 64, err))
		return false;
	for (int64_t rep = 0; rep < options->n_reps; rep++)
	{
		double start = clock_s();

		if (!prompt_read(bench, 0, 0, n_tokens, err))
			return false;
		rates[rep] = n_tokens / (clock_s() - start);
	}
	snprintf(name, sizeof(name), "pp%" PRId32, n_tokens);
	return result_print(name, rates, options->n_reps);
}

static bool
decode_bench(Bench *bench, const BenchOptions *options, int32_t n_sequences, int32_t depth,
			 const char *name, InferError *err)
{
	int32_t n_steps = (int32_t) options->n_decode;
	double rates[MAX_REPS];

	for (int32_t i = 0; i < n_sequences; i++)
		if (depth > 0 && !prompt_read(bench, i, 0, depth, err))
			return false;
	if (!tokens_write(bench, n_sequences, depth, n_steps < 4 ? n_steps : 4, err))
		return false;
	for (int64_t rep = 0; rep < options->n_reps; rep++)
	{
		double start = clock_s();

		if (!tokens_write(bench, n_sequences, depth, n_steps, err))
			return false;
		rates[rep] = (double) n_sequences * n_steps / (clock_s() - start);
	}
	return result_print(name, rates, options->n_reps);
}

static int64_t
list_largest(const CliList *list, int64_t least)
{
	for (int i = 0; i < list->n_items; i++)
		if (list->items[i] > least)
			least = list->items[i];
	return least;
}

static bool
bench_open(Bench *bench, const BenchOptions *options, InferError *err)
{
	int64_t longest = list_largest(&options->prompts, list_largest(&options->depths, 0) +
														  options->n_decode + BATCH_DEPTH);
	int64_t n_sequences = list_largest(&options->batches, 1);
	int64_t n_rows = n_sequences > CHUNK_TOKENS ? n_sequences : CHUNK_TOKENS;

	if (!cli_model_open(&bench->model, options->model, CLI_WEIGHTS, options->n_threads, err))
		return false;
	if (longest > bench->model.model->config.n_context)
		return fail(err, INFER_BAD_OPTION,
					"the tests need a context of %" PRId64 " tokens\nThe model has %" PRId32 ".",
					longest, bench->model.model->config.n_context);
	bench->n_sequences = (int32_t) n_sequences;
	bench->pages_each = (int32_t) ((longest + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS);
	bench->pages = calloc((size_t) (n_sequences * bench->pages_each), sizeof(int32_t));
	bench->token_ids = calloc((size_t) n_rows, sizeof(int32_t));
	bench->outputs = calloc((size_t) n_rows, sizeof(int32_t));
	bench->sequences = calloc((size_t) n_sequences, sizeof(ForwardSequence));
	if (bench->pages == NULL || bench->token_ids == NULL || bench->outputs == NULL ||
		bench->sequences == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory");
	return kv_pages_create(&bench->model.model->config, KV_F16,
						   (int32_t) (n_sequences * bench->pages_each), &bench->kv, err) &&
		   kv_pages_alloc(bench->kv, (int32_t) (n_sequences * bench->pages_each), bench->pages) &&
		   forward_create(bench->model.model, bench->kv, bench->model.pool, &bench->model.kernels,
						  (int32_t) n_rows, (int32_t) n_sequences, &bench->forward, err);
}

static void
bench_close(Bench *bench)
{
	forward_destroy(bench->forward);
	kv_pages_destroy(bench->kv);
	free(bench->pages);
	free(bench->token_ids);
	free(bench->outputs);
	free(bench->sequences);
	cli_model_close(&bench->model);
}

static bool
bench_run(Bench *bench, const BenchOptions *options, InferError *err)
{
	char name[48];

	for (int i = 0; i < options->prompts.n_items; i++)
		if (!prompt_bench(bench, options, (int32_t) options->prompts.items[i], err))
			return false;
	for (int i = 0; i < options->depths.n_items; i++)
	{
		int32_t depth = (int32_t) options->depths.items[i];

		snprintf(name, sizeof(name), "tg%" PRId64, options->n_decode);
		if (depth > 0)
			snprintf(name, sizeof(name), "tg%" PRId64 "@%" PRId32, options->n_decode, depth);
		if (!decode_bench(bench, options, 1, depth, name, err))
			return false;
	}
	for (int i = 0; i < options->batches.n_items; i++)
	{
		int32_t n_sequences = (int32_t) options->batches.items[i];

		snprintf(name, sizeof(name), "tg%" PRId64 "xB%" PRId32, options->n_decode, n_sequences);
		if (n_sequences > 0 && !decode_bench(bench, options, n_sequences, BATCH_DEPTH, name, err))
			return false;
	}
	return true;
}

int
cmd_bench(int argc, char **argv)
{
	BenchOptions options = { .prompts = { { 512 }, 1 },
							 .depths = { { 0 }, 1 },
							 .batches = { { 1, 8, 32 }, 3 },
							 .n_decode = 64,
							 .n_reps = 3 };
	const CliOption table[] = {
		{ "-m", CLI_TEXT, &options.model, 0, 0, NULL },
		{ "--pp", CLI_LIST, &options.prompts, 1, 1 << 20, NULL },
		{ "--tg", CLI_INT, &options.n_decode, 1, 1 << 16, NULL },
		{ "--depth", CLI_LIST, &options.depths, 0, 1 << 20, NULL },
		{ "--batch", CLI_LIST, &options.batches, 1, 1024, NULL },
		{ "-t", CLI_INT, &options.n_threads, 1, 256, NULL },
		{ "-r", CLI_INT, &options.n_reps, 1, MAX_REPS, NULL },
	};
	Bench bench = { .kv = NULL };
	InferError err;
	bool done;

	infer_error_clear(&err);
	done = options_parse(argc, argv, table, sizeof(table) / sizeof(table[0]), &err) &&
		   bench_open(&bench, &options, &err) && bench_run(&bench, &options, &err);
	bench_close(&bench);
	return done ? 0 : cli_fail("bench", &err);
}
