#include "engine/model/model.h"

#include "engine/model/fingerprint.h"
#include "engine/model/tensor_type.h"
#include "engine/model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t) 2 << 20)

_Static_assert(MODEL_FINGERPRINT_BYTES == SHA256_BYTES, "a fingerprint is a SHA-256");

/* Big matrices are read front to back in every step: 2 MB pages save most of the TLB misses. */
static char *
block_map(size_t n_bytes)
{
	void *block = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	if (n_bytes >= HUGE_PAGE_BYTES)
		madvise(block, n_bytes, MADV_HUGEPAGE);
	return block;
}

/* The type that most parameters have: what people call the file by. */
static const char *
main_type(const WeightPlan *plan)
{
	uint64_t n_items[TENSOR_TYPE_LIMIT] = { 0 };
	uint32_t best = 0;

	for (size_t i = 0; i < plan->n_items; i++)
		n_items[plan->items[i].tensor->type] += plan->items[i].tensor->n_items;
	for (uint32_t type = 1; type < TENSOR_TYPE_LIMIT; type++)
		if (n_items[type] > n_items[best])
			best = type;
	return tensor_type_name(best);
}

static bool
names_read(const Gguf *gguf, const WeightPlan *plan, Model *model, InferError *err)
{
	GgufText name = { "", 0 };
	size_t n;

	if (!gguf_get_text(gguf, "general.name", &name, err))
		return false;
	n = name.n_bytes < sizeof(model->model_name) ? name.n_bytes : sizeof(model->model_name) - 1;
	for (size_t i = 0; i < n; i++)
		model->model_name[i] = name.bytes[i] < ' ' || name.bytes[i] > '~' ? '?' : name.bytes[i];
	snprintf(model->type_name, sizeof(model->type_name), "%s", main_type(plan));
	return true;
}

bool
model_weight_bytes(const Gguf *gguf, size_t *out, InferError *err)
{
	ModelConfig config;
	WeightPlan plan;
	Arena arena;
	bool done;

	arena_init(&arena, 0);
	done = model_config_read(gguf, &config, err) && weights_plan(gguf, &config, &arena, &plan, err);
	if (done)
		*out = plan.n_bytes;
	arena_reset(&arena);
	return done;
}

static bool
model_fill(const Gguf *gguf, Pool *pool, ModelProgress progress, void *context, Arena *arena,
		   Model *model, InferError *err)
{
	WeightPlan plan;
	size_t n_file;
	const void *file = gguf_bytes(gguf, &n_file);

	if (!model_config_read(gguf, &model->config, err) ||
		!weights_plan(gguf, &model->config, arena, &plan, err) ||
		!names_read(gguf, &plan, model, err))
		return false;
	model->weights.layers = calloc((size_t) model->config.n_layers, sizeof(*model->weights.layers));
	model->weights.memory = block_map(plan.n_bytes);
	if (model->weights.layers == NULL || model->weights.memory == NULL)
		return fail(err, INFER_OUT_OF_MEMORY,
					"not enough memory for model file \"%s\"\n"
					"Its weights take %zu MiB.",
					gguf_name(gguf), plan.n_bytes >> 20);
	model->weight_bytes = plan.n_bytes;
	model->n_parameters = plan.n_parameters;
	return fingerprint_compute(file, n_file, pool, model->fingerprint, err) &&
		   weights_load(gguf, &plan, pool, progress, context, model->weights.memory,
						&model->weights, err);
}

bool
model_load(const Gguf *gguf, Pool *pool, ModelProgress progress, void *context, Model **out,
		   InferError *err)
{
	Model *model = calloc(1, sizeof(*model));
	Arena arena;
	bool done;

	if (model == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "not enough memory for model file \"%s\"",
					gguf_name(gguf));
	arena_init(&arena, 0);
	done = model_fill(gguf, pool, progress, context, &arena, model, err);
	arena_reset(&arena);
	if (done)
		*out = model;
	else
		model_free(model);
	return done;
}

void
model_free(Model *model)
{
	if (model == NULL)
		return;
	if (model->weights.memory != NULL)
		munmap(model->weights.memory, model->weight_bytes);
	free(model->weights.layers);
	free(model);
}
