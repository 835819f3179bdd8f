/*
 * forward.h: one pass of a model over a ForwardBatch: many sequences, prompt chunks and single
 * decodes mixed, each weight read once for all of their tokens.
 *
 * Results do not depend on what else is in the batch, on how a prompt was cut into chunks, nor on
 * the number of threads: equal bit for bit (kernels.h tells the orders).
 *
 * A Forward owns scratch for max_tokens tokens; forward_run allocates nothing. One thread at a time
 * (the step thread); it spreads the work over the pool.
 */
#ifndef INFER_ENGINE_FORWARD_H
#define INFER_ENGINE_FORWARD_H

#include "engine/base/pool.h"
#include "engine/kv/kv_pages.h"
#include "engine/model/model.h"

/* Tokens [first_token, first_token + n_tokens) of the batch, at positions n_past, n_past + 1, ...
 */
typedef struct ForwardSequence
{
	int32_t first_token;
	int32_t n_tokens;
	int32_t n_past;
	const int32_t *block_table; /* pages for all n_past + n_tokens positions */
} ForwardSequence;

typedef struct ForwardBatch
{
	int32_t n_tokens;
	const int32_t *token_ids; /* [n_tokens] */
	int32_t n_sequences;
	const ForwardSequence *sequences; /* [n_sequences], in token order, covering all tokens */
	int32_t n_outputs;
	const int32_t *output_tokens; /* [n_outputs] ascending indexes of tokens that need logits */
} ForwardBatch;

typedef struct Forward Forward;

/* Scratch for batches up to max_tokens tokens and max_outputs rows of logits. */
extern bool forward_create(const Model *model, const KvPages *kv, Pool *pool,
						   const Kernels *kernels, int32_t max_tokens, int32_t max_outputs,
						   Forward **out, InferError *err);
extern void forward_destroy(Forward *forward);
extern size_t forward_scratch_bytes(const Forward *forward);

/*
 * Logits [n_outputs][n_vocab] in *logits, valid until the next call. False with INFER_BAD_MODEL
 * when a row of logits is not finite: bit i of failed_rows (if not NULL) tells which outputs; the
 * others hold.
 */
extern bool forward_run(Forward *forward, const ForwardBatch *batch, const float **logits,
						bool *failed_rows, InferError *err);

#endif
