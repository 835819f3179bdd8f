/*
 * ref.h: the scalar references, which are the specification of every operation (kernels.h has the
 * contracts). Variants that have nothing faster keep these.
 */
#ifndef INFER_KERNELS_REF_H
#define INFER_KERNELS_REF_H

#include "kernels/kernels.h"

extern void quantize_acts_ref(Acts *acts, int32_t first, int32_t n);
extern void matmul_ref(const PackedMatrix *m, const Acts *acts, int32_t first_group,
					   int32_t n_groups, float *out, int64_t out_stride);
extern void rms_norm_ref(const float *x, const float *weight, int32_t n, float eps, float *out);
extern void rope_ref(float *head, const float *cos, const float *sin, int32_t n_rot,
					 bool interleaved);
extern void swiglu_ref(const float *gate, const float *up, int32_t n, float *out);
extern void add_ref(float *x, const float *y, int32_t n);
extern void kv_write_ref(const KvLayer *kv, int32_t page, int32_t slot_in_page, const float *k,
						 const float *v);
extern void attention_ref(const AttentionTask *task, void *scratch);
extern int32_t argmax_ref(const float *x, int32_t n);
extern float exp_sum_ref(const float *x, int32_t n, float max, float *out);
extern float max_finite_ref(const float *x, int32_t n, bool *all_finite);

/* Overwrite what the instruction set makes faster; each in the file of its suffix. */
extern void kernels_fill_avx2(Kernels *kernels);
extern void kernels_fill_avx512(Kernels *kernels);
extern void kernels_fill_vnni(Kernels *kernels);
extern void kernels_fill_amx(Kernels *kernels);

/* 16 partial sums to one: halves are added (kernels.h). */
static inline float
partials_add(float partials[16])
{
	for (int n = 8; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			partials[i] += partials[i + n];
	return partials[0];
}

/* Rotates one pair: each product is rounded, then their sum (kernels/README.md). */
static inline void
pair_rotate(float *a, float *b, float cos, float sin)
{
	float x = *a;
	float y = *b;

	*a = x * cos - y * sin;
	*b = x * sin + y * cos;
}

/* Query rows that walk the pages together, at most: each has its scores in the scratch. */
#define ATTENTION_ROWS 8

/* The score cap, then the mask's place: both variants of attention call it between their passes. */
extern void scores_cap(float *scores, int32_t n, float softcap);

/*
 * Activations of a block become codes of 15 bits, the largest exactly QUANTIZE_REACH: 128 times a
 * high byte plus a low one of -64 .. 63, so that byte dots do all the work, twice. Eight bits cost
 * half and were not enough: on SmolLM2 they moved logits by 0.4, and with them greedy answers; 15
 * bits move them by 0.003. More would overflow the int32 sums of Q6_K, whose scales are integers.
 * Blocks smaller than any activation are zeros.
 */
#define QUANTIZE_REACH	  16256.0f /* 127 * 128 */
#define QUANTIZE_SMALLEST 1e-30f

#endif
