/*
 * forward_rig.h: one model with its pages, pool and forward pass, and a sequence that can be fed
 * in any chunks: what the tests of forward/ need around a ForwardBatch.
 */
#ifndef INFER_TEST_FORWARD_RIG_H
#define INFER_TEST_FORWARD_RIG_H

#include "engine/forward/forward.h"
#include "golden.h"

#include <cmocka.h>

#define RIG_MAX_TOKENS 640
#define RIG_MAX_PAGES  512

typedef struct Rig
{
	Model *model;
	KvPages *kv;
	Pool *pool;
	Kernels kernels;
	Forward *forward;
} Rig;

static inline void
rig_create(Rig *rig, const char *path, KvType kv_type, int32_t n_threads)
{
	InferError err;
	Gguf *gguf = NULL;
	const char *problem = NULL;

	if (!pool_create(n_threads, &rig->pool, &err) || !gguf_open(path, &gguf, &err) ||
		!model_load(gguf, rig->pool, NULL, NULL, &rig->model, &err) ||
		!kv_pages_create(&rig->model->config, kv_type, RIG_MAX_PAGES, &rig->kv, &err))
		fail_msg("%s: %s", err.message, err.detail);
	gguf_close(gguf);
	assert_true(kernels_select(&rig->kernels, &problem));
	if (!forward_create(rig->model, rig->kv, rig->pool, &rig->kernels, RIG_MAX_TOKENS,
						RIG_MAX_TOKENS, &rig->forward, &err))
		fail_msg("%s: %s", err.message, err.detail);
}

static inline void
rig_destroy(Rig *rig)
{
	forward_destroy(rig->forward);
	kv_pages_destroy(rig->kv);
	model_free(rig->model);
	pool_destroy(rig->pool);
}

static inline int
rig_vocab(const Rig *rig)
{
	return rig->model->config.n_vocab;
}

/* A batch of one sequence: logits of all its tokens, or of the last one, to `out`. */
static inline void
rig_feed(Rig *rig, const int32_t *ids, int32_t n_past, int32_t n_tokens, const int32_t *pages,
		 bool all, float *out)
{
	int32_t outputs[RIG_MAX_TOKENS];
	ForwardSequence sequence = { 0, n_tokens, n_past, pages };
	ForwardBatch batch = { .n_tokens = n_tokens,
						   .token_ids = ids + n_past,
						   .n_sequences = 1,
						   .sequences = &sequence,
						   .n_outputs = all ? n_tokens : 1,
						   .output_tokens = outputs };
	const float *logits;
	InferError err;

	for (int32_t i = 0; i < batch.n_outputs; i++)
		outputs[i] = all ? i : n_tokens - 1;
	if (!forward_run(rig->forward, &batch, &logits, NULL, &err))
		fail_msg("%s: %s", err.message, err.detail);
	memcpy(out, logits, (size_t) batch.n_outputs * (size_t) rig_vocab(rig) * sizeof(float));
}

/* All n tokens in chunks, on fresh pages which go back afterwards; logits of every token. */
static inline float *
rig_logits(Rig *rig, const int32_t *ids, int32_t n, int32_t chunk)
{
	int32_t pages[RIG_MAX_PAGES];
	int32_t n_pages = (n + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
	float *logits = malloc((size_t) n * (size_t) rig_vocab(rig) * sizeof(float));

	assert_non_null(logits);
	assert_true(kv_pages_alloc(rig->kv, n_pages, pages));
	for (int32_t at = 0; at < n; at += chunk)
		rig_feed(rig, ids, at, n - at < chunk ? n - at : chunk, pages, true,
				 logits + (size_t) at * (size_t) rig_vocab(rig));
	while (n_pages > 0)
		kv_page_release(rig->kv, pages[--n_pages]);
	return logits;
}

#endif
