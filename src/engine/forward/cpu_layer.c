/*
 * cpu_layer.c: everything that multiplies weights. Buffers and the order of jobs are drawn in
 * cpu_device.h.
 */
#include "engine/forward/cpu_device.h"

#include <string.h>

#define FEW_TOKENS		4 /* jobs over so many tokens are done sooner than a thread wakes */
#define CHUNKS_A_THREAD 4

/* ---- inputs of matrices: norm and quantization, by tile of tokens ---- */

typedef struct InputJob
{
	CpuDevice *device;
	const float *from; /* [n_tokens][n_cols] */
	const float *norm; /* NULL: as it is */
	float *normed;	   /* where the normed rows go */
	bool quantize;
	Acts acts;
} InputJob;

static void
input_tiles(void *context, int32_t thread, int32_t first, int32_t n)
{
	InputJob *job = context;
	const Kernels *kernels = job->device->kernels;
	size_t n_cols = (size_t) job->acts.n_cols;

	(void) thread;
	first *= ACT_TILE_TOKENS;
	n *= ACT_TILE_TOKENS;
	if (n > job->acts.n_tokens - first)
		n = job->acts.n_tokens - first;
	for (int32_t t = first; t < first + n && job->norm != NULL; t++)
		kernels->rms_norm(job->from + (size_t) t * n_cols, job->norm, job->acts.n_cols,
						  job->device->model->config.rms_eps, job->normed + (size_t) t * n_cols);
	if (job->quantize)
		kernels->quantize_acts(&job->acts, first, n);
}

/*
 * Makes ready what matrices a, b and c (may be NULL) read: `from`, normed unless norm is NULL.
 */
static void
input_prepare(InputJob *job, int32_t n_tokens, int32_t n_cols, const PackedMatrix *a,
			  const PackedMatrix *b, const PackedMatrix *c)
{
	CpuDevice *device = job->device;

	job->quantize = packed_act_kind(a->type) == ACT_CODES ||
					(b != NULL && packed_act_kind(b->type) == ACT_CODES) ||
					(c != NULL && packed_act_kind(c->type) == ACT_CODES);
	if (job->quantize)
		acts_place(&job->acts, n_tokens, n_cols, job->norm != NULL ? job->normed : job->from,
				   device->acts_memory);
	else
		job->acts = (Acts){ .n_tokens = n_tokens,
							.n_cols = n_cols,
							.f32 = job->norm != NULL ? job->normed : job->from };
	cpu_run(device, input_tiles, job, (n_tokens + ACT_TILE_TOKENS - 1) / ACT_TILE_TOKENS, 1);
}

/* ---- products, by row group ---- */

static int32_t
group_count(const PackedMatrix *matrix)
{
	return (matrix->n_rows + KERNEL_ROW_GROUP - 1) / KERNEL_ROW_GROUP;
}

/* Rows of groups [first, first + n) that the matrix really has. */
static int32_t
rows_of_groups(const PackedMatrix *matrix, int32_t first, int32_t n)
{
	int32_t left = matrix->n_rows - first * KERNEL_ROW_GROUP;

	return left < n * KERNEL_ROW_GROUP ? left : n * KERNEL_ROW_GROUP;
}

static void
groups_run(CpuDevice *device, PoolJob job, void *context, int32_t n_groups)
{
	int32_t n_chunks = pool_thread_count(device->pool) * CHUNKS_A_THREAD;
	int32_t chunk = n_groups / n_chunks;

	pool_run(device->pool, job, context, n_groups, chunk > 0 ? chunk : 1);
}

typedef struct Product
{
	const PackedMatrix *matrix;
	const float *bias;
	float *out; /* [n_tokens][n_rows] */
} Product;

/* Several matrices over one input: their groups are numbered through. */
typedef struct ProductsJob
{
	const Kernels *kernels;
	const Acts *acts;
	const Product *products;
	int32_t n_products;
} ProductsJob;

static void
product_groups(const ProductsJob *job, const Product *product, int32_t first, int32_t n)
{
	const PackedMatrix *matrix = product->matrix;
	int32_t row = first * KERNEL_ROW_GROUP;

	job->kernels->matmul(matrix, job->acts, first, n, product->out, matrix->n_rows);
	if (product->bias == NULL)
		return;
	for (int32_t t = 0; t < job->acts->n_tokens; t++)
		job->kernels->add(product->out + (size_t) t * (size_t) matrix->n_rows + row,
						  product->bias + row, rows_of_groups(matrix, first, n));
}

static void
products_groups(void *context, int32_t thread, int32_t first, int32_t n)
{
	const ProductsJob *job = context;

	(void) thread;
	for (int32_t i = 0; i < job->n_products && n > 0; i++)
	{
		int32_t n_groups = group_count(job->products[i].matrix);
		int32_t here = n_groups - first;

		if (here <= 0)
		{
			first -= n_groups;
			continue;
		}
		if (here > n)
			here = n;
		product_groups(job, &job->products[i], first, here);
		first = 0;
		n -= here;
	}
}

static void
products_run(CpuDevice *device, const Acts *acts, const Product *products, int32_t n_products)
{
	ProductsJob job = { device->kernels, acts, products, n_products };
	int32_t n_groups = 0;

	for (int32_t i = 0; i < n_products; i++)
		n_groups += group_count(products[i].matrix);
	groups_run(device, products_groups, &job, n_groups);
}

typedef struct ResidualJob
{
	CpuDevice *device;
	const Acts *acts;
	const PackedMatrix *matrix;
} ResidualJob;

/* x += matrix * acts */
static void
residual_groups(void *context, int32_t thread, int32_t first, int32_t n)
{
	const ResidualJob *job = context;
	CpuDevice *device = job->device;
	int32_t n_rows = job->matrix->n_rows;
	int32_t row = first * KERNEL_ROW_GROUP;

	(void) thread;
	device->kernels->matmul(job->matrix, job->acts, first, n, device->added, n_rows);
	for (int32_t t = 0; t < job->acts->n_tokens; t++)
	{
		size_t at = (size_t) t * (size_t) n_rows + (size_t) row;

		device->kernels->add(device->x + at, device->added + at,
							 rows_of_groups(job->matrix, first, n));
	}
}

static void
residual_run(CpuDevice *device, const Acts *acts, const PackedMatrix *matrix)
{
	ResidualJob job = { device, acts, matrix };

	groups_run(device, residual_groups, &job, group_count(matrix));
}

/* ---- the operations ---- */

static void
embed_rows(void *context, int32_t thread, int32_t first, int32_t n)
{
	CpuDevice *device = context;

	(void) thread;
	for (int32_t t = first; t < first + n; t++)
		packed_row(&device->model->weights.token_embd, device->batch->token_ids[t],
				   device->x + (size_t) t * (size_t) device->model->config.n_embd);
}

void
cpu_embed(Device *base)
{
	CpuDevice *device = (CpuDevice *) base;

	cpu_run(device, embed_rows, device, device->batch->n_tokens, FEW_TOKENS);
}

typedef struct HeadsJob
{
	CpuDevice *device;
	const LayerWeights *weights;
	KvLayer kv;
} HeadsJob;

/* Norm (where the architecture has it) and rotation of the heads of one token. */
static void
heads_rotate(const HeadsJob *job, float *heads, int32_t n_heads, const float *norm, int32_t token)
{
	CpuDevice *device = job->device;
	const ModelConfig *config = &device->model->config;
	size_t at = (size_t) token * (size_t) device->rope.n_pairs;

	for (int32_t h = 0; h < n_heads; h++)
	{
		float *head = heads + (size_t) h * (size_t) config->head_dim;

		if (norm != NULL)
			device->kernels->rms_norm(head, norm, config->head_dim, config->rms_eps, head);
		device->kernels->rope(head, device->cosines + at, device->sines + at, config->n_rot,
							  config->arch->rope_interleaved);
	}
}

static void
heads_finish(void *context, int32_t thread, int32_t first, int32_t n)
{
	const HeadsJob *job = context;
	CpuDevice *device = job->device;
	const ModelConfig *config = &device->model->config;

	(void) thread;
	for (int32_t t = first; t < first + n; t++)
	{
		float *k = device->k + (size_t) t * (size_t) device->kv_cols;
		const TokenPlace *place = &device->places[t];

		heads_rotate(job, device->q + (size_t) t * (size_t) device->q_cols, config->n_heads,
					 job->weights->q_norm, t);
		heads_rotate(job, k, config->n_kv_heads, job->weights->k_norm, t);
		device->kernels->kv_write(&job->kv, place->page, place->slot_in_page, k,
								  device->v + (size_t) t * (size_t) device->kv_cols);
	}
}

void
cpu_qkv(Device *base, int32_t layer)
{
	CpuDevice *device = (CpuDevice *) base;
	const LayerWeights *weights = &device->model->weights.layers[layer];
	int32_t n_tokens = device->batch->n_tokens;
	InputJob input = {
		.device = device, .from = device->x, .norm = weights->attn_norm, .normed = device->normed
	};
	Product products[] = {
		{ &weights->q, weights->q_bias, device->q },
		{ &weights->k, weights->k_bias, device->k },
		{ &weights->v, weights->v_bias, device->v },
	};
	HeadsJob heads = { .device = device, .weights = weights };

	input_prepare(&input, n_tokens, device->model->config.n_embd, &weights->q, &weights->k,
				  &weights->v);
	products_run(device, &input.acts, products, 3);
	kv_layer_view(device->kv, layer, &heads.kv);
	cpu_run(device, heads_finish, &heads, n_tokens, FEW_TOKENS);
}

void
cpu_merge(Device *base, int32_t layer)
{
	CpuDevice *device = (CpuDevice *) base;
	const PackedMatrix *matrix = &device->model->weights.layers[layer].o;
	InputJob input = { .device = device, .from = device->attended };

	input_prepare(&input, device->batch->n_tokens, device->q_cols, matrix, NULL, NULL);
	residual_run(device, &input.acts, matrix);
}

typedef struct GateJob
{
	CpuDevice *device;
	const Acts *acts;
	const LayerWeights *weights;
} GateJob;

/* gate = silu(gate) * up, a few groups at a time while both are in the cache. */
static void
gate_groups(void *context, int32_t thread, int32_t first, int32_t n)
{
	const GateJob *job = context;
	CpuDevice *device = job->device;
	int32_t n_ff = device->model->config.n_ff;
	int32_t row = first * KERNEL_ROW_GROUP;
	int32_t n_rows = rows_of_groups(&job->weights->gate, first, n);

	(void) thread;
	device->kernels->matmul(&job->weights->gate, job->acts, first, n, device->gate, n_ff);
	device->kernels->matmul(&job->weights->up, job->acts, first, n, device->up, n_ff);
	for (int32_t t = 0; t < job->acts->n_tokens; t++)
	{
		size_t at = (size_t) t * (size_t) n_ff + (size_t) row;

		device->kernels->swiglu(device->gate + at, device->up + at, n_rows, device->gate + at);
	}
}

void
cpu_ffn(Device *base, int32_t layer)
{
	CpuDevice *device = (CpuDevice *) base;
	const LayerWeights *weights = &device->model->weights.layers[layer];
	int32_t n_tokens = device->batch->n_tokens;
	InputJob input = {
		.device = device, .from = device->x, .norm = weights->ffn_norm, .normed = device->normed
	};
	InputJob hidden = { .device = device, .from = device->gate };
	GateJob gate = { .device = device, .acts = &input.acts, .weights = weights };

	input_prepare(&input, n_tokens, device->model->config.n_embd, &weights->gate, &weights->up,
				  NULL);
	groups_run(device, gate_groups, &gate, group_count(&weights->gate));
	input_prepare(&hidden, n_tokens, device->model->config.n_ff, &weights->down, NULL, NULL);
	residual_run(device, &hidden.acts, &weights->down);
}

static void
rows_check(void *context, int32_t thread, int32_t first, int32_t n)
{
	CpuDevice *device = context;
	int32_t n_vocab = device->model->config.n_vocab;

	(void) thread;
	for (int32_t row = first; row < first + n; row++)
	{
		bool finite = true;

		device->kernels->max_finite(device->logits + (size_t) row * (size_t) n_vocab, n_vocab,
									&finite);
		device->row_failed[row] = !finite;
	}
}

const float *
cpu_head(Device *base, bool *row_failed)
{
	CpuDevice *device = (CpuDevice *) base;
	const ForwardBatch *batch = device->batch;
	const ModelWeights *weights = &device->model->weights;
	size_t n_embd = (size_t) device->model->config.n_embd;
	InputJob input = { .device = device,
					   .from = device->out_normed,
					   .norm = weights->output_norm,
					   .normed = device->out_normed };
	Product product = { &weights->output, weights->output_bias, device->logits };

	if (batch->n_outputs == 0)
		return device->logits;
	for (int32_t i = 0; i < batch->n_outputs; i++)
		memcpy(device->out_normed + (size_t) i * n_embd,
			   device->x + (size_t) batch->output_tokens[i] * n_embd, n_embd * sizeof(float));
	input_prepare(&input, batch->n_outputs, (int32_t) n_embd, &weights->output, NULL, NULL);
	products_run(device, &input.acts, &product, 1);
	device->row_failed = row_failed;
	cpu_run(device, rows_check, device, batch->n_outputs, 1);
	return device->logits;
}
