/*
 * weights.h: which tensors a model is made of, and their way into one block of memory. Private to
 * model/.
 *
 * A plan lists every tensor that the config calls for, its checked shape, and its place in the
 * block. Making a plan touches no weight, so `info` and memory planning use it too. Tensors of a
 * layer that the plan does not know are refused: leaving a weight out would give wrong answers.
 */
#ifndef INFER_ENGINE_WEIGHTS_H
#define INFER_ENGINE_WEIGHTS_H

#include "engine/base/arena.h"
#include "engine/model/model.h"

#define WEIGHT_TOKEN_EMBD "token_embd.weight"

typedef struct WeightItem
{
	const GgufTensor *tensor;
	bool is_matrix; /* packed for the kernels; else a vector of f32 */
	int32_t n_rows; /* 1 for vectors */
	int32_t n_cols; /* items of a vector */
	size_t offset;	/* in the block */
	size_t n_bytes; /* there */
	int32_t layer;	/* -1: of the model */
	size_t member;	/* offset in LayerWeights or ModelWeights */
} WeightItem;

typedef struct WeightPlan
{
	WeightItem *items; /* [n_items] in the arena */
	size_t n_items;
	size_t n_bytes; /* of the block */
	uint64_t n_parameters;
	bool is_tied; /* the output matrix is the token embedding */
} WeightPlan;

extern bool weights_plan(const Gguf *gguf, const ModelConfig *config, Arena *arena, WeightPlan *out,
						 InferError *err);

/* Fills the block (plan->n_bytes, aligned to 64) and the pointers of weights and its layers. */
extern bool weights_load(const Gguf *gguf, const WeightPlan *plan, Pool *pool,
						 ModelProgress progress, void *context, char *block, ModelWeights *weights,
						 InferError *err);

#endif
