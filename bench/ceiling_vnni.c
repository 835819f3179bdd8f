/* ceiling_vnni.c: ceiling_template.h at the width of the instruction set. */
#define SIMD_VNNI
#include "kernels/cpu/simd_avx512.h"

#include "bench/ceiling_template.h"

const Ceiling ceiling_vnni = { LANES, read_run, fma_run, dot_run };
