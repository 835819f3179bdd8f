/*
 * attention_ref.c: writing keys and values into pages, and attention over pages, scalar.
 *
 * Two passes for each query row: all scores, their largest, the exponentials and their sum (16
 * partials by position within the page); then the values, positions ascending.
 */
#include "kernels/cpu/exp.h"
#include "kernels/cpu/ref.h"

#include <math.h>

size_t
attention_scratch_bytes(int32_t n_positions, int32_t head_dim)
{
	size_t n = ((size_t) n_positions + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS * KV_PAGE_TOKENS;

	return ATTENTION_ROWS * (n + (size_t) head_dim) * sizeof(float);
}

void
kv_write_ref(const KvLayer *kv, int32_t page, int32_t slot_in_page, const float *k, const float *v)
{
	for (int32_t h = 0; h < kv->n_kv_heads; h++)
	{
		char *head = kv->base + (size_t) page * kv->page_bytes + (size_t) h * kv->head_bytes;
		char *values = head + kv->head_bytes / 2;

		for (int32_t i = 0; i < kv->head_dim; i++)
		{
			size_t k_at = (size_t) i * KV_PAGE_TOKENS + (size_t) slot_in_page;
			size_t v_at = (size_t) slot_in_page * (size_t) kv->head_dim + (size_t) i;
			float key = k[h * kv->head_dim + i];
			float value = v[h * kv->head_dim + i];

			if (kv->type == KV_F32)
			{
				((float *) head)[k_at] = key;
				((float *) values)[v_at] = value;
			}
			else
			{
				((uint16_t *) head)[k_at] = half_from_float(key);
				((uint16_t *) values)[v_at] = half_from_float(value);
			}
		}
	}
}

static float
kv_read(const KvLayer *kv, const char *half, size_t index)
{
	return kv->type == KV_F32 ? ((const float *) half)[index]
							  : half_to_float(((const uint16_t *) half)[index]);
}

void
scores_cap(float *scores, int32_t n, float softcap)
{
	for (int32_t i = 0; softcap > 0.0f && i < n; i++)
		scores[i] = softcap * tanh_scalar(scores[i] / softcap);
}

static void
row_attend(const AttentionTask *task, const float *q, int32_t from, int32_t position, float *scores,
		   float *out)
{
	const KvLayer *kv = task->kv;
	float largest = -INFINITY;
	float partials[16] = { 0 };
	float sum;

	for (int32_t p = from; p <= position; p++)
	{
		const char *head = kv->base +
						   (size_t) task->block_table[p / KV_PAGE_TOKENS] * kv->page_bytes +
						   (size_t) task->kv_head * kv->head_bytes;
		float acc = 0.0f;

		for (int32_t i = 0; i < kv->head_dim; i++)
			acc =
				fmaf(q[i],
					 kv_read(kv, head, (size_t) i * KV_PAGE_TOKENS + (size_t) (p % KV_PAGE_TOKENS)),
					 acc);
		scores[p] = acc * task->scale;
		scores_cap(scores + p, 1, task->softcap);
		if (scores[p] > largest)
			largest = scores[p];
	}
	for (int32_t p = from; p <= position; p++)
	{
		scores[p] = exp_scalar(scores[p] - largest);
		partials[p % KV_PAGE_TOKENS] += scores[p];
	}
	sum = partials_add(partials);
	for (int32_t i = 0; i < kv->head_dim; i++)
		out[i] = 0.0f;
	for (int32_t p = from; p <= position; p++)
	{
		const char *values = kv->base +
							 (size_t) task->block_table[p / KV_PAGE_TOKENS] * kv->page_bytes +
							 (size_t) task->kv_head * kv->head_bytes + kv->head_bytes / 2;

		for (int32_t i = 0; i < kv->head_dim; i++)
			out[i] =
				fmaf(scores[p],
					 kv_read(kv, values,
							 (size_t) (p % KV_PAGE_TOKENS) * (size_t) kv->head_dim + (size_t) i),
					 out[i]);
	}
	for (int32_t i = 0; i < kv->head_dim; i++)
		out[i] *= 1.0f / sum;
}

void
attention_ref(const AttentionTask *task, void *scratch)
{
	for (int32_t t = 0; t < task->n_tokens; t++)
	{
		int32_t position = task->first_position + t;
		int32_t from =
			task->window > 0 && position >= task->window ? position - task->window + 1 : 0;

		for (int32_t g = 0; g < task->n_group; g++)
		{
			int64_t at = (int64_t) t * task->token_stride + (int64_t) g * task->kv->head_dim;

			row_attend(task, task->q + at, from, position, scratch, task->out + at);
		}
	}
}
