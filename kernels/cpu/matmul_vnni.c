/* matmul_vnni.c: matmul_template.h at the width of AVX-512 with VNNI byte dots. */
#define SIMD_VNNI
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/matmul_template.h"
#include "kernels/cpu/variants.h"

void
matmul_vnni_rest(const PackedMatrix *m, const Acts *acts, int32_t first_token, int32_t first_group,
				 int32_t n_groups, float *out, int64_t out_stride)
{
	matmul_run(m, acts, first_token, first_group, n_groups, out, out_stride);
}

void
matmul_vnni(const PackedMatrix *m, const Acts *acts, int32_t first_group, int32_t n_groups,
			float *out, int64_t out_stride)
{
	matmul_vnni_rest(m, acts, 0, first_group, n_groups, out, out_stride);
}

void
kernels_fill_vnni(Kernels *kernels)
{
	kernels->matmul = matmul_vnni;
}
