/*
 * gguf: a hostile model file, from its first byte to weights that are ready to run.
 *
 * What opens is read completely through every getter, its shape is read, and where the shape is
 * small its weights are loaded. Each refusal has a code, a message and never the path.
 */
#include "test/unit/gguf_builder.h"

#include "engine/model/model.h"

#define MAX_WEIGHT_BYTES ((size_t) 64 << 20)

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void
refusal_check(const InferError *err)
{
	if (err->code != INFER_BAD_MODEL || err->message[0] == '\0' || strstr(err->message, "secret"))
		abort();
}

static void
model_check(const Gguf *gguf)
{
	ModelConfig config;
	size_t n_bytes = 0;
	Model *model = NULL;
	InferError err;

	if (!model_config_read(gguf, &config, &err) || !model_weight_bytes(gguf, &n_bytes, &err))
	{
		refusal_check(&err);
		return;
	}
	if (n_bytes > MAX_WEIGHT_BYTES)
		return;
	if (model_load(gguf, NULL, NULL, NULL, &model, &err))
		model_free(model);
	else
		refusal_check(&err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	static volatile uint64_t sink;
	Gguf *gguf = NULL;
	InferError err;

	if (!gguf_open_memory(data, n_bytes, "secret/fuzz.gguf", &gguf, &err))
	{
		refusal_check(&err);
		return 0;
	}
	sink += gguf_read_all(gguf);
	model_check(gguf);
	gguf_close(gguf);
	return 0;
}
