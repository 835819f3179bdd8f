/*
 * simd_avx2.h: the vector operations of simd_avx512.h, 8 lanes wide.
 *
 *   vf  floats, one per lane        vi  int32 per lane, or 4 bytes per lane
 */
#ifndef INFER_KERNELS_SIMD_H
#define INFER_KERNELS_SIMD_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES		8
#define SIMD_INLINE static inline __attribute__((always_inline))

typedef __m256 vf;
typedef __m256i vi;

SIMD_INLINE vf
vf_zero(void)
{
	return _mm256_setzero_ps();
}

SIMD_INLINE vf
vf_set1(float x)
{
	return _mm256_set1_ps(x);
}

SIMD_INLINE vf
vf_load(const float *p)
{
	return _mm256_loadu_ps(p);
}

SIMD_INLINE void
vf_store(float *p, vf x)
{
	_mm256_storeu_ps(p, x);
}

SIMD_INLINE vf
vf_load_half(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p));
}

SIMD_INLINE vf
vf_load_bfloat(const uint16_t *p)
{
	return _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p)), 16));
}

SIMD_INLINE vf
vf_add(vf a, vf b)
{
	return _mm256_add_ps(a, b);
}

SIMD_INLINE vf
vf_sub(vf a, vf b)
{
	return _mm256_sub_ps(a, b);
}

SIMD_INLINE vf
vf_mul(vf a, vf b)
{
	return _mm256_mul_ps(a, b);
}

SIMD_INLINE vf
vf_div(vf a, vf b)
{
	return _mm256_div_ps(a, b);
}

SIMD_INLINE vf
vf_fma(vf a, vf b, vf c)
{
	return _mm256_fmadd_ps(a, b, c);
}

/* a < b ? a : b and a > b ? a : b, so a NaN in a gives b */
SIMD_INLINE vf
vf_min(vf a, vf b)
{
	return _mm256_min_ps(a, b);
}

SIMD_INLINE vf
vf_max(vf a, vf b)
{
	return _mm256_max_ps(a, b);
}

SIMD_INLINE vf
vf_abs(vf a)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

SIMD_INLINE vf
vf_neg(vf a)
{
	return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}

/* a NaN where x is one, else y */
SIMD_INLINE vf
vf_nan_from(vf x, vf y)
{
	return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

SIMD_INLINE vf
vf_round(vf a)
{
	return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x < limit ? 0 : y; a NaN in x keeps y */
SIMD_INLINE vf
vf_zero_below(vf x, float limit, vf y)
{
	return _mm256_andnot_ps(_mm256_cmp_ps(x, vf_set1(limit), _CMP_LT_OQ), y);
}

/* 2^n for whole n in -126 .. 127 */
SIMD_INLINE vf
vf_power2(vf n)
{
	return _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}

/* Sums of 16 partials, halves added: 8 + 8, 4 + 4, 2 + 2, 1 + 1 (kernels.h). */
SIMD_INLINE float
vf_sum16(const vf *parts)
{
	__m256 eight = _mm256_add_ps(parts[0], parts[1]);
	__m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
	__m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Largest of the lanes, none of which is NaN; of zeros, either. */
SIMD_INLINE float
vf_largest(vf a)
{
	__m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	__m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

SIMD_INLINE int
vf_any_equal(vf a, vf b)
{
	return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) != 0;
}

/* p[0] p[0] p[1] p[1] ... */
SIMD_INLINE vf
vf_load_twice(const float *p)
{
	const __m256i lanes = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);

	return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), lanes);
}

/* a[1] a[0] a[3] a[2] ... */
SIMD_INLINE vf
vf_swap_pairs(vf a)
{
	return _mm256_permute_ps(a, 0xb1);
}

/* -a[0] a[1] -a[2] a[3] ... */
SIMD_INLINE vf
vf_negate_even(vf a)
{
	return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000)));
}

SIMD_INLINE void
vf_store_half(uint16_t *p, vf a)
{
	_mm_storeu_si128((__m128i *) p,
					 _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

SIMD_INLINE vf
vf_from_int(vi a)
{
	return _mm256_cvtepi32_ps(a);
}

SIMD_INLINE vi
vi_from_float(vf a)
{
	return _mm256_cvtps_epi32(a);
}

SIMD_INLINE vi
vi_zero(void)
{
	return _mm256_setzero_si256();
}

SIMD_INLINE vi
vi_set1(int32_t x)
{
	return _mm256_set1_epi32(x);
}

SIMD_INLINE vi
vi_load(const void *p)
{
	return _mm256_loadu_si256((const __m256i *) p);
}

SIMD_INLINE vi
vi_load_u8(const uint8_t *p)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *) p));
}

SIMD_INLINE vi
vi_load_i8(const int8_t *p)
{
	return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) p));
}

/* Narrows int32 lanes that fit to int8 and stores them. */
SIMD_INLINE void
vi_store_i8(int8_t *p, vi a)
{
	__m128i words = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));

	_mm_storel_epi64((__m128i *) p, _mm_packs_epi16(words, words));
}

SIMD_INLINE vi
vi_add(vi a, vi b)
{
	return _mm256_add_epi32(a, b);
}

/* times a power of two that is a constant */
#define vi_mul_power2(a, power) _mm256_slli_epi32((a), __builtin_ctz(power))

/* times 128, and divided by 128 downwards */
SIMD_INLINE vi
vi_up7(vi a)
{
	return _mm256_slli_epi32(a, 7);
}

SIMD_INLINE vi
vi_down7(vi a)
{
	return _mm256_srai_epi32(a, 7);
}

SIMD_INLINE vi
vi_sub(vi a, vi b)
{
	return _mm256_sub_epi32(a, b);
}

SIMD_INLINE vi
vi_mul(vi a, vi b)
{
	return _mm256_mullo_epi32(a, b);
}

/* (bytes >> shift) & mask, then << up, per byte; mask keeps what crosses bytes away */
#define vi_bits(a, shift, mask, up)                                                                \
	_mm256_slli_epi16(_mm256_and_si256(_mm256_srli_epi16((a), (shift)), _mm256_set1_epi8(mask)),   \
					  (up))

SIMD_INLINE vi
vi_or(vi a, vi b)
{
	return _mm256_or_si256(a, b);
}

SIMD_INLINE vi
vi_broadcast4(const int8_t *p)
{
	int32_t bytes;

	memcpy(&bytes, p, sizeof(bytes));
	return _mm256_set1_epi32(bytes);
}

/* u[i] * s[i] of unsigned and signed bytes, neighbours added to int16: u < 128, or it saturates. */
SIMD_INLINE vi
vi_pairs(vi u, vi s)
{
	return _mm256_maddubs_epi16(u, s);
}

SIMD_INLINE vi
vi_add16(vi a, vi b)
{
	return _mm256_add_epi16(a, b);
}

/* Neighbouring int16 added to int32, times a factor. */
SIMD_INLINE vi
vi_pairs_join(vi pairs, int factor)
{
	return _mm256_madd_epi16(pairs, _mm256_set1_epi16((short) factor));
}

SIMD_INLINE void
vi_store(void *p, vi a)
{
	_mm256_storeu_si256(p, a);
}

/* x > limit ? y : 0 */
SIMD_INLINE vf
vf_zero_unless_above(vf x, float limit, vf y)
{
	return _mm256_and_ps(_mm256_cmp_ps(x, vf_set1(limit), _CMP_GT_OQ), y);
}

/*
 * Eight vectors to one, whose lane i is what `join` makes of the lanes of parts[i]. Each step joins
 * two vectors: first their neighbouring lanes, then pairs, then halves. Overwrites parts.
 */
SIMD_INLINE vf
lanes_join(vf parts[8], vf (*join)(vf, vf))
{
#pragma GCC unroll 4
	for (int i = 0; i < 8; i += 2)
		parts[i] = join(_mm256_unpacklo_ps(parts[i], parts[i + 1]),
						_mm256_unpackhi_ps(parts[i], parts[i + 1]));
#pragma GCC unroll 2
	for (int i = 0; i < 8; i += 4)
	{
		__m256d a = _mm256_castps_pd(parts[i]);
		__m256d b = _mm256_castps_pd(parts[i + 2]);

		parts[i] = join(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
						_mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
	}
	return join(_mm256_permute2f128_ps(parts[0], parts[4], 0x20),
				_mm256_permute2f128_ps(parts[0], parts[4], 0x31));
}

SIMD_INLINE vf
lanes_add(vf a, vf b)
{
	return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

/* Lane i: the largest lane of parts[i], none of which is NaN. */
SIMD_INLINE vf
vf_max_each(vf parts[8])
{
	return lanes_join(parts, vf_max);
}

/* Lane i: the sum of the lanes of ints[i]. */
SIMD_INLINE vi
vi_sum_each(const vi ints[8])
{
	vf parts[8];

#pragma GCC unroll 8
	for (int i = 0; i < 8; i++)
		parts[i] = _mm256_castsi256_ps(ints[i]);
	return _mm256_castps_si256(lanes_join(parts, lanes_add));
}

#endif
