#include "engine/forward/cpu_device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_ALIGNMENT 64

void
cpu_run(CpuDevice *device, PoolJob job, void *context, int32_t n_items, int32_t chunk_items)
{
	if (n_items <= chunk_items)
		job(context, 0, 0, n_items);
	else
		pool_run(device->pool, job, context, n_items, chunk_items);
}

/* ---- memory ---- */

/* Floats [n_rows][n_cols]; false in *ok stays, so that one check follows many calls. */
static float *
floats_alloc(CpuDevice *device, size_t n_rows, size_t n_cols, bool *ok)
{
	size_t n;
	float *buffer = NULL;

	if (!__builtin_mul_overflow(n_rows, n_cols, &n) && n <= SIZE_MAX / sizeof(float))
		buffer = arena_alloc_aligned(&device->arena, n * sizeof(float), BUFFER_ALIGNMENT);
	*ok = *ok && buffer != NULL;
	return buffer;
}

/* The widest input of a matrix: all share one place for their quantized form. */
static int32_t
widest_input(const CpuDevice *device)
{
	const ModelConfig *config = &device->model->config;
	int32_t widest = config->n_embd > config->n_ff ? config->n_embd : config->n_ff;

	return widest > device->q_cols ? widest : device->q_cols;
}

static bool
activations_alloc(CpuDevice *device, const DeviceLimits *limits)
{
	const ModelConfig *config = &device->model->config;
	size_t n_tokens = (size_t) limits->max_tokens;
	size_t n_outputs = (size_t) limits->max_outputs;
	size_t n_embd = (size_t) config->n_embd;
	int32_t most =
		limits->max_tokens > limits->max_outputs ? limits->max_tokens : limits->max_outputs;
	bool ok = true;

	device->x = floats_alloc(device, n_tokens, n_embd, &ok);
	device->normed = floats_alloc(device, n_tokens, n_embd, &ok);
	device->q = floats_alloc(device, n_tokens, (size_t) device->q_cols, &ok);
	device->k = floats_alloc(device, n_tokens, (size_t) device->kv_cols, &ok);
	device->v = floats_alloc(device, n_tokens, (size_t) device->kv_cols, &ok);
	device->attended = floats_alloc(device, n_tokens, (size_t) device->q_cols, &ok);
	device->gate = floats_alloc(device, n_tokens, (size_t) config->n_ff, &ok);
	device->up = floats_alloc(device, n_tokens, (size_t) config->n_ff, &ok);
	device->added = floats_alloc(device, n_tokens, n_embd, &ok);
	device->cosines = floats_alloc(device, n_tokens, (size_t) device->rope.n_pairs, &ok);
	device->sines = floats_alloc(device, n_tokens, (size_t) device->rope.n_pairs, &ok);
	device->out_normed = floats_alloc(device, n_outputs, n_embd, &ok);
	device->logits = floats_alloc(device, n_outputs, (size_t) config->n_vocab, &ok);
	/* Rounded up: what is not a multiple of 32 is never quantized, but has to be sized. */
	device->acts_memory = arena_alloc_aligned(
		&device->arena, acts_bytes(most, (widest_input(device) + 31) / 32 * 32), BUFFER_ALIGNMENT);
	return ok && device->acts_memory != NULL;
}

static bool
plans_alloc(CpuDevice *device, const DeviceLimits *limits)
{
	const ModelConfig *config = &device->model->config;
	size_t n_tokens = (size_t) limits->max_tokens;
	int64_t n_positions = (int64_t) kv_pages_total(device->kv) * KV_PAGE_TOKENS;

	if (n_positions > config->n_context)
		n_positions = config->n_context;
	device->thread_scratch_bytes =
		(attention_scratch_bytes((int32_t) n_positions, config->head_dim) + BUFFER_ALIGNMENT - 1) /
		BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
	device->thread_scratch = arena_alloc_aligned(
		&device->arena, (size_t) pool_thread_count(device->pool) * device->thread_scratch_bytes,
		BUFFER_ALIGNMENT);
	device->places = arena_alloc_array(&device->arena, n_tokens, sizeof(*device->places));
	device->items = arena_alloc_array(&device->arena, n_tokens * (size_t) config->n_kv_heads,
									  sizeof(*device->items));
	return device->thread_scratch != NULL && device->places != NULL && device->items != NULL;
}

/* ---- the batch ---- */

static void
angles_fill(void *context, int32_t thread, int32_t first, int32_t n)
{
	CpuDevice *device = context;
	size_t n_pairs = (size_t) device->rope.n_pairs;

	(void) thread;
	for (int32_t t = first; t < first + n; t++)
		rope_angles(&device->rope, device->places[t].position,
					device->cosines + (size_t) t * n_pairs, device->sines + (size_t) t * n_pairs);
}

static void
cpu_begin(Device *base, const ForwardBatch *batch)
{
	CpuDevice *device = (CpuDevice *) base;

	device->batch = batch;
	for (int32_t s = 0; s < batch->n_sequences; s++)
	{
		const ForwardSequence *sequence = &batch->sequences[s];

		for (int32_t t = 0; t < sequence->n_tokens; t++)
		{
			TokenPlace *place = &device->places[sequence->first_token + t];

			place->position = sequence->n_past + t;
			place->page = sequence->block_table[place->position / KV_PAGE_TOKENS];
			place->slot_in_page = place->position % KV_PAGE_TOKENS;
		}
	}
	cpu_run(device, angles_fill, device, batch->n_tokens, 8);
	cpu_attention_plan(device);
}

static size_t
cpu_scratch_bytes(const Device *base)
{
	return ((const CpuDevice *) base)->arena.reserved_bytes;
}

static void
cpu_destroy(Device *base)
{
	CpuDevice *device = (CpuDevice *) base;

	arena_reset(&device->arena);
	free(device);
}

static const DeviceOps cpu_ops = {
	.name = "cpu",
	.begin = cpu_begin,
	.embed = cpu_embed,
	.qkv = cpu_qkv,
	.attend = cpu_attend,
	.merge = cpu_merge,
	.ffn = cpu_ffn,
	.head = cpu_head,
	.scratch_bytes = cpu_scratch_bytes,
	.destroy = cpu_destroy,
};

bool
cpu_device_create(const Model *model, const KvPages *kv, Pool *pool, const Kernels *kernels,
				  const DeviceLimits *limits, Device **out, InferError *err)
{
	const ModelConfig *config = &model->config;
	CpuDevice *device = calloc(1, sizeof(*device));
	double *frequency;

	if (device == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "not enough memory for a forward pass");
	device->device.ops = &cpu_ops;
	device->model = model;
	device->kv = kv;
	device->pool = pool;
	device->kernels = kernels;
	device->q_cols = config->n_heads * config->head_dim;
	device->kv_cols = config->n_kv_heads * config->head_dim;
	arena_init(&device->arena, 0);
	frequency = arena_alloc_array(&device->arena, (size_t) config->n_rot / 2, sizeof(*frequency));
	if (frequency != NULL)
		rope_init(&device->rope, config, model->weights.rope_freqs, frequency);
	if (frequency == NULL || !activations_alloc(device, limits) || !plans_alloc(device, limits))
	{
		cpu_destroy(&device->device);
		return fail(err, INFER_OUT_OF_MEMORY,
					"not enough memory for a forward pass\n"
					"It was to hold %" PRId32 " tokens and %" PRId32 " rows of logits.\n"
					"Lower infer.batch_tokens or infer.max_sequences.",
					limits->max_tokens, limits->max_outputs);
	}
	*out = &device->device;
	return true;
}
