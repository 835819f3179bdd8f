/*
 * ceiling_template.h: the loops of ceiling.h at the width of the simd header in front of it.
 */
#include "bench/ceiling.h"

#define PREFETCH_FLOATS 2048 /* the core's own prefetcher leaves half of the bandwidth */

/* The compiler has to believe that the vector is another one each time. */
#define MAKE_OPAQUE(v) __asm__ volatile("" : "+v"(v))

static float
lanes_sum(const vf *acc, int n)
{
	float lanes[LANES];
	float sum = 0.0f;

	for (int i = 0; i < n; i++)
	{
		vf_store(lanes, acc[i]);
		for (int l = 0; l < LANES; l++)
			sum += lanes[l];
	}
	return sum;
}

static float
read_run(const float *from, size_t n_floats, int64_t n_times)
{
	vf acc[8];

#pragma GCC unroll 8
	for (int i = 0; i < 8; i++)
		acc[i] = vf_zero();
	for (int64_t n = 0; n < n_times; n++)
		for (size_t at = 0; at + 8 * LANES <= n_floats; at += 8 * LANES)
		{
#pragma GCC unroll 8
			for (int i = 0; i < 8; i++)
			{
				__builtin_prefetch(from + at + PREFETCH_FLOATS + (size_t) i * LANES);
				acc[i] = vf_add(acc[i], vf_load(from + at + (size_t) i * LANES));
			}
		}
	return lanes_sum(acc, 8);
}

static float
fma_run(int64_t n)
{
	vf acc[CEILING_CHAINS];
	vf a = vf_set1(0.5f);

#pragma GCC unroll 12
	for (int i = 0; i < CEILING_CHAINS; i++)
		acc[i] = vf_set1((float) i);
	for (int64_t step = 0; step < n; step++)
	{
#pragma GCC unroll 12
		for (int i = 0; i < CEILING_CHAINS; i++)
			acc[i] = vf_fma(acc[i], a, a);
	}
	return lanes_sum(acc, CEILING_CHAINS);
}

static int32_t
dot_run(int64_t n)
{
	vi acc[CEILING_CHAINS];
	vi u = vi_set1(0x01020304);
	vi s = vi_set1(0x01000100);
	int32_t lanes[LANES];
	int32_t sum = 0;

#pragma GCC unroll 12
	for (int i = 0; i < CEILING_CHAINS; i++)
		acc[i] = vi_zero();
	for (int64_t step = 0; step < n; step++)
	{
#pragma GCC unroll 12
		for (int i = 0; i < CEILING_CHAINS; i++)
		{
			MAKE_OPAQUE(u);
#ifdef SIMD_VNNI
			acc[i] = vi_dot(acc[i], u, s);
#else
			acc[i] = vi_add(acc[i], vi_pairs_join(vi_pairs(u, s), 1));
#endif
		}
	}
	for (int i = 0; i < CEILING_CHAINS; i++)
	{
		memcpy(lanes, &acc[i], sizeof(lanes));
		sum ^= lanes[i % LANES];
	}
	return sum;
}
