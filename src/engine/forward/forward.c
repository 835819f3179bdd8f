#include "engine/forward/forward.h"

#include "engine/forward/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct Forward
{
	/* Config */
	const Model *model;
	DeviceLimits limits;
	Device *device;

	/* Scratch */
	bool *row_failed; /* [max_outputs] */
};

bool
forward_create(const Model *model, const KvPages *kv, Pool *pool, const Kernels *kernels,
			   int32_t max_tokens, int32_t max_outputs, Forward **out, InferError *err)
{
	Forward *forward = calloc(1, sizeof(*forward));

	if (forward != NULL)
		forward->row_failed = calloc((size_t) max_outputs, sizeof(*forward->row_failed));
	if (forward == NULL || forward->row_failed == NULL)
	{
		forward_destroy(forward);
		return fail(err, INFER_OUT_OF_MEMORY, "not enough memory for a forward pass");
	}
	forward->model = model;
	forward->limits = (DeviceLimits){ .max_tokens = max_tokens, .max_outputs = max_outputs };
	if (!cpu_device_create(model, kv, pool, kernels, &forward->limits, &forward->device, err))
	{
		forward_destroy(forward);
		return false;
	}
	*out = forward;
	return true;
}

void
forward_destroy(Forward *forward)
{
	if (forward == NULL)
		return;
	if (forward->device != NULL)
		forward->device->ops->destroy(forward->device);
	free(forward->row_failed);
	free(forward);
}

size_t
forward_scratch_bytes(const Forward *forward)
{
	return forward->device->ops->scratch_bytes(forward->device);
}

/* The scheduler's promises; a broken one must not become a wild read. */
static bool
batch_check(const Forward *forward, const ForwardBatch *batch, InferError *err)
{
	const ModelConfig *config = &forward->model->config;

	if (batch->n_tokens < 1 || batch->n_tokens > forward->limits.max_tokens ||
		batch->n_outputs > forward->limits.max_outputs)
		return fail(err, INFER_INTERNAL,
					"a forward pass got a batch of the wrong size\n"
					"It has %" PRId32 " tokens and %" PRId32 " outputs.",
					batch->n_tokens, batch->n_outputs);
	for (int32_t i = 0; i < batch->n_tokens; i++)
		if (batch->token_ids[i] < 0 || batch->token_ids[i] >= config->n_vocab)
			return fail(err, INFER_BAD_INPUT,
						"token id %" PRId32 " is not in the vocabulary\n"
						"The model has %" PRId32 " tokens.",
						batch->token_ids[i], config->n_vocab);
	for (int32_t i = 0; i < batch->n_sequences; i++)
		if (batch->sequences[i].n_past > config->n_context - batch->sequences[i].n_tokens)
			return fail(err, INFER_INTERNAL,
						"a forward pass got a sequence longer than the context\n"
						"It would reach past position %" PRId32 ".",
						config->n_context);
	return true;
}

bool
forward_run(Forward *forward, const ForwardBatch *batch, const float **logits, bool *failed_rows,
			InferError *err)
{
	Device *device = forward->device;
	const DeviceOps *ops = device->ops;
	bool *row_failed = failed_rows != NULL ? failed_rows : forward->row_failed;

	if (!batch_check(forward, batch, err))
		return false;
	ops->begin(device, batch);
	ops->embed(device);
	for (int32_t layer = 0; layer < forward->model->config.n_layers; layer++)
	{
		ops->qkv(device, layer);
		ops->attend(device, layer);
		ops->merge(device, layer);
		ops->ffn(device, layer);
	}
	*logits = ops->head(device, row_failed);
	for (int32_t i = 0; i < batch->n_outputs; i++)
		if (row_failed[i])
			return fail(err, INFER_BAD_MODEL,
						"the model computed something that is not a number\n"
						"Logits of token %" PRId32 " of the batch are not finite.\n"
						"Its file is damaged, or its weights overflow: try another file.",
						batch->output_tokens[i]);
	return true;
}
