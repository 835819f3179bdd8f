/*
 * cpu_attention.c: attention in items that one thread computes alone: a KV head of a sequence, for
 * up to ATTENTION_TILE_TOKENS of its tokens. The late tiles of a prompt cost most and go first, so
 * that no thread starts one when the others are done.
 */
#include "engine/forward/cpu_device.h"

#include <math.h>

void
cpu_attention_plan(CpuDevice *device)
{
	const ForwardBatch *batch = device->batch;
	int32_t n_kv_heads = device->model->config.n_kv_heads;

	device->n_items = 0;
	for (int32_t s = 0; s < batch->n_sequences; s++)
	{
		int32_t n_tokens = batch->sequences[s].n_tokens;
		int32_t n_tiles = (n_tokens + ATTENTION_TILE_TOKENS - 1) / ATTENTION_TILE_TOKENS;

		for (int32_t tile = n_tiles - 1; tile >= 0; tile--)
		{
			int32_t first = tile * ATTENTION_TILE_TOKENS;
			int32_t left = n_tokens - first;

			for (int32_t head = 0; head < n_kv_heads; head++)
				device->items[device->n_items++] = (AttentionItem){
					.sequence = s,
					.kv_head = head,
					.first = first,
					.n_tokens = left < ATTENTION_TILE_TOKENS ? left : ATTENTION_TILE_TOKENS,
				};
		}
	}
}

typedef struct AttendJob
{
	CpuDevice *device;
	KvLayer kv;
} AttendJob;

static void
items_attend(void *context, int32_t thread, int32_t first, int32_t n)
{
	AttendJob *job = context;
	CpuDevice *device = job->device;
	const ModelConfig *config = &device->model->config;
	int32_t n_group = config->n_heads / config->n_kv_heads;
	char *scratch = device->thread_scratch + (size_t) thread * device->thread_scratch_bytes;

	for (int32_t i = first; i < first + n; i++)
	{
		const AttentionItem *item = &device->items[i];
		const ForwardSequence *sequence = &device->batch->sequences[item->sequence];
		size_t at = (size_t) (sequence->first_token + item->first) * (size_t) device->q_cols +
					(size_t) (item->kv_head * n_group * config->head_dim);
		AttentionTask task = {
			.kv = &job->kv,
			.block_table = sequence->block_table,
			.kv_head = item->kv_head,
			.n_group = n_group,
			.n_tokens = item->n_tokens,
			.first_position = sequence->n_past + item->first,
			.scale = 1.0f / sqrtf((float) config->head_dim),
			.q = device->q + at,
			.out = device->attended + at,
			.token_stride = device->q_cols,
		};

		device->kernels->attention(&task, scratch);
	}
}

void
cpu_attend(Device *base, int32_t layer)
{
	CpuDevice *device = (CpuDevice *) base;
	AttendJob job = { .device = device };

	kv_layer_view(device->kv, layer, &job.kv);
	cpu_run(device, items_attend, &job, device->n_items, 1);
}
