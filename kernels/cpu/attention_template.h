/*
 * attention_template.h: attention over pages at the width of the simd header in front of it; the
 * operations of attention_ref.c in the same order.
 *
 * The query heads of a group share their KV head, so up to ROWS of them walk the pages together and
 * each page is loaded once for all of them. Scores: lane = position in the page. Values: lane =
 * element of the head.
 */
#include "kernels/cpu/ref.h"

#include <math.h>

/* Query heads at a time: 4 x 4 accumulators of 16 lanes for head_dim 64 fit the registers. */
#define ROWS 4

SIMD_INLINE vf
kv_load(const char *half, size_t at, KvType type)
{
	return type == KV_F32 ? vf_load((const float *) half + at)
						  : vf_load_half((const uint16_t *) half + at);
}

/* Scores of n rows against pages [first, last], scaled, into scores + row * stride, page-aligned.
 */
SIMD_INLINE void
scores_compute(const AttentionTask *task, const float *q, int n, int32_t first, int32_t last,
			   float *scores, size_t stride, KvType type)
{
	const KvLayer *kv = task->kv;

	for (int32_t page = first; page <= last; page++)
	{
		const char *keys = kv->base + (size_t) task->block_table[page] * kv->page_bytes +
						   (size_t) task->kv_head * kv->head_bytes;

		for (int part = 0; part < KV_PAGE_TOKENS / LANES; part++)
		{
			vf acc[ROWS];

#pragma GCC unroll 4
			for (int r = 0; r < n; r++)
				acc[r] = vf_zero();
			for (int32_t i = 0; i < kv->head_dim; i++)
			{
				vf k = kv_load(keys, (size_t) i * KV_PAGE_TOKENS + (size_t) part * LANES, type);

#pragma GCC unroll 4
				for (int r = 0; r < n; r++)
					acc[r] = vf_fma(vf_set1(q[r * kv->head_dim + i]), k, acc[r]);
			}
#pragma GCC unroll 4
			for (int r = 0; r < n; r++)
				vf_store(scores + (size_t) r * stride + (size_t) page * KV_PAGE_TOKENS +
							 (size_t) part * LANES,
						 vf_mul(acc[r], vf_set1(task->scale)));
		}
	}
}

/*
 * Scores of one row become weights; returns their sum. Positions outside [from, position] within
 * the border pages get weight 0.
 */
SIMD_INLINE float
weights_compute(float *scores, int32_t from, int32_t position, float softcap)
{
	int32_t start = from / KV_PAGE_TOKENS * KV_PAGE_TOKENS;
	int32_t end = (position / KV_PAGE_TOKENS + 1) * KV_PAGE_TOKENS;
	vf best = vf_set1(-INFINITY);
	float lanes[LANES];
	float largest = -INFINITY;

	if (softcap > 0.0f)
		scores_cap(scores + from, position - from + 1, softcap);
	for (int32_t p = start; p < from; p++)
		scores[p] = -INFINITY;
	for (int32_t p = position + 1; p < end; p++)
		scores[p] = -INFINITY;
	for (int32_t p = start; p < end; p += LANES)
		best = vf_max(vf_load(scores + p), best);
	vf_store(lanes, best);
	for (int i = 0; i < LANES; i++)
		if (lanes[i] > largest)
			largest = lanes[i];
	return exp_sum_run(scores + start, end - start, largest, scores + start);
}

/* out[r] += weights[r] * V over [from, position], n rows, WIDTH vectors of the head starting at
 * element i. */
SIMD_INLINE void
values_add(const AttentionTask *task, const float *scores, size_t stride, int n, int width,
		   int32_t from, int32_t position, int32_t i, const float *inverse, float *out, KvType type)
{
	const KvLayer *kv = task->kv;
	vf acc[ROWS][4];

#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
#pragma GCC unroll 4
		for (int w = 0; w < width; w++)
			acc[r][w] = vf_zero();
	for (int32_t p = from; p <= position;)
	{
		int32_t page = p / KV_PAGE_TOKENS;
		int32_t end = (page + 1) * KV_PAGE_TOKENS;
		const char *values = kv->base + (size_t) task->block_table[page] * kv->page_bytes +
							 (size_t) task->kv_head * kv->head_bytes + kv->head_bytes / 2;

		if (end > position + 1)
			end = position + 1;
		for (; p < end; p++)
		{
			size_t at = (size_t) (p % KV_PAGE_TOKENS) * (size_t) kv->head_dim + (size_t) i;

#pragma GCC unroll 4
			for (int w = 0; w < width; w++)
			{
				vf v = kv_load(values, at + (size_t) w * LANES, type);

#pragma GCC unroll 4
				for (int r = 0; r < n; r++)
					acc[r][w] =
						vf_fma(vf_set1(scores[(size_t) r * stride + (size_t) p]), v, acc[r][w]);
			}
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
#pragma GCC unroll 4
		for (int w = 0; w < width; w++)
			vf_store(out + r * kv->head_dim + i + w * LANES,
					 vf_mul(acc[r][w], vf_set1(inverse[r])));
}

SIMD_INLINE void
rows_attend(const AttentionTask *task, const float *q, int n, int32_t position, float *scores,
			size_t stride, float *out, KvType type)
{
	int32_t from = task->window > 0 && position >= task->window ? position - task->window + 1 : 0;
	int32_t head_dim = task->kv->head_dim;
	float inverse[ROWS];
	int32_t i = 0;

	scores_compute(task, q, n, from / KV_PAGE_TOKENS, position / KV_PAGE_TOKENS, scores, stride,
				   type);
	for (int r = 0; r < n; r++)
		inverse[r] =
			1.0f / weights_compute(scores + (size_t) r * stride, from, position, task->softcap);
	for (; i + 4 * LANES <= head_dim; i += 4 * LANES)
		values_add(task, scores, stride, n, 4, from, position, i, inverse, out, type);
	for (; i + LANES <= head_dim; i += LANES)
		values_add(task, scores, stride, n, 1, from, position, i, inverse, out, type);
}

/* n and type as constants for the compiler. */
#define ROWS_ATTEND(n)                                                                             \
	(task->kv->type == KV_F16                                                                      \
		 ? rows_attend(task, task->q + at, n, position, scratch, stride, task->out + at, KV_F16)   \
		 : rows_attend(task, task->q + at, n, position, scratch, stride, task->out + at, KV_F32))

SIMD_INLINE void
attention_run(const AttentionTask *task, void *scratch)
{
	int32_t last = task->first_position + task->n_tokens - 1;
	size_t stride = (size_t) (last / KV_PAGE_TOKENS + 1) * KV_PAGE_TOKENS;

	if (task->kv->head_dim % LANES != 0)
	{
		attention_ref(task, scratch);
		return;
	}
	for (int32_t t = 0; t < task->n_tokens; t++)
	{
		int32_t position = task->first_position + t;

		for (int32_t g = 0; g < task->n_group;)
		{
			int64_t at = (int64_t) t * task->token_stride + (int64_t) g * task->kv->head_dim;

			switch (task->n_group - g)
			{
				case 1:
					ROWS_ATTEND(1);
					g += 1;
					break;
				case 2:
					ROWS_ATTEND(2);
					g += 2;
					break;
				case 3:
					ROWS_ATTEND(3);
					g += 3;
					break;
				default:
					ROWS_ATTEND(4);
					g += 4;
			}
		}
	}
}
