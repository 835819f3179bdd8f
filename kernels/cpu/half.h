/*
 * half.h: 16-bit floats on a machine that may have no instruction for them; exact, round to nearest
 * even, bit for bit what vcvtph2ps and vcvtps2ph do (quiet NaNs).
 */
#ifndef INFER_KERNELS_HALF_H
#define INFER_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline float
float_from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t
float_to_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static inline float
half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t) (h & 0x8000) << 16;
	uint32_t exponent = (h >> 10) & 0x1f;
	uint32_t mantissa = h & 0x3ff;

	if (exponent == 0x1f)
		return float_from_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa != 0 ? 0x400000 : 0));
	if (exponent == 0)
	{
		/* zero or subnormal: mantissa * 2^-24 is exact in f32 */
		float magnitude = (float) mantissa * 0x1p-24f;

		return float_from_bits(sign | float_to_bits(magnitude));
	}
	return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t
half_from_float(float f)
{
	uint32_t bits = float_to_bits(f);
	uint32_t sign = (bits >> 16) & 0x8000;
	uint32_t magnitude = bits & 0x7fffffff;

	if (magnitude > 0x7f800000)
		return (uint16_t) (sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
		return (uint16_t) (sign | 0x7c00);
	if (magnitude < 0x38800000) /* below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 */
		return (uint16_t) (sign | (float_to_bits(float_from_bits(magnitude) + 0.5f) -
								   float_to_bits(0.5f)));
	magnitude += 0xfff + ((magnitude >> 13) & 1);
	return (uint16_t) (sign | ((magnitude - (112u << 23)) >> 13));
}

static inline float
bfloat_to_float(uint16_t b)
{
	return float_from_bits((uint32_t) b << 16);
}

#endif
