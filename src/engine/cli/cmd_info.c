/* cmd_info.c: what a model file is, without loading its weights. */
#include "engine/cli/cli.h"

#include "engine/kv/kv_pages.h"
#include "engine/model/tensor_type.h"

#include <stdio.h>
#include <string.h>

/* {"Q4_1": 210, "F32": 61}: tensors by type. */
static json_t *
types_json(const Gguf *gguf)
{
	json_t *types = json_object();

	for (size_t i = 0; i < gguf_tensor_count(gguf); i++)
	{
		const char *name = tensor_type_name(gguf_tensor_at(gguf, i)->type);
		json_int_t n = json_integer_value(json_object_get(types, name));

		json_object_set_new(types, name, json_integer(n + 1));
	}
	return types;
}

static json_t *
tokenizer_json(const Tokenizer *tokenizer)
{
	return json_pack(
		"{s:I, s:i, s:i, s:b, s:b}", "tokens", (json_int_t) tokenizer_vocab_size(tokenizer),
		"bos_id", (int) tokenizer_bos_id(tokenizer), "eos_id", (int) tokenizer_eos_id(tokenizer),
		"add_bos", tokenizer_adds_bos(tokenizer), "add_eos", tokenizer_adds_eos(tokenizer));
}

static json_t *
shape_json(const ModelConfig *config)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "layers", (int) config->n_layers,
					 "embedding", (int) config->n_embd, "feed_forward", (int) config->n_ff, "heads",
					 (int) config->n_heads, "kv_heads", (int) config->n_kv_heads, "head_dim",
					 (int) config->head_dim, "context", (int) config->n_context, "vocabulary",
					 (int) config->n_vocab);
}

static json_t *
memory_json(const Gguf *gguf, const ModelConfig *config, size_t weight_bytes)
{
	size_t page_bytes = kv_page_bytes(config, KV_F16);

	return json_pack("{s:I, s:I, s:I}", "file_bytes", (json_int_t) gguf_file_bytes(gguf),
					 "weight_bytes", (json_int_t) weight_bytes, "kv_bytes_per_token_f16",
					 (json_int_t) (page_bytes / KV_PAGE_TOKENS));
}

static uint64_t
parameter_count(const Gguf *gguf)
{
	uint64_t n = 0;

	for (size_t i = 0; i < gguf_tensor_count(gguf); i++)
		n += gguf_tensor_at(gguf, i)->n_items;
	return n;
}

static bool
info_print(const CliModel *model, InferError *err)
{
	GgufText name = { "", 0 };
	ModelConfig config;
	size_t weight_bytes;
	size_t n_template;
	json_t *text;

	if (!gguf_get_text(model->gguf, "general.name", &name, err) ||
		!model_config_read(model->gguf, &config, err) ||
		!model_weight_bytes(model->gguf, &weight_bytes, err))
		return false;
	text = json_stringn(name.bytes, name.n_bytes);
	return json_print(json_pack(
		"{s:s, s:o, s:s, s:I, s:o, s:o, s:o, s:b, s:o}", "file", gguf_name(model->gguf), "name",
		text != NULL ? text : json_string(""), "architecture", config.arch->name, "parameters",
		(json_int_t) parameter_count(model->gguf), "shape", shape_json(&config), "types",
		types_json(model->gguf), "tokenizer", tokenizer_json(model->tokenizer), "chat_template",
		tokenizer_chat_template(model->tokenizer, &n_template) != NULL, "memory",
		memory_json(model->gguf, &config, weight_bytes)));
}

int
cmd_info(int argc, char **argv)
{
	const char *path = NULL;
	const CliOption table[] = { { "-m", CLI_TEXT, &path, 0, 0, NULL } };
	CliModel model;
	InferError err;
	bool done;

	if (!options_parse(argc, argv, table, 1, &err) ||
		!cli_model_open(&model, path, CLI_TOKENIZER, 0, &err))
		return cli_fail("info", &err);
	done = info_print(&model, &err);
	cli_model_close(&model);
	return done ? 0 : cli_fail("info", &err);
}
