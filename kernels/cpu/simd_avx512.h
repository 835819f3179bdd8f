/*
 * simd_avx512.h: the few vector operations that the templates are written in, 16 lanes wide. With
 * SIMD_VNNI the byte dot is one instruction. simd_avx2.h gives the same names 8 lanes wide.
 *
 *   vf  floats, one per lane        vi  int32 per lane, or 4 bytes per lane
 */
#ifndef INFER_KERNELS_SIMD_H
#define INFER_KERNELS_SIMD_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES		16
#define SIMD_INLINE static inline __attribute__((always_inline))

typedef __m512 vf;
typedef __m512i vi;

SIMD_INLINE vf
vf_zero(void)
{
	return _mm512_setzero_ps();
}

SIMD_INLINE vf
vf_set1(float x)
{
	return _mm512_set1_ps(x);
}

SIMD_INLINE vf
vf_load(const float *p)
{
	return _mm512_loadu_ps(p);
}

SIMD_INLINE void
vf_store(float *p, vf x)
{
	_mm512_storeu_ps(p, x);
}

SIMD_INLINE vf
vf_load_half(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p));
}

SIMD_INLINE vf
vf_load_bfloat(const uint16_t *p)
{
	return _mm512_castsi512_ps(
		_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) p)), 16));
}

SIMD_INLINE vf
vf_add(vf a, vf b)
{
	return _mm512_add_ps(a, b);
}

SIMD_INLINE vf
vf_sub(vf a, vf b)
{
	return _mm512_sub_ps(a, b);
}

SIMD_INLINE vf
vf_mul(vf a, vf b)
{
	return _mm512_mul_ps(a, b);
}

SIMD_INLINE vf
vf_div(vf a, vf b)
{
	return _mm512_div_ps(a, b);
}

SIMD_INLINE vf
vf_fma(vf a, vf b, vf c)
{
	return _mm512_fmadd_ps(a, b, c);
}

/* a < b ? a : b and a > b ? a : b, so a NaN in a gives b */
SIMD_INLINE vf
vf_min(vf a, vf b)
{
	return _mm512_min_ps(a, b);
}

SIMD_INLINE vf
vf_max(vf a, vf b)
{
	return _mm512_max_ps(a, b);
}

SIMD_INLINE vf
vf_abs(vf a)
{
	return _mm512_abs_ps(a);
}

SIMD_INLINE vf
vf_neg(vf a)
{
	return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}

/* a NaN where x is one, else y */
SIMD_INLINE vf
vf_nan_from(vf x, vf y)
{
	return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

SIMD_INLINE vf
vf_round(vf a)
{
	return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x < limit ? 0 : y; a NaN in x keeps y */
SIMD_INLINE vf
vf_zero_below(vf x, float limit, vf y)
{
	return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, vf_set1(limit), _CMP_LT_OQ), vf_zero());
}

/* 2^n for whole n in -126 .. 127 */
SIMD_INLINE vf
vf_power2(vf n)
{
	return _mm512_castsi512_ps(
		_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}

/* Sums of 16 partials, halves added: 8 + 8, 4 + 4, 2 + 2, 1 + 1 (kernels.h). */
SIMD_INLINE float
vf_sum16(const vf *parts)
{
	__m256 eight = _mm256_add_ps(_mm512_castps512_ps256(*parts), _mm512_extractf32x8_ps(*parts, 1));
	__m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
	__m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Largest of the lanes, none of which is NaN; of zeros, either. */
SIMD_INLINE float
vf_largest(vf a)
{
	__m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
	__m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
	__m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

SIMD_INLINE int
vf_any_equal(vf a, vf b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) != 0;
}

/* p[0] p[0] p[1] p[1] ... */
SIMD_INLINE vf
vf_load_twice(const float *p)
{
	const __m512i lanes = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);

	return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}

/* a[1] a[0] a[3] a[2] ... */
SIMD_INLINE vf
vf_swap_pairs(vf a)
{
	return _mm512_permute_ps(a, 0xb1);
}

/* -a[0] a[1] -a[2] a[3] ... */
SIMD_INLINE vf
vf_negate_even(vf a)
{
	return _mm512_xor_ps(a, _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000)));
}

SIMD_INLINE void
vf_store_half(uint16_t *p, vf a)
{
	_mm256_storeu_si256((__m256i *) p,
						_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

SIMD_INLINE vf
vf_from_int(vi a)
{
	return _mm512_cvtepi32_ps(a);
}

SIMD_INLINE vi
vi_from_float(vf a)
{
	return _mm512_cvtps_epi32(a);
}

SIMD_INLINE vi
vi_zero(void)
{
	return _mm512_setzero_si512();
}

SIMD_INLINE vi
vi_set1(int32_t x)
{
	return _mm512_set1_epi32(x);
}

SIMD_INLINE vi
vi_load(const void *p)
{
	return _mm512_loadu_si512(p);
}

SIMD_INLINE vi
vi_load_u8(const uint8_t *p)
{
	return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *) p));
}

SIMD_INLINE vi
vi_load_i8(const int8_t *p)
{
	return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) p));
}

/* Narrows int32 lanes that fit to int8 and stores them. */
SIMD_INLINE void
vi_store_i8(int8_t *p, vi a)
{
	_mm_storeu_si128((__m128i *) p, _mm512_cvtepi32_epi8(a));
}

SIMD_INLINE vi
vi_add(vi a, vi b)
{
	return _mm512_add_epi32(a, b);
}

/* times a power of two that is a constant */
#define vi_mul_power2(a, power) _mm512_slli_epi32((a), __builtin_ctz(power))

/* times 128, and divided by 128 downwards */
SIMD_INLINE vi
vi_up7(vi a)
{
	return _mm512_slli_epi32(a, 7);
}

SIMD_INLINE vi
vi_down7(vi a)
{
	return _mm512_srai_epi32(a, 7);
}

SIMD_INLINE vi
vi_sub(vi a, vi b)
{
	return _mm512_sub_epi32(a, b);
}

SIMD_INLINE vi
vi_mul(vi a, vi b)
{
	return _mm512_mullo_epi32(a, b);
}

/* (bytes >> shift) & mask, then << up, per byte; mask keeps what crosses bytes away */
#define vi_bits(a, shift, mask, up)                                                                \
	_mm512_slli_epi16(_mm512_and_si512(_mm512_srli_epi16((a), (shift)), _mm512_set1_epi8(mask)),   \
					  (up))

SIMD_INLINE vi
vi_or(vi a, vi b)
{
	return _mm512_or_si512(a, b);
}

SIMD_INLINE vi
vi_broadcast4(const int8_t *p)
{
	int32_t bytes;

	memcpy(&bytes, p, sizeof(bytes));
	return _mm512_set1_epi32(bytes);
}

/* u[i] * s[i] of unsigned and signed bytes, neighbours added to int16: u < 128, or it saturates. */
SIMD_INLINE vi
vi_pairs(vi u, vi s)
{
	return _mm512_maddubs_epi16(u, s);
}

SIMD_INLINE vi
vi_add16(vi a, vi b)
{
	return _mm512_add_epi16(a, b);
}

/* Neighbouring int16 added to int32, times a factor. */
SIMD_INLINE vi
vi_pairs_join(vi pairs, int factor)
{
	return _mm512_madd_epi16(pairs, _mm512_set1_epi16((short) factor));
}

#ifdef SIMD_VNNI
/* acc + sum of u[i] * s[i] over the 4 bytes of each lane, exact */
SIMD_INLINE vi
vi_dot(vi acc, vi u, vi s)
{
	return _mm512_dpbusd_epi32(acc, u, s);
}
#endif

SIMD_INLINE void
vi_store(void *p, vi a)
{
	_mm512_storeu_si512(p, a);
}

/* x > limit ? y : 0 */
SIMD_INLINE vf
vf_zero_unless_above(vf x, float limit, vf y)
{
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, vf_set1(limit), _CMP_GT_OQ), y);
}

/*
 * Sixteen vectors to one, whose lane i is what `join` makes of the lanes of parts[i]. Each step
 * joins two vectors: first their neighbouring lanes, then pairs, then quarters. Overwrites parts.
 */
SIMD_INLINE vf
lanes_join(vf parts[16], vf (*join)(vf, vf))
{
#pragma GCC unroll 8
	for (int i = 0; i < 16; i += 2)
		parts[i] = join(_mm512_unpacklo_ps(parts[i], parts[i + 1]),
						_mm512_unpackhi_ps(parts[i], parts[i + 1]));
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4)
	{
		__m512d a = _mm512_castps_pd(parts[i]);
		__m512d b = _mm512_castps_pd(parts[i + 2]);

		parts[i] = join(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
						_mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
	}
#pragma GCC unroll 2
	for (int step = 4; step < 16; step *= 2)
#pragma GCC unroll 2
		for (int i = 0; i < 16; i += 2 * step)
			parts[i] = join(_mm512_shuffle_f32x4(parts[i], parts[i + step], 0x88),
							_mm512_shuffle_f32x4(parts[i], parts[i + step], 0xdd));
	return parts[0];
}

SIMD_INLINE vf
lanes_add(vf a, vf b)
{
	return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

/* Lane i: the largest lane of parts[i], none of which is NaN. */
SIMD_INLINE vf
vf_max_each(vf parts[16])
{
	return lanes_join(parts, vf_max);
}

/* Lane i: the sum of the lanes of ints[i]. */
SIMD_INLINE vi
vi_sum_each(const vi ints[16])
{
	vf parts[16];

#pragma GCC unroll 16
	for (int i = 0; i < 16; i++)
		parts[i] = _mm512_castsi512_ps(ints[i]);
	return _mm512_castps_si512(lanes_join(parts, lanes_add));
}

#endif
