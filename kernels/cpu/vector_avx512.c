/* vector_avx512.c: vector_template.h and attention_template.h at the width of AVX512. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/vector_template.h"

#include "kernels/cpu/attention_template.h"
#include "kernels/cpu/variants.h"

void
quantize_acts_avx512(Acts *acts, int32_t first, int32_t n)
{
	quantize_acts_run(acts, first, n);
}

void
rms_norm_avx512(const float *x, const float *weight, int32_t n, float eps, float *out)
{
	rms_norm_run(x, weight, n, eps, out);
}

void
swiglu_avx512(const float *gate, const float *up, int32_t n, float *out)
{
	swiglu_run(gate, up, n, out);
}

void
add_avx512(float *x, const float *y, int32_t n)
{
	add_run(x, y, n);
}

void
attention_avx512(const AttentionTask *task, void *scratch)
{
	attention_run(task, scratch);
}

int32_t
argmax_avx512(const float *x, int32_t n)
{
	return argmax_run(x, n);
}

float
exp_sum_avx512(const float *x, int32_t n, float max, float *out)
{
	return exp_sum_run(x, n, max, out);
}

float
max_finite_avx512(const float *x, int32_t n, bool *all_finite)
{
	return max_finite_run(x, n, all_finite);
}

void
rope_avx512(float *head, const float *cos, const float *sin, int32_t n_rot, bool interleaved)
{
	rope_run(head, cos, sin, n_rot, interleaved);
}

void
kv_write_avx512(const KvLayer *kv, int32_t page, int32_t slot_in_page, const float *k,
				const float *v)
{
	kv_write_run(kv, page, slot_in_page, k, v);
}

void
kernels_fill_avx512(Kernels *kernels)
{
	kernels->quantize_acts = quantize_acts_avx512;
	kernels->matmul = matmul_avx512;
	kernels->rms_norm = rms_norm_avx512;
	kernels->swiglu = swiglu_avx512;
	kernels->add = add_avx512;
	kernels->attention = attention_avx512;
	kernels->argmax = argmax_avx512;
	kernels->exp_sum = exp_sum_avx512;
	kernels->max_finite = max_finite_avx512;
	kernels->rope = rope_avx512;
	kernels->kv_write = kv_write_avx512;
}
