/* cmd_logits.c: logits of every position of one sequence, in a .npy file. */
#include "engine/cli/cli.h"

#include "engine/forward/forward.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_TOKENS 128

/* NumPy's format, version 1.0: a header padded to 64 bytes, then the rows. */
static bool
npy_header_write(FILE *file, size_t n_rows, int32_t n_cols)
{
	char text[118];
	int n = snprintf(text, sizeof(text),
					 "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %" PRId32 "), }",
					 n_rows, n_cols);

	memset(text + n, ' ', sizeof(text) - (size_t) n);
	text[sizeof(text) - 1] = '\n';
	return fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file) == 10 &&
		   fwrite(text, 1, sizeof(text), file) == sizeof(text);
}

static bool
chunk_write(Forward *forward, const TokenList *tokens, size_t at, size_t n, const int32_t *pages,
			int32_t n_vocab, FILE *file, InferError *err)
{
	int32_t outputs[CHUNK_TOKENS];
	ForwardSequence sequence = { 0, (int32_t) n, (int32_t) at, pages };
	ForwardBatch batch = { (int32_t) n, tokens->ids + at, 1, &sequence, (int32_t) n, outputs };
	const float *logits;

	for (size_t i = 0; i < n; i++)
		outputs[i] = (int32_t) i;
	if (!forward_run(forward, &batch, &logits, NULL, err))
		return false;
	return fwrite(logits, sizeof(float) * (size_t) n_vocab, n, file) == n ||
		   fail(err, INFER_IO, "the output file cannot be written\n%s.", strerror(errno));
}

static bool
tokens_run(const CliModel *model, const TokenList *tokens, FILE *file, Arena *arena,
		   InferError *err)
{
	const ModelConfig *config = &model->model->config;
	int32_t n_pages = (int32_t) ((tokens->n_ids + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS);
	int32_t *pages = arena_alloc_array(arena, (size_t) n_pages + 1, sizeof(*pages));
	Forward *forward = NULL;
	KvPages *kv = NULL;
	bool done = pages != NULL || fail(err, INFER_OUT_OF_MEMORY, "out of memory");

	done = done && kv_pages_create(config, KV_F32, n_pages, &kv, err) &&
		   forward_create(model->model, kv, model->pool, &model->kernels, CHUNK_TOKENS,
						  CHUNK_TOKENS, &forward, err) &&
		   kv_pages_alloc(kv, n_pages, pages);
	if (done && !npy_header_write(file, tokens->n_ids, config->n_vocab))
		done = fail(err, INFER_IO, "the output file cannot be written\n%s.", strerror(errno));
	for (size_t at = 0; done && at < tokens->n_ids; at += CHUNK_TOKENS)
	{
		size_t left = tokens->n_ids - at;

		done = chunk_write(forward, tokens, at, left < CHUNK_TOKENS ? left : CHUNK_TOKENS, pages,
						   config->n_vocab, file, err);
	}
	forward_destroy(forward);
	kv_pages_destroy(kv);
	return done;
}

static bool
logits_write(const CliModel *model, const json_t *json, const char *path, InferError *err)
{
	int32_t n_context = model->model->config.n_context;
	TokenList tokens;
	Arena arena;
	FILE *file;
	bool done;

	arena_init(&arena, 0);
	done = ids_of_json(json, model->model->config.n_vocab, &arena, &tokens, err);
	if (done && (tokens.n_ids == 0 || tokens.n_ids > (size_t) n_context))
		done = fail(err, INFER_PROMPT_TOO_LONG,
					"%zu token ids are given\nThe model takes 1 to %" PRId32 ".", tokens.n_ids,
					n_context);
	if (done)
	{
		file = fopen(path, "wb");
		done = file != NULL ||
			   fail(err, INFER_IO, "file \"%s\" cannot be written\n%s.", path, strerror(errno));
		done = done && tokens_run(model, &tokens, file, &arena, err);
		if (file != NULL && fclose(file) != 0 && done)
			done = fail(err, INFER_IO, "file \"%s\" cannot be written\n%s.", path, strerror(errno));
	}
	arena_reset(&arena);
	return done;
}

int
cmd_logits(int argc, char **argv)
{
	const char *path = NULL;
	const char *out = NULL;
	int64_t n_threads = 0;
	const CliOption table[] = {
		{ "-m", CLI_TEXT, &path, 0, 0, NULL },
		{ "-o", CLI_TEXT, &out, 0, 0, NULL },
		{ "-t", CLI_INT, &n_threads, 1, 256, NULL },
	};
	CliLines lines = { 0 };
	CliModel model;
	InferError err;
	json_t *json;
	json_t *more;

	infer_error_clear(&err);
	if (!options_parse(argc, argv, table, 3, &err))
		return cli_fail("logits", &err);
	if (out == NULL)
	{
		fail(&err, INFER_BAD_OPTION, "no output file is given\n\nName one with -o OUT.npy.");
		return cli_fail("logits", &err);
	}
	if (!cli_model_open(&model, path, CLI_WEIGHTS, n_threads, &err))
		return cli_fail("logits", &err);
	json = lines_next(&lines, &err);
	more = json != NULL ? lines_next(&lines, &err) : NULL;
	if (more != NULL)
		fail(&err, INFER_BAD_INPUT,
			 "the input has more than one line\nOne array of token ids was expected.");
	else if (json != NULL && err.code == INFER_OK)
		logits_write(&model, json, out, &err);
	else if (err.code == INFER_OK)
		fail(&err, INFER_BAD_INPUT, "the input is empty\nA JSON array of token ids was expected.");
	json_decref(json);
	json_decref(more);
	lines_close(&lines);
	cli_model_close(&model);
	return err.code == INFER_OK ? 0 : cli_fail("logits", &err);
}
