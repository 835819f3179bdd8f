#include "engine/cli/cli.h"

#include "engine/base/machine.h"

#include <string.h>
#include <sys/stat.h>

static bool
path_check(const char *path, InferError *err)
{
	struct stat about;

	if (path == NULL)
		return fail(err, INFER_BAD_OPTION, "no model is given\n\nName a GGUF file with -m FILE.");
	if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
		return fail(err, INFER_BAD_MODEL,
					"model \"%s\" is a folder, which is not supported yet\n\n"
					"Name a GGUF file.",
					path);
	return true;
}

static bool
weights_open(CliModel *model, int64_t n_threads, InferError *err)
{
	const char *problem = NULL;

	if (!kernels_select(&model->kernels, &problem))
		return fail(err, INFER_BAD_OPTION, "INFER_CPU has a value that is not known\n%s.", problem);
	return pool_create(n_threads > 0 ? (int32_t) n_threads : machine_physical_cores(), &model->pool,
					   err) &&
		   model_load(model->gguf, model->pool, NULL, NULL, &model->model, err);
}

static bool
template_open(CliModel *model, InferError *err)
{
	size_t n_bytes;
	const char *source = tokenizer_chat_template(model->tokenizer, &n_bytes);

	return source == NULL ||
		   template_parse(&model->template_arena, source, n_bytes, &model->chat_template, err);
}

bool
cli_model_open(CliModel *model, const char *path, int parts, int64_t n_threads, InferError *err)
{
	memset(model, 0, sizeof(*model));
	arena_init(&model->template_arena, 0);
	if (path_check(path, err) && gguf_open(path, &model->gguf, err) &&
		((parts & CLI_TOKENIZER) == 0 || tokenizer_create(model->gguf, &model->tokenizer, err)) &&
		((parts & CLI_WEIGHTS) == 0 || weights_open(model, n_threads, err)) &&
		((parts & CLI_TEMPLATE) == 0 || template_open(model, err)))
		return true;
	cli_model_close(model);
	return false;
}

void
cli_model_close(CliModel *model)
{
	arena_reset(&model->template_arena);
	model_free(model->model);
	pool_destroy(model->pool);
	tokenizer_destroy(model->tokenizer);
	gguf_close(model->gguf);
	memset(model, 0, sizeof(*model));
}
