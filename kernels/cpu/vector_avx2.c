/* vector_avx2.c: vector_template.h and attention_template.h at the width of AVX2. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/vector_template.h"

#include "kernels/cpu/attention_template.h"
#include "kernels/cpu/variants.h"

void
quantize_acts_avx2(Acts *acts, int32_t first, int32_t n)
{
	quantize_acts_run(acts, first, n);
}

void
rms_norm_avx2(const float *x, const float *weight, int32_t n, float eps, float *out)
{
	rms_norm_run(x, weight, n, eps, out);
}

void
swiglu_avx2(const float *gate, const float *up, int32_t n, float *out)
{
	swiglu_run(gate, up, n, out);
}

void
add_avx2(float *x, const float *y, int32_t n)
{
	add_run(x, y, n);
}

void
attention_avx2(const AttentionTask *task, void *scratch)
{
	attention_run(task, scratch);
}

int32_t
argmax_avx2(const float *x, int32_t n)
{
	return argmax_run(x, n);
}

float
exp_sum_avx2(const float *x, int32_t n, float max, float *out)
{
	return exp_sum_run(x, n, max, out);
}

float
max_finite_avx2(const float *x, int32_t n, bool *all_finite)
{
	return max_finite_run(x, n, all_finite);
}

void
rope_avx2(float *head, const float *cos, const float *sin, int32_t n_rot, bool interleaved)
{
	rope_run(head, cos, sin, n_rot, interleaved);
}

void
kv_write_avx2(const KvLayer *kv, int32_t page, int32_t slot_in_page, const float *k, const float *v)
{
	kv_write_run(kv, page, slot_in_page, k, v);
}

void
kernels_fill_avx2(Kernels *kernels)
{
	kernels->quantize_acts = quantize_acts_avx2;
	kernels->matmul = matmul_avx2;
	kernels->rms_norm = rms_norm_avx2;
	kernels->swiglu = swiglu_avx2;
	kernels->add = add_avx2;
	kernels->attention = attention_avx2;
	kernels->argmax = argmax_avx2;
	kernels->exp_sum = exp_sum_avx2;
	kernels->max_finite = max_finite_avx2;
	kernels->rope = rope_avx2;
	kernels->kv_write = kv_write_avx2;
}
