/* cmd_tokenize.c: texts to token ids and back. */
#include "engine/cli/cli.h"

#include <string.h>

typedef struct TokenizeOptions
{
	const char *model;
	bool special;
	bool add_bos;
} TokenizeOptions;

static bool
text_tokenize(const CliModel *model, const TokenizeOptions *options, const json_t *json,
			  InferError *err)
{
	TokenizePart part = { json_string_value(json), json_string_length(json), options->special };
	int32_t bos = tokenizer_bos_id(model->tokenizer);
	int32_t eos = tokenizer_eos_id(model->tokenizer);
	TokenList list = { NULL, 0 };
	json_t *ids;
	Arena arena;
	bool done;

	if (!json_is_string(json))
		return fail(err, INFER_BAD_INPUT, "a JSON string was expected");
	arena_init(&arena, 0);
	done = tokenize_parts(model->tokenizer, &arena, &part, 1, NULL, &list, err);
	if (done)
	{
		ids = ids_to_json(list.ids, list.n_ids);
		/* "the model's own rule": only models that want them get them */
		if (options->add_bos && tokenizer_adds_bos(model->tokenizer))
			json_array_insert_new(ids, 0, json_integer(bos));
		if (options->add_bos && tokenizer_adds_eos(model->tokenizer))
			json_array_append_new(ids, json_integer(eos));
		json_print(ids);
	}
	arena_reset(&arena);
	return done;
}

static bool
ids_detokenize(const CliModel *model, const json_t *json, InferError *err)
{
	TokenList list;
	size_t n_bytes;
	char *text;
	Arena arena;
	bool done;

	arena_init(&arena, 0);
	done =
		ids_of_json(json, (int64_t) tokenizer_vocab_size(model->tokenizer), &arena, &list, err) &&
		detokenize(model->tokenizer, &arena, list.ids, list.n_ids, true, &text, &n_bytes, err);
	if (done)
		json_print(json_stringn(text, n_bytes));
	arena_reset(&arena);
	return done;
}

static int
lines_run(const char *command, const TokenizeOptions *options, bool back)
{
	CliLines lines = { 0 };
	CliModel model;
	InferError err;
	json_t *json;

	infer_error_clear(&err);
	if (!cli_model_open(&model, options->model, CLI_TOKENIZER, 0, &err))
		return cli_fail(command, &err);
	while ((json = lines_next(&lines, &err)) != NULL)
	{
		bool done =
			back ? ids_detokenize(&model, json, &err) : text_tokenize(&model, options, json, &err);

		json_decref(json);
		if (!done)
		{
			fail_prefix(&err, "line %zu: ", lines.number);
			break;
		}
	}
	lines_close(&lines);
	cli_model_close(&model);
	return err.code == INFER_OK ? 0 : cli_fail(command, &err);
}

int
cmd_tokenize(int argc, char **argv)
{
	TokenizeOptions options = { 0 };
	const CliOption table[] = {
		{ "-m", CLI_TEXT, &options.model, 0, 0, NULL },
		{ "--special", CLI_FLAG, &options.special, 0, 0, NULL },
		{ "--add-bos", CLI_FLAG, &options.add_bos, 0, 0, NULL },
	};
	InferError err;

	if (!options_parse(argc, argv, table, sizeof(table) / sizeof(table[0]), &err))
		return cli_fail("tokenize", &err);
	return lines_run("tokenize", &options, false);
}

int
cmd_detokenize(int argc, char **argv)
{
	TokenizeOptions options = { 0 };
	const CliOption table[] = { { "-m", CLI_TEXT, &options.model, 0, 0, NULL } };
	InferError err;

	if (!options_parse(argc, argv, table, 1, &err))
		return cli_fail("detokenize", &err);
	return lines_run("detokenize", &options, true);
}
