/*
 * matmul_ref.c: products of packed matrices, one output at a time, and the activations they take.
 */
#include "kernels/blocks.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/packed.h"
#include "kernels/cpu/ref.h"

#include <math.h>
#include <string.h>

static size_t
align64(size_t n)
{
	return (n + 63) & ~(size_t) 63;
}

size_t
acts_bytes(int32_t n_tokens, int32_t n_cols)
{
	size_t n = (size_t) n_tokens * (size_t) n_cols;

	return align64(2 * n) + 2 * align64(n / 32 * sizeof(float)) +
		   align64(n / 16 * sizeof(int32_t)) + align64(n / 32 * sizeof(int32_t));
}

void
acts_place(Acts *acts, int32_t n_tokens, int32_t n_cols, const float *f32, void *memory)
{
	size_t n = (size_t) n_tokens * (size_t) n_cols;
	char *at = memory;

	acts->n_tokens = n_tokens;
	acts->n_cols = n_cols;
	acts->f32 = f32;
	acts->codes = (int8_t *) at;
	at += align64(2 * n);
	acts->scale = (float *) at;
	at += align64(n / 32 * sizeof(float));
	acts->sum = (int32_t *) at;
	at += align64(n / 16 * sizeof(int32_t));
	acts->sum32 = (int32_t *) at;
	at += align64(n / 32 * sizeof(int32_t));
	acts->offset = (float *) at;
}

static void
block_quantize(const float *x, int8_t *codes, float *scale, int32_t *sums)
{
	int8_t *high = codes;
	int8_t *low = codes + 32;
	float largest = 0.0f;
	float inverse;

	for (int i = 0; i < 32; i++)
		if (fabsf(x[i]) > largest)
			largest = fabsf(x[i]);
	inverse = largest > QUANTIZE_SMALLEST ? QUANTIZE_REACH / largest : 0.0f;
	*scale = largest > QUANTIZE_SMALLEST ? largest / QUANTIZE_REACH : 0.0f;
	sums[0] = sums[1] = 0;
	for (int i = 0; i < 32; i++)
	{
		float scaled = x[i] * inverse;
		int32_t code;

		/* min and max as the vector instructions define them: NaN becomes the largest */
		scaled = scaled < QUANTIZE_REACH ? scaled : QUANTIZE_REACH;
		scaled = scaled > -QUANTIZE_REACH ? scaled : -QUANTIZE_REACH;
		code = (int32_t) nearbyintf(scaled);
		/* rounded downwards, without shifting a negative number */
		high[i] = (int8_t) ((code + 64 + 128 * 256) / 128 - 256);
		low[i] = (int8_t) (code - 128 * high[i]);
		sums[i / 16] += code;
	}
}

void
quantize_acts_ref(Acts *acts, int32_t first, int32_t n)
{
	for (int32_t t = first; t < first + n; t++)
		for (int32_t b = 0; b < acts->n_cols / 32; b++)
		{
			size_t place = acts_place_of(acts, t, b);

			block_quantize(acts->f32 + (size_t) t * (size_t) acts->n_cols + 32 * (size_t) b,
						   acts->codes + 64 * place, acts->scale + place, acts->sum + 2 * place);
			acts->sum32[place] = acts->sum[2 * place] + acts->sum[2 * place + 1];
			acts->offset[place] = acts->scale[place] * (float) acts->sum32[place];
		}
}

static float
element_at(uint32_t type, const char *group, size_t index)
{
	const uint16_t *halves = (const uint16_t *) group;

	if (type == BLOCK_F32)
		return ((const float *) group)[index];
	return type == BLOCK_F16 ? half_to_float(halves[index]) : bfloat_to_float(halves[index]);
}

/* Sums of weight code * activation code over the two halves of a sub-block. */
static void
codes_dot(const PackedFormat *format, const uint8_t *codes, const uint8_t *high, int lane,
		  const int8_t *acts, int32_t dots[2])
{
	dots[0] = dots[1] = 0;
	for (int c = 0; c < 32; c++)
	{
		int k = c / 4;
		int byte = 4 * lane + c % 4;
		int32_t code;

		if (format->scheme == SCHEME_BYTE)
			code = codes[64 * k + byte];
		else
			code = codes[64 * (k / 2) + byte] >> 4 * (k % 2) & 0x0f;
		if (format->n_high == 1)
			code |= (high[byte] >> k & 1) << 4;
		else if (format->n_high == 2)
			code |= (high[64 * (k / 4) + byte] >> 2 * (k % 4) & 3) << 4;
		dots[c / 16] += code * (128 * acts[c] + acts[32 + c]);
	}
}

static float
quantized_dot(const PackedFormat *format, const PackedPlanes *planes, const char *group, int lane,
			  const Acts *acts, int32_t token)
{
	size_t n_sub = (size_t) acts->n_cols / 32;
	size_t per_block = (size_t) format->file_items / 32;
	const uint16_t *d = (const uint16_t *) (group + planes->d);
	const uint16_t *m = (const uint16_t *) (group + planes->m);
	const uint8_t *sc = (const uint8_t *) group + planes->sc;
	const uint8_t *mn = (const uint8_t *) group + planes->mn;
	float acc = 0.0f;

	for (size_t s = 0; s < n_sub; s++)
	{
		size_t place = acts_place_of(acts, token, (int32_t) s);
		size_t scale_at = s / per_block * KERNEL_ROW_GROUP + (size_t) lane;
		float scale = half_to_float(d[scale_at]);
		int32_t sum = acts->sum32[place];
		int32_t dots[2], dot;

		codes_dot(format, (const uint8_t *) group + s * (format->scheme == SCHEME_BYTE ? 512 : 256),
				  (const uint8_t *) group + planes->high + s * 64 * (size_t) format->n_high, lane,
				  acts->codes + 64 * place, dots);
		if (format->n_scales == 2)
		{
			const int8_t *pair = (const int8_t *) sc + 2 * s * KERNEL_ROW_GROUP + lane;

			dot = pair[0] * (dots[0] - format->zero * acts->sum[2 * place]) +
				  pair[KERNEL_ROW_GROUP] * (dots[1] - format->zero * acts->sum[2 * place + 1]);
		}
		else
			dot = dots[0] + dots[1] - format->zero * sum;
		if (format->n_scales == 1)
			scale *= (float) sc[s * KERNEL_ROW_GROUP + (size_t) lane];
		acc = fmaf(scale * acts->scale[place], (float) dot, acc);
		if (format->min == MIN_PLUS)
			acc = fmaf(half_to_float(m[scale_at]), acts->offset[place], acc);
		else if (format->min == MIN_K)
			acc = fmaf(
				-(half_to_float(m[scale_at]) * (float) mn[s * KERNEL_ROW_GROUP + (size_t) lane]),
				acts->offset[place], acc);
	}
	return acc;
}

static float
float_dot(uint32_t type, const char *group, int lane, const float *x, int32_t n_cols)
{
	float acc = 0.0f;

	for (int32_t c = 0; c < n_cols; c++)
		acc =
			fmaf(element_at(type, group, (size_t) c * KERNEL_ROW_GROUP + (size_t) lane), x[c], acc);
	return acc;
}

void
matmul_ref(const PackedMatrix *m, const Acts *acts, int32_t first_group, int32_t n_groups,
		   float *out, int64_t out_stride)
{
	const PackedFormat *format = packed_format(m->type);
	PackedPlanes planes;

	packed_planes(format, m->n_cols, &planes);
	for (int32_t g = first_group; g < first_group + n_groups; g++)
	{
		const char *group = (const char *) m->data + (size_t) g * planes.group_bytes;

		for (int lane = 0; lane < KERNEL_ROW_GROUP; lane++)
		{
			int64_t row = (int64_t) g * KERNEL_ROW_GROUP + lane;

			if (row >= m->n_rows)
				break;
			for (int32_t t = 0; t < acts->n_tokens; t++)
				out[t * out_stride + row] =
					format->scheme == SCHEME_FLOAT
						? float_dot(m->type, group, lane,
									acts->f32 + (size_t) t * (size_t) m->n_cols, m->n_cols)
						: quantized_dot(format, &planes, group, lane, acts, t);
		}
	}
}
