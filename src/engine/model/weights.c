#include "engine/model/weights.h"

#include "engine/model/tensor_type.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WEIGHT_ALIGNMENT 64
#define PACK_CHUNK		 8 /* row groups a thread takes at once */

typedef enum WeightDim
{
	DIM_ONE,
	DIM_EMBD,
	DIM_Q,	/* n_heads * head_dim */
	DIM_KV, /* n_kv_heads * head_dim */
	DIM_FF,
	DIM_HEAD, /* head_dim */
	DIM_HALF_ROT,
	DIM_VOCAB
} WeightDim;

typedef enum WeightNeed
{
	NEED_ALWAYS,
	NEED_QKV_BIAS,
	NEED_QK_NORM,
	NEED_NEVER /* used where the file has it */
} WeightNeed;

typedef struct WeightSpec
{
	const char *name; /* after "blk.N." for those of a layer */
	bool is_matrix;
	WeightDim rows;
	WeightDim cols;
	WeightNeed need;
	size_t member;
} WeightSpec;

/* clang-format off */
static const WeightSpec model_specs[] = {
	{ WEIGHT_TOKEN_EMBD,    true,  DIM_VOCAB, DIM_EMBD,     NEED_ALWAYS, offsetof(ModelWeights, token_embd) },
	{ "output_norm.weight", false, DIM_ONE,   DIM_EMBD,     NEED_ALWAYS, offsetof(ModelWeights, output_norm) },
	{ "output.weight",      true,  DIM_VOCAB, DIM_EMBD,     NEED_NEVER,  offsetof(ModelWeights, output) },
	{ "output.bias",        false, DIM_ONE,   DIM_VOCAB,    NEED_NEVER,  offsetof(ModelWeights, output_bias) },
	{ "rope_freqs.weight",  false, DIM_ONE,   DIM_HALF_ROT, NEED_NEVER,  offsetof(ModelWeights, rope_freqs) },
};

static const WeightSpec layer_specs[] = {
	{ "attn_norm.weight",   false, DIM_ONE,  DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, attn_norm) },
	{ "attn_q.weight",      true,  DIM_Q,    DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, q) },
	{ "attn_k.weight",      true,  DIM_KV,   DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, k) },
	{ "attn_v.weight",      true,  DIM_KV,   DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, v) },
	{ "attn_q.bias",        false, DIM_ONE,  DIM_Q,    NEED_QKV_BIAS, offsetof(LayerWeights, q_bias) },
	{ "attn_k.bias",        false, DIM_ONE,  DIM_KV,   NEED_QKV_BIAS, offsetof(LayerWeights, k_bias) },
	{ "attn_v.bias",        false, DIM_ONE,  DIM_KV,   NEED_QKV_BIAS, offsetof(LayerWeights, v_bias) },
	{ "attn_q_norm.weight", false, DIM_ONE,  DIM_HEAD, NEED_QK_NORM,  offsetof(LayerWeights, q_norm) },
	{ "attn_k_norm.weight", false, DIM_ONE,  DIM_HEAD, NEED_QK_NORM,  offsetof(LayerWeights, k_norm) },
	{ "attn_output.weight", true,  DIM_EMBD, DIM_Q,    NEED_ALWAYS,   offsetof(LayerWeights, o) },
	{ "ffn_norm.weight",    false, DIM_ONE,  DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, ffn_norm) },
	{ "ffn_gate.weight",    true,  DIM_FF,   DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, gate) },
	{ "ffn_up.weight",      true,  DIM_FF,   DIM_EMBD, NEED_ALWAYS,   offsetof(LayerWeights, up) },
	{ "ffn_down.weight",    true,  DIM_EMBD, DIM_FF,   NEED_ALWAYS,   offsetof(LayerWeights, down) },
};
/* clang-format on */

#define N_MODEL_SPECS (sizeof(model_specs) / sizeof(model_specs[0]))
#define N_LAYER_SPECS (sizeof(layer_specs) / sizeof(layer_specs[0]))

static int32_t
dim_of(const ModelConfig *config, WeightDim dim)
{
	switch (dim)
	{
		case DIM_EMBD:
			return config->n_embd;
		case DIM_Q:
			return config->n_heads * config->head_dim;
		case DIM_KV:
			return config->n_kv_heads * config->head_dim;
		case DIM_FF:
			return config->n_ff;
		case DIM_HEAD:
			return config->head_dim;
		case DIM_HALF_ROT:
			return config->n_rot / 2;
		case DIM_VOCAB:
			return config->n_vocab;
		case DIM_ONE:
			break;
	}
	return 1;
}

/* Biases may stand in files of any architecture; norms of heads only where the row says so. */
static bool
spec_is_required(const ArchInfo *arch, const WeightSpec *spec)
{
	switch (spec->need)
	{
		case NEED_ALWAYS:
			return true;
		case NEED_QKV_BIAS:
			return arch->qkv_bias;
		case NEED_QK_NORM:
			return arch->qk_norm;
		case NEED_NEVER:
			break;
	}
	return false;
}

static bool
item_check(const Gguf *gguf, const WeightItem *item, InferError *err)
{
	const GgufTensor *tensor = item->tensor;
	const char *type = tensor_type_name(tensor->type);

	if (tensor->dims[0] != (uint64_t) item->n_cols || tensor->dims[1] != (uint64_t) item->n_rows ||
		tensor->dims[2] != 1 || tensor->dims[3] != 1)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged\n"
					"Tensor \"%s\" is %" PRIu64 " x %" PRIu64 ", the rest of the file calls for "
					"%" PRId32 " x %" PRId32 ".\n"
					"Download the file again, or take it from another publisher.",
					gguf_name(gguf), tensor->name, tensor->dims[1], tensor->dims[0], item->n_rows,
					item->n_cols);
	if (!packed_type_runs(tensor->type, item->n_cols))
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" uses type %s, which is not supported yet\n"
					"Tensor \"%s\" has it, with rows of %" PRId32 " items.\n"
					"Take the same model in Q4_K_M, Q4_0, Q5_K_M, Q6_K, Q8_0 or F16.",
					gguf_name(gguf), type, tensor->name, item->n_cols);
	return true;
}

/* Appends the tensor to the plan; a required one that is missing is an error. */
static bool
spec_plan(const Gguf *gguf, const ModelConfig *config, const WeightSpec *spec, int32_t layer,
		  WeightPlan *plan, InferError *err)
{
	WeightItem *item = &plan->items[plan->n_items];
	char name[64];
	size_t end;

	if (layer < 0)
		snprintf(name, sizeof(name), "%s", spec->name);
	else
		snprintf(name, sizeof(name), "blk.%" PRId32 ".%s", layer, spec->name);
	item->tensor = gguf_tensor_find(gguf, name);
	if (item->tensor == NULL)
	{
		if (!spec_is_required(config->arch, spec))
			return true;
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged or incomplete\n"
					"Tensor \"%s\" is missing, which architecture %s needs.\n"
					"Download the file again, or take it from another publisher.",
					gguf_name(gguf), name, config->arch->name);
	}
	item->is_matrix = spec->is_matrix;
	item->n_rows = dim_of(config, spec->rows);
	item->n_cols = dim_of(config, spec->cols);
	item->layer = layer;
	item->member = spec->member;
	if (!item_check(gguf, item, err))
		return false;
	item->n_bytes = spec->is_matrix ? packed_bytes(item->tensor->type, item->n_rows, item->n_cols)
									: (size_t) item->n_cols * sizeof(float);
	item->offset = plan->n_bytes;
	if (item->n_bytes == 0 || __builtin_add_overflow(item->offset, item->n_bytes, &end) ||
		end > SIZE_MAX - WEIGHT_ALIGNMENT)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is too large for this machine\n"
					"Tensor \"%s\" is %" PRId32 " x %" PRId32 ".",
					gguf_name(gguf), name, item->n_rows, item->n_cols);
	plan->n_bytes = (end + WEIGHT_ALIGNMENT - 1) / WEIGHT_ALIGNMENT * WEIGHT_ALIGNMENT;
	plan->n_parameters += item->tensor->n_items;
	plan->n_items++;
	return true;
}

/* Tensors that change no logits: tables that old writers left, heads of classifiers. */
static bool
tensor_is_idle(const char *name)
{
	return strstr(name, ".attn_rot_embd") != NULL || strncmp(name, "cls.", 4) == 0;
}

/* Leaving a weight out would give wrong answers: every tensor of the file has to be in the plan. */
static bool
tensors_are_known(const Gguf *gguf, const ModelConfig *config, const WeightPlan *plan,
				  InferError *err)
{
	size_t n_known = 0;

	for (size_t i = 0; i < gguf_tensor_count(gguf); i++)
	{
		const GgufTensor *tensor = gguf_tensor_at(gguf, i);
		bool known = false;

		if (tensor_is_idle(tensor->name))
			continue;
		for (size_t p = 0; p < plan->n_items && !known; p++)
			known = plan->items[(n_known + p) % plan->n_items].tensor == tensor;
		if (!known)
			return fail(err, INFER_BAD_MODEL,
						"model file \"%s\" is a variant of %s that is not supported yet\n"
						"It has a tensor \"%s\", which %" PRId32 " layers of %s do not use.",
						gguf_name(gguf), config->arch->name, tensor->name, config->n_layers,
						config->arch->name);
		n_known++;
	}
	return true;
}

bool
weights_plan(const Gguf *gguf, const ModelConfig *config, Arena *arena, WeightPlan *out,
			 InferError *err)
{
	size_t n_max = N_MODEL_SPECS + (size_t) config->n_layers * N_LAYER_SPECS;

	memset(out, 0, sizeof(*out));
	/* One more: spec_plan looks at the next item before it knows whether the file has it. */
	out->items = arena_alloc_array(arena, n_max + 1, sizeof(*out->items));
	if (out->items == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading model file \"%s\"",
					gguf_name(gguf));
	for (size_t i = 0; i < N_MODEL_SPECS; i++)
		if (!spec_plan(gguf, config, &model_specs[i], -1, out, err))
			return false;
	out->is_tied = gguf_tensor_find(gguf, "output.weight") == NULL;
	for (int32_t layer = 0; layer < config->n_layers; layer++)
		for (size_t i = 0; i < N_LAYER_SPECS; i++)
			if (!spec_plan(gguf, config, &layer_specs[i], layer, out, err))
				return false;
	return tensors_are_known(gguf, config, out, err);
}

/* ---- filling the block ---- */

typedef struct PackJob
{
	const WeightItem *item;
	char *to;
} PackJob;

static void
pack_groups(void *context, int32_t thread, int32_t first, int32_t n)
{
	PackJob *job = context;

	(void) thread;
	matrix_pack(job->item->tensor->type, job->item->tensor->data, job->item->n_rows,
				job->item->n_cols, first, n, job->to);
}

static bool
vector_load(const Gguf *gguf, const WeightItem *item, float *to, InferError *err)
{
	dequantize_row(item->tensor->type, item->tensor->data, item->n_cols, to);
	for (int32_t i = 0; i < item->n_cols; i++)
		if (!isfinite(to[i]))
			return fail(err, INFER_BAD_MODEL,
						"model file \"%s\" is damaged\n"
						"Item %" PRId32 " of tensor \"%s\" is not a finite number.\n"
						"Download the file again, or take it from another publisher.",
						gguf_name(gguf), i, item->tensor->name);
	return true;
}

static void
matrix_load(const WeightItem *item, Pool *pool, char *to, PackedMatrix *matrix)
{
	PackJob job = { item, to };
	int32_t n_groups = (item->n_rows + KERNEL_ROW_GROUP - 1) / KERNEL_ROW_GROUP;

	if (pool != NULL)
		pool_run(pool, pack_groups, &job, n_groups, PACK_CHUNK);
	else
		pack_groups(&job, 0, 0, n_groups);
	matrix->type = item->tensor->type;
	matrix->n_rows = item->n_rows;
	matrix->n_cols = item->n_cols;
	matrix->data = to;
	matrix->n_bytes = item->n_bytes;
}

bool
weights_load(const Gguf *gguf, const WeightPlan *plan, Pool *pool, ModelProgress progress,
			 void *context, char *block, ModelWeights *weights, InferError *err)
{
	for (size_t i = 0; i < plan->n_items; i++)
	{
		const WeightItem *item = &plan->items[i];
		char *owner = item->layer < 0 ? (char *) weights : (char *) &weights->layers[item->layer];
		char *to = block + item->offset;

		if (item->is_matrix)
			matrix_load(item, pool, to, (PackedMatrix *) (void *) (owner + item->member));
		else if (vector_load(gguf, item, (float *) (void *) to, err))
			*(const float **) (void *) (owner + item->member) = (const float *) (void *) to;
		else
			return false;
		if (progress != NULL &&
			!progress(context, (float) (item->offset + item->n_bytes) / (float) plan->n_bytes))
			return fail(err, INFER_CANCELLED, "loading of model file \"%s\" was cancelled",
						gguf_name(gguf));
	}
	if (plan->is_tied)
		weights->output = weights->token_embd;
	return true;
}
