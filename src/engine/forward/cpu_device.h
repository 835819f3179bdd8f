/*
 * cpu_device.h: the inside of the CPU device, for cpu_device.c (memory, the batch), cpu_layer.c
 * (all that multiplies weights) and cpu_attention.c.
 *
 * Each operation is a few jobs for the pool. A job's items are tokens, tiles of tokens, row groups
 * of a matrix, or pieces of attention; whoever computes an item computes it alone, so the number of
 * threads changes no result. A job of very few tokens is not worth waking anybody: it runs where it
 * is.
 *
 *   qkv     norm + quantize (tiles)    q, k, v (row groups)   bias, norm, rotate, write (tokens)
 *   attend  sequence x KV head x tile of tokens
 *   merge   quantize (tiles)           o, residual (row groups)
 *   ffn     norm + quantize (tiles)    gate, up, swiglu (row groups)
 *           quantize (tiles)           down, residual (row groups)
 *   head    gather, norm, quantize     output (row groups)    finite? (rows)
 */
#ifndef INFER_ENGINE_CPU_DEVICE_H
#define INFER_ENGINE_CPU_DEVICE_H

#include "engine/base/arena.h"
#include "engine/forward/device.h"
#include "engine/forward/rope.h"

#define ATTENTION_TILE_TOKENS 16

/* Where a token of the batch stands. */
typedef struct TokenPlace
{
	int32_t position;
	int32_t page;
	int32_t slot_in_page;
} TokenPlace;

typedef struct AttentionItem
{
	int32_t sequence; /* of the batch */
	int32_t kv_head;
	int32_t first; /* token of the sequence */
	int32_t n_tokens;
} AttentionItem;

typedef struct CpuDevice
{
	Device device; /* first: ops */

	/* Config */
	const Model *model;
	const KvPages *kv;
	Pool *pool;
	const Kernels *kernels;
	Rope rope;
	int32_t q_cols;	 /* n_heads * head_dim */
	int32_t kv_cols; /* n_kv_heads * head_dim */

	/* Scratch; T = max_tokens, all in the arena */
	Arena arena;
	float *x;		 /* [T][n_embd] the residual stream */
	float *normed;	 /* [T][n_embd] */
	float *q;		 /* [T][q_cols] */
	float *k;		 /* [T][kv_cols] */
	float *v;		 /* [T][kv_cols] */
	float *attended; /* [T][q_cols] */
	float *gate;	 /* [T][n_ff] */
	float *up;		 /* [T][n_ff] */
	float *added;	 /* [T][n_embd] what a block adds to x */
	float *cosines;	 /* [T][n_pairs] */
	float *sines;
	void *acts_memory;	  /* quantized activations of the widest input */
	float *out_normed;	  /* [max_outputs][n_embd] */
	float *logits;		  /* [max_outputs][n_vocab] */
	TokenPlace *places;	  /* [T] */
	AttentionItem *items; /* [T * n_kv_heads] */
	char *thread_scratch; /* [n_threads][thread_scratch_bytes] */
	size_t thread_scratch_bytes;

	/* The batch of now */
	const ForwardBatch *batch;
	int32_t n_items;
	bool *row_failed;
} CpuDevice;

/* The job over n items, in the caller alone when that is cheaper. */
extern void cpu_run(CpuDevice *device, PoolJob job, void *context, int32_t n_items,
					int32_t chunk_items);

/* cpu_layer.c */
extern void cpu_embed(Device *device);
extern void cpu_qkv(Device *device, int32_t layer);
extern void cpu_merge(Device *device, int32_t layer);
extern void cpu_ffn(Device *device, int32_t layer);
extern const float *cpu_head(Device *device, bool *row_failed);

/* cpu_attention.c */
extern void cpu_attention_plan(CpuDevice *device);
extern void cpu_attend(Device *device, int32_t layer);

#endif
