/* ceiling_avx2.c: ceiling_template.h at the width of the instruction set. */
#include "kernels/cpu/simd_avx2.h"

#include "bench/ceiling_template.h"

const Ceiling ceiling_avx2 = { LANES, read_run, fma_run, dot_run };
