/*
 * ceiling.h: what one core of this machine can do at most with an instruction set, measured: the
 * figures that bench/kernels puts its kernels beside.
 */
#ifndef INFER_BENCH_CEILING_H
#define INFER_BENCH_CEILING_H

#include <stddef.h>
#include <stdint.h>

/* Each runs `n` steps; the result only keeps the compiler from leaving the work out. */
typedef struct Ceiling
{
	int lanes;
	float (*read)(const float *from, size_t n_floats, int64_t n_times); /* loads and adds it */
	float (*fma)(int64_t n);   /* n * CEILING_CHAINS * lanes MAC, f32 */
	int32_t (*dot)(int64_t n); /* n * CEILING_CHAINS * 4 lanes MAC, int8 */
} Ceiling;

#define CEILING_CHAINS 12 /* independent accumulators: more than latency times ports */

extern const Ceiling ceiling_avx2;
extern const Ceiling ceiling_avx512;
extern const Ceiling ceiling_vnni;

#endif
