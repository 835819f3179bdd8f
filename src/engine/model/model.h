/*
 * model.h: a model in memory: what the file says about its shape (ModelConfig) and its weights,
 * repacked for the kernels (ModelWeights). Read-only after model_load.
 *
 * Architectures are one table (arch.c), one row each: which norms, which rope, which biases, and
 * the names of tensors. Adding a model family adds a row; the forward pass reads flags of the row
 * and never a name.
 *
 * Every number of the file is checked against the others and against the tensors before a weight is
 * touched: head counts divide, dims of each tensor are what the config implies, context lengths
 * and eps are sane. See docs/file-safety.md.
 */
#ifndef INFER_ENGINE_MODEL_H
#define INFER_ENGINE_MODEL_H

#include "engine/base/pool.h"
#include "engine/model/gguf.h"
#include "kernels/kernels.h"
#include "shared/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ArchInfo
{
	const char *name; /* general.architecture */
	bool rope_interleaved;
	bool qkv_bias;
	bool qk_norm; /* RMS norm of each q and k head before rope */
} ArchInfo;

/* NULL when we do not run it. */
extern const ArchInfo *arch_find(const char *name, size_t n_bytes);
extern const ArchInfo *arch_at(int index); /* NULL past the last, for messages and info */

typedef enum RopeScaling
{
	ROPE_SCALE_NONE,
	ROPE_SCALE_LINEAR,
	ROPE_SCALE_YARN
} RopeScaling;

typedef struct ModelConfig
{
	const ArchInfo *arch;
	int32_t n_vocab;
	int32_t n_layers;
	int32_t n_embd;
	int32_t n_ff;
	int32_t n_heads;
	int32_t n_kv_heads;
	int32_t head_dim;
	int32_t n_context; /* trained context: the longest sequence we admit */
	int32_t n_rot;	   /* rotated elements of a head */
	float rms_eps;
	float rope_base;
	RopeScaling rope_scaling;
	float rope_factor;
	int32_t rope_original_context;
	float rope_attn_factor;
	float yarn_ext_factor;
	float yarn_beta_fast;
	float yarn_beta_slow;
} ModelConfig;

typedef struct LayerWeights
{
	const float *attn_norm; /* [n_embd] */
	PackedMatrix q;			/* [n_heads * head_dim][n_embd] */
	PackedMatrix k;			/* [n_kv_heads * head_dim][n_embd] */
	PackedMatrix v;
	const float *q_bias; /* or NULL */
	const float *k_bias;
	const float *v_bias;
	const float *q_norm; /* [head_dim] or NULL */
	const float *k_norm;
	PackedMatrix o;		   /* [n_embd][n_heads * head_dim] */
	const float *ffn_norm; /* [n_embd] */
	PackedMatrix gate;	   /* [n_ff][n_embd] */
	PackedMatrix up;
	PackedMatrix down; /* [n_embd][n_ff] */
} LayerWeights;

typedef struct ModelWeights
{
	PackedMatrix token_embd; /* [n_vocab][n_embd] */
	PackedMatrix output;	 /* the same memory as token_embd when tied */
	const float *output_norm;
	const float *output_bias; /* [n_vocab] or NULL */
	const float *rope_freqs;  /* [n_rot / 2] divisors of the frequencies, or NULL */
	LayerWeights *layers;	  /* [n_layers] */
	void *memory;			  /* owner of all weights, Model.weight_bytes */
} ModelWeights;

#define MODEL_FINGERPRINT_BYTES 32

typedef struct Model
{
	ModelConfig config;
	ModelWeights weights;
	uint8_t fingerprint[MODEL_FINGERPRINT_BYTES]; /* of the whole file: fingerprint.h */
	uint64_t n_parameters;
	size_t weight_bytes;  /* resident, repacked */
	char type_name[24];	  /* the type most parameters have: "Q4_1" */
	char model_name[128]; /* general.name in plain ASCII, or "" */
} Model;

/* Called now and then while loading, from the loading thread: fraction done 0..1. False stops the
 * load. */
typedef bool (*ModelProgress)(void *context, float done);

/* Reads and checks the config alone (`info`, and memory planning before anything is loaded). */
extern bool model_config_read(const Gguf *gguf, ModelConfig *out, InferError *err);

/* Bytes that model_load will allocate for weights. */
extern bool model_weight_bytes(const Gguf *gguf, size_t *out, InferError *err);

/* Loads weights with `pool` (may be NULL: this thread alone). The Gguf may be closed afterwards. */
extern bool model_load(const Gguf *gguf, Pool *pool, ModelProgress progress, void *context,
					   Model **out, InferError *err);
extern void model_free(Model *model);

#endif
