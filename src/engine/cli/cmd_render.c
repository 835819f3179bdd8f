/* cmd_render.c: chats through a chat template: a model's own, or one in a file. */
#include "engine/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEMPLATE_BYTES ((size_t) 16 << 20)
#define TEMPLATE_MEMORY	   ((size_t) 256 << 20)

static bool
template_read(const char *path, Arena *arena, Template **out, InferError *err)
{
	FILE *file = fopen(path, "rb");
	char *source = file != NULL ? malloc(MAX_TEMPLATE_BYTES) : NULL;
	size_t n_bytes;
	bool done;

	if (file == NULL)
		return fail(err, INFER_IO, "template file \"%s\" cannot be opened\n%s.", path,
					strerror(errno));
	if (source == NULL)
	{
		fclose(file);
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory");
	}
	n_bytes = fread(source, 1, MAX_TEMPLATE_BYTES, file);
	if (ferror(file)) /* a folder opens, and cannot be read */
		done =
			fail(err, INFER_IO, "template file \"%s\" cannot be read\n%s.", path, strerror(errno));
	else if (n_bytes == MAX_TEMPLATE_BYTES)
		done = fail(err, INFER_LIMIT, "template file \"%s\" is too large", path);
	else
		done = template_parse(arena, source, n_bytes, out, err);
	fclose(file);
	free(source);
	return done;
}

/* Names that the input does not give come from the model, or are those of most models. */
static void
token_default(json_t *context, const char *key, const CliModel *model, int32_t id,
			  const char *fallback)
{
	json_t *text = NULL;
	size_t n_bytes;

	if (json_object_get(context, key) != NULL)
		return;
	if (model->tokenizer != NULL)
	{
		const char *bytes = tokenizer_token_text(model->tokenizer, id, &n_bytes);

		text = json_stringn(bytes, n_bytes);
	}
	json_object_set_new(context, key, text != NULL ? text : json_string(fallback));
}

static void
chat_render(const CliModel *model, json_t *context)
{
	static const char *const trusted[] = { "bos_token", "eos_token", NULL };
	const Tokenizer *tokenizer = model->tokenizer;
	TemplateOutput out;
	InferError err;
	Arena arena;

	arena_init(&arena, TEMPLATE_MEMORY);
	token_default(context, "bos_token", model, tokenizer != NULL ? tokenizer_bos_id(tokenizer) : -1,
				  "<s>");
	token_default(context, "eos_token", model, tokenizer != NULL ? tokenizer_eos_id(tokenizer) : -1,
				  "</s>");
	if (template_render(model->chat_template, &arena, context, trusted, &template_default_budget,
						&out, &err))
	{
		json_t *text = json_stringn(out.text, out.n_bytes);

		json_print(text != NULL ? text : json_pack("{s:s}", "error", "output is not valid UTF-8"));
	}
	else
		json_print(json_pack("{s:s}", "error", err.message));
	arena_reset(&arena);
}

static bool
template_open(CliModel *model, const char *path, const char *file, InferError *err)
{
	if (file != NULL && path != NULL)
		return fail(err, INFER_BAD_OPTION, "-m and --template are both given\n\nGive one of them.");
	if (file != NULL)
	{
		memset(model, 0, sizeof(*model));
		arena_init(&model->template_arena, TEMPLATE_MEMORY);
		return template_read(file, &model->template_arena, &model->chat_template, err);
	}
	if (!cli_model_open(model, path, CLI_TOKENIZER | CLI_TEMPLATE, 0, err))
		return false;
	if (model->chat_template != NULL)
		return true;
	cli_model_close(model);
	return fail(err, INFER_BAD_INPUT,
				"the model has no chat template\n\n"
				"Give one with --template FILE.");
}

int
cmd_render(int argc, char **argv)
{
	const char *path = NULL;
	const char *file = NULL;
	const CliOption table[] = { { "-m", CLI_TEXT, &path, 0, 0, NULL },
								{ "--template", CLI_TEXT, &file, 0, 0, NULL } };
	CliLines lines = { 0 };
	CliModel model;
	InferError err;
	json_t *context;

	infer_error_clear(&err);
	if (!options_parse(argc, argv, table, 2, &err) || !template_open(&model, path, file, &err))
		return cli_fail("render", &err);
	/* What is wrong with one line is answered on one line, so that the others have theirs. */
	for (;;)
	{
		infer_error_clear(&err);
		context = lines_next(&lines, &err);
		if (context == NULL && err.code == INFER_OK)
			break;
		if (json_is_object(context))
			chat_render(&model, context);
		else
			json_print(json_pack("{s:s}", "error",
								 context == NULL ? err.message : "a JSON object was expected"));
		json_decref(context);
	}
	lines_close(&lines);
	cli_model_close(&model);
	return 0;
}
