/* matmul_avx2.c: matmul_template.h at the width of AVX2. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/matmul_template.h"
#include "kernels/cpu/variants.h"

void
matmul_avx2(const PackedMatrix *m, const Acts *acts, int32_t first_group, int32_t n_groups,
			float *out, int64_t out_stride)
{
	matmul_run(m, acts, 0, first_group, n_groups, out, out_stride);
}
