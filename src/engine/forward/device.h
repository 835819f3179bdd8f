/*
 * device.h: what a forward pass asks of the hardware: one table of operations, each over a whole
 * batch. forward.c calls them in order and knows nothing of threads, buffers or layouts; a device
 * owns its scratch and, if it has memory of its own, its copy of the weights.
 *
 *     begin   the batch: positions, rotations, what attention has to do
 *     embed   x = embedding of each token                                      x [n_tokens][n_embd]
 *     qkv     norm, q k v (bias, norm of heads), rotation, K and V into their pages
 *     attend  every query over the pages of its sequence
 *     merge   x += o * attention
 *     ffn     norm, x += down * (silu(gate) * up)
 *     head    norm and logits of the tokens that asked for them      logits [n_outputs][n_vocab]
 *
 * Between two operations the order is fixed; inside one a device may do as it likes, as long as
 * each output element is summed in the order of kernels.h (the CPU) or in one order of its own that
 * does not depend on the batch (others).
 *
 * One thread at a time. Nothing allocates after a device was made.
 */
#ifndef INFER_ENGINE_DEVICE_H
#define INFER_ENGINE_DEVICE_H

#include "engine/forward/forward.h"

typedef struct Device Device;

typedef struct DeviceOps
{
	const char *name; /* "cpu" */
	void (*begin)(Device *device, const ForwardBatch *batch);
	void (*embed)(Device *device);
	void (*qkv)(Device *device, int32_t layer);
	void (*attend)(Device *device, int32_t layer);
	void (*merge)(Device *device, int32_t layer);
	void (*ffn)(Device *device, int32_t layer);

	/* Logits in memory of the host until the next begin; row_failed[i]: not all are finite. */
	const float *(*head)(Device *device, bool *row_failed);
	size_t (*scratch_bytes)(const Device *device);
	void (*destroy)(Device *device);
} DeviceOps;

struct Device
{
	const DeviceOps *ops;
};

/* What every device is made for. */
typedef struct DeviceLimits
{
	int32_t max_tokens;
	int32_t max_outputs;
} DeviceLimits;

extern bool cpu_device_create(const Model *model, const KvPages *kv, Pool *pool,
							  const Kernels *kernels, const DeviceLimits *limits, Device **out,
							  InferError *err);

#endif
