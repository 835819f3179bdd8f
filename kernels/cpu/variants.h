/*
 * variants.h: the operations of each instruction set, as the kernels_fill functions know them.
 * Contracts are those of kernels.h.
 */
#ifndef INFER_KERNELS_VARIANTS_H
#define INFER_KERNELS_VARIANTS_H

#include "kernels/kernels.h"

#define VARIANT_MATMUL(isa)                                                                        \
	extern void matmul_##isa(const PackedMatrix *m, const Acts *acts, int32_t first_group,         \
							 int32_t n_groups, float *out, int64_t out_stride)

#define VARIANT_VECTOR(isa)                                                                        \
	extern void quantize_acts_##isa(Acts *acts, int32_t first, int32_t n);                         \
	extern void rms_norm_##isa(const float *x, const float *weight, int32_t n, float eps,          \
							   float *out);                                                        \
	extern void swiglu_##isa(const float *gate, const float *up, int32_t n, float *out);           \
	extern void add_##isa(float *x, const float *y, int32_t n);                                    \
	extern void attention_##isa(const AttentionTask *task, void *scratch);                         \
	extern int32_t argmax_##isa(const float *x, int32_t n);                                        \
	extern float exp_sum_##isa(const float *x, int32_t n, float max, float *out);                  \
	extern float max_finite_##isa(const float *x, int32_t n, bool *all_finite);                    \
	extern void rope_##isa(float *head, const float *cos, const float *sin, int32_t n_rot,         \
						   bool interleaved);                                                      \
	extern void kv_write_##isa(const KvLayer *kv, int32_t page, int32_t slot_in_page,              \
							   const float *k, const float *v)

VARIANT_MATMUL(avx2);
VARIANT_MATMUL(avx512);
VARIANT_MATMUL(vnni);
VARIANT_MATMUL(amx);

/* Tokens from first_token on: what fills no tile of AMX. */
extern void matmul_vnni_rest(const PackedMatrix *m, const Acts *acts, int32_t first_token,
							 int32_t first_group, int32_t n_groups, float *out, int64_t out_stride);

VARIANT_VECTOR(avx2);
VARIANT_VECTOR(avx512);

#endif
