/*
 * config.c: the numbers of a model file, each checked for itself and against the others. What a
 * file leaves out has the default that the format gives it.
 */
#include "engine/model/model.h"
#include "engine/model/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_LAYERS	 1024
#define MAX_WIDTH	 (1 << 20) /* n_embd, n_ff, n_heads * head_dim */
#define MAX_HEAD_DIM 1024
#define MAX_CONTEXT	 (1 << 24)
#define MAX_VOCAB	 (1 << 24)

#define DOWNLOAD_AGAIN "Download the file again, or take it from another publisher."

/* "llama.block_count": keys carry the name of the architecture. */
typedef struct ConfigKey
{
	char text[96];
} ConfigKey;

static ConfigKey
key_make(const ModelConfig *config, const char *suffix)
{
	ConfigKey key;

	snprintf(key.text, sizeof(key.text), "%s.%s", config->arch->name, suffix);
	return key;
}

static bool
fail_value(const Gguf *gguf, const char *key, int64_t value, int64_t min, int64_t max,
		   InferError *err)
{
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" is damaged\n"
				"%s is %" PRId64 ", which is not between %" PRId64 " and %" PRId64
				".\n" DOWNLOAD_AGAIN,
				gguf_name(gguf), key, value, min, max);
}

/*
 * An integer in [min, max]. Some files hold it as an array with an item a layer: taken when all are
 * equal. *value holds the default; a default outside the range means that the key must be there.
 */
static bool
config_int(const Gguf *gguf, const ModelConfig *config, const char *suffix, int32_t min,
		   int32_t max, int32_t *value, InferError *err)
{
	ConfigKey key = key_make(config, suffix);
	GgufArray array = { 0 };
	int64_t wide = *value;
	InferError ignored;

	if (gguf_has(gguf, key.text) && gguf_get_array(gguf, key.text, &array, &ignored))
	{
		for (uint64_t i = 0; i < array.n_items; i++)
		{
			int64_t item = 0;

			if (!gguf_array_i64(&array, i, &item) || (i > 0 && item != wide))
				return fail(err, INFER_BAD_MODEL,
							"model file \"%s\" cannot be used\n"
							"%s differs from layer to layer, which is not supported yet.",
							gguf_name(gguf), key.text);
			wide = item;
		}
	}
	else
	{
		uint32_t number = (uint32_t) *value;

		if (!gguf_get_u32(gguf, key.text, &number, err))
			return false;
		wide = gguf_has(gguf, key.text) ? (int64_t) number : *value;
	}
	if (wide < min || wide > max)
		return fail_value(gguf, key.text, wide, min, max, err);
	*value = (int32_t) wide;
	return true;
}

/* A finite number in [min, max]; *value holds the default. */
static bool
config_float(const Gguf *gguf, const ModelConfig *config, const char *suffix, float min, float max,
			 float *value, InferError *err)
{
	ConfigKey key = key_make(config, suffix);

	if (!gguf_get_f32(gguf, key.text, value, err))
		return false;
	if (!(*value >= min && *value <= max))
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged\n"
					"%s is %g, which is not between %g and %g.\n" DOWNLOAD_AGAIN,
					gguf_name(gguf), key.text, (double) *value, (double) min, (double) max);
	return true;
}

static bool
arch_read(const Gguf *gguf, ModelConfig *config, InferError *err)
{
	GgufText name = { "", 0 };
	char known[160] = "";

	if (!gguf_get_text(gguf, "general.architecture", &name, err))
		return false;
	config->arch = arch_find(name.bytes, name.n_bytes);
	if (config->arch != NULL)
		return true;
	for (int i = 0; arch_at(i) != NULL; i++)
	{
		size_t n = strlen(known);

		snprintf(known + n, sizeof(known) - n, "%s%s", i > 0 ? ", " : "", arch_at(i)->name);
	}
	if (name.n_bytes == 0)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" does not say its architecture\n"
					"general.architecture is missing.\n" DOWNLOAD_AGAIN,
					gguf_name(gguf));
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" has architecture \"%s\", which is not supported\n"
				"Supported architectures: %s.",
				gguf_name(gguf), gguf_printable(name).text, known);
}

/* The vocabulary is as large as the embedding: the tokenizer is checked against it. */
static bool
vocab_read(const Gguf *gguf, ModelConfig *config, InferError *err)
{
	const GgufTensor *embd = gguf_tensor_find(gguf, WEIGHT_TOKEN_EMBD);

	if (embd == NULL)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" holds no weights to run\n"
					"Tensor \"" WEIGHT_TOKEN_EMBD "\" is missing.\n"
					"Is it a vocabulary, an adapter or a part of a split file?",
					gguf_name(gguf));
	if (embd->n_dims != 2 || embd->dims[1] > MAX_VOCAB)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged\n"
					"Tensor \"" WEIGHT_TOKEN_EMBD "\" has %" PRIu32 " dimensions, the second of "
					"%" PRIu64 ".\n" DOWNLOAD_AGAIN,
					gguf_name(gguf), embd->n_dims, embd->dims[1]);
	config->n_vocab = (int32_t) embd->dims[1];
	return true;
}

static bool
shape_read(const Gguf *gguf, ModelConfig *config, InferError *err)
{
	int32_t n_experts = 0;
	int32_t value_dim;

	if (!config_int(gguf, config, "block_count", 1, MAX_LAYERS, &config->n_layers, err) ||
		!config_int(gguf, config, "embedding_length", 1, MAX_WIDTH, &config->n_embd, err) ||
		!config_int(gguf, config, "feed_forward_length", 1, MAX_WIDTH, &config->n_ff, err) ||
		!config_int(gguf, config, "context_length", 1, MAX_CONTEXT, &config->n_context, err) ||
		!config_int(gguf, config, "attention.head_count", 1, MAX_WIDTH, &config->n_heads, err) ||
		!config_int(gguf, config, "expert_count", 0, MAX_WIDTH, &n_experts, err))
		return false;
	if (n_experts > 0)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is a mixture of %" PRId32
					" experts, which is not supported yet",
					gguf_name(gguf), n_experts);

	config->n_kv_heads = config->n_heads;
	config->head_dim = config->n_embd / config->n_heads;
	if (!config_int(gguf, config, "attention.head_count_kv", 1, config->n_heads,
					&config->n_kv_heads, err) ||
		!config_int(gguf, config, "attention.key_length", 1, MAX_HEAD_DIM, &config->head_dim, err))
		return false;
	value_dim = config->head_dim;
	if (!config_int(gguf, config, "attention.value_length", 1, MAX_HEAD_DIM, &value_dim, err))
		return false;
	if (value_dim != config->head_dim || config->n_heads % config->n_kv_heads != 0 ||
		(int64_t) config->n_heads * config->head_dim > MAX_WIDTH)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged or of a kind that is not supported\n"
					"%" PRId32 " query heads, %" PRId32 " key heads, keys of %" PRId32
					" and values of %" PRId32 " elements do not go together.",
					gguf_name(gguf), config->n_heads, config->n_kv_heads, config->head_dim,
					value_dim);
	return true;
}

static bool
rope_scaling_read(const Gguf *gguf, ModelConfig *config, InferError *err)
{
	static const struct
	{
		const char *name;
		RopeScaling scaling;
	} kinds[] = {
		{ "none", ROPE_SCALE_NONE },
		{ "linear", ROPE_SCALE_LINEAR },
		{ "yarn", ROPE_SCALE_YARN },
	};
	/* Files older than the scaling.type key have a linear factor under this name. */
	bool has_old_factor = gguf_has(gguf, key_make(config, "rope.scale_linear").text);
	GgufText name = { has_old_factor ? "linear" : "none", has_old_factor ? 6 : 4 };

	if (!gguf_get_text(gguf, key_make(config, "rope.scaling.type").text, &name, err))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i].name) == name.n_bytes &&
			memcmp(kinds[i].name, name.bytes, name.n_bytes) == 0)
		{
			config->rope_scaling = kinds[i].scaling;
			return true;
		}
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" scales positions by \"%s\", which is not supported yet\n"
				"Supported are none, linear and yarn.",
				gguf_name(gguf), gguf_printable(name).text);
}

static bool
rope_read(const Gguf *gguf, ModelConfig *config, InferError *err)
{
	config->n_rot = config->head_dim;
	config->rope_base = 10000.0f;
	config->rope_factor = 1.0f;
	config->rope_attn_factor = 1.0f;
	config->rope_original_context = config->n_context;
	config->yarn_ext_factor = 1.0f;
	config->yarn_beta_fast = 32.0f;
	config->yarn_beta_slow = 1.0f;
	if (!rope_scaling_read(gguf, config, err) ||
		!config_int(gguf, config, "rope.dimension_count", 2, config->head_dim, &config->n_rot,
					err) ||
		!config_float(gguf, config, "rope.freq_base", 1.0f, 1e15f, &config->rope_base, err) ||
		!config_float(gguf, config, "rope.scale_linear", 1e-3f, 1e6f, &config->rope_factor, err) ||
		!config_float(gguf, config, "rope.scaling.factor", 0.0f, 1e6f, &config->rope_factor, err) ||
		!config_float(gguf, config, "rope.scaling.attn_factor", 1e-3f, 1e3f,
					  &config->rope_attn_factor, err) ||
		!config_int(gguf, config, "rope.scaling.original_context_length", 1, MAX_CONTEXT,
					&config->rope_original_context, err) ||
		!config_float(gguf, config, "rope.scaling.yarn_ext_factor", -1.0f, 1e3f,
					  &config->yarn_ext_factor, err) ||
		!config_float(gguf, config, "rope.scaling.yarn_beta_fast", 1e-3f, 1e6f,
					  &config->yarn_beta_fast, err) ||
		!config_float(gguf, config, "rope.scaling.yarn_beta_slow", 1e-3f, 1e6f,
					  &config->yarn_beta_slow, err))
		return false;
	if (config->rope_factor == 0.0f)
		config->rope_factor = 1.0f; /* "not scaled" in some files */
	if (config->yarn_ext_factor < 0.0f)
		config->yarn_ext_factor = 1.0f; /* the format's "default" */
	if (config->n_rot % 2 != 0)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is damaged\n"
					"It rotates %" PRId32 " elements of a head, an odd number.\n" DOWNLOAD_AGAIN,
					gguf_name(gguf), config->n_rot);
	return true;
}

bool
model_config_read(const Gguf *gguf, ModelConfig *out, InferError *err)
{
	memset(out, 0, sizeof(*out));
	out->rms_eps = 1e-5f;
	return arch_read(gguf, out, err) && vocab_read(gguf, out, err) && shape_read(gguf, out, err) &&
		   config_float(gguf, out, "attention.layer_norm_rms_epsilon", 0.0f, 1.0f, &out->rms_eps,
						err) &&
		   rope_read(gguf, out, err);
}
