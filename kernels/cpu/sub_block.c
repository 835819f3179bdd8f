/*
 * sub_block.c: what each quantized format means, in one place: 32 columns of a row as codes and
 * scales. Packing and dequantizing are both made of it, so they cannot disagree.
 */
#include "kernels/blocks.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/packed.h"

#include <string.h>

static const PackedFormat formats[] = {
	{ .type = BLOCK_F32, .scheme = SCHEME_FLOAT, .file_items = 1, .file_bytes = 4 },
	{ .type = BLOCK_F16, .scheme = SCHEME_FLOAT, .file_items = 1, .file_bytes = 2 },
	{ .type = BLOCK_BF16, .scheme = SCHEME_FLOAT, .file_items = 1, .file_bytes = 2 },
	{ BLOCK_Q4_0, SCHEME_NIBBLE, 32, sizeof(BlockQ4_0), .zero = 8 },
	{ BLOCK_Q4_1, SCHEME_NIBBLE, 32, sizeof(BlockQ4_1), .min = MIN_PLUS },
	{ BLOCK_Q5_0, SCHEME_NIBBLE, 32, sizeof(BlockQ5_0), .n_high = 1, .zero = 16 },
	{ BLOCK_Q5_1, SCHEME_NIBBLE, 32, sizeof(BlockQ5_1), .n_high = 1, .min = MIN_PLUS },
	{ BLOCK_Q8_0, SCHEME_BYTE, 32, sizeof(BlockQ8_0), .zero = 128 },
	{ BLOCK_Q4_K, SCHEME_NIBBLE, 256, sizeof(BlockQ4_K), .n_scales = 1, .min = MIN_K },
	{ BLOCK_Q5_K, SCHEME_NIBBLE, 256, sizeof(BlockQ5_K), .n_high = 1, .n_scales = 1, .min = MIN_K },
	{ BLOCK_Q6_K, SCHEME_NIBBLE, 256, sizeof(BlockQ6_K), .n_high = 2, .zero = 32, .n_scales = 2 },
};

const PackedFormat *
packed_format(uint32_t type)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].type == type)
			return &formats[i];
	return NULL;
}

static void
nibbles_split(const uint8_t *nibbles, uint8_t *codes)
{
	for (int i = 0; i < 16; i++)
	{
		codes[i] = nibbles[i] & 0x0f;
		codes[i + 16] = nibbles[i] >> 4;
	}
}

static void
high_bits_add(const uint8_t *high, uint8_t *codes)
{
	for (int i = 0; i < 32; i++)
		codes[i] |= (uint8_t) (((high[i / 8] >> (i % 8)) & 1) << 4);
}

/* Six-bit scale and min of sub-block s, spread over twelve bytes: the first four plain, the rest
 * split. */
static void
k_scales_read(const uint8_t *scales, int s, SubBlock *out)
{
	if (s < 4)
	{
		out->sc[0] = scales[s] & 63;
		out->mn = scales[s + 4] & 63;
	}
	else
	{
		out->sc[0] = (uint8_t) ((scales[s + 4] & 0x0f) | (scales[s - 4] >> 6) << 4);
		out->mn = (uint8_t) ((scales[s + 4] >> 4) | (scales[s] >> 6) << 4);
	}
}

static void
k_nibbles_read(const uint8_t *nibbles, int s, uint8_t *codes)
{
	for (int i = 0; i < 32; i++)
		codes[i] = (uint8_t) (nibbles[32 * (s / 2) + i] >> (4 * (s % 2)) & 0x0f);
}

static void
q6_k_read(const BlockQ6_K *block, int s, SubBlock *out)
{
	const uint8_t *low = block->low + 64 * (s / 4) + 32 * (s % 2);
	const uint8_t *high = block->high + 32 * (s / 4);
	int low_shift = 4 * (s % 4 / 2);
	int high_shift = 2 * (s % 4);

	for (int i = 0; i < 32; i++)
		out->codes[i] = (uint8_t) ((low[i] >> low_shift & 0x0f) | (high[i] >> high_shift & 3) << 4);
	out->d = block->d;
	out->sc[0] = (uint8_t) block->scales[2 * s];
	out->sc[1] = (uint8_t) block->scales[2 * s + 1];
}

void
sub_block_read(const PackedFormat *format, const void *row, int32_t index, SubBlock *out)
{
	int32_t per_block = format->file_items / 32;
	const char *at =
		(const char *) row + (size_t) (index / per_block) * (size_t) format->file_bytes;
	int s = index % per_block;
	union
	{
		BlockQ4_0 q4_0;
		BlockQ4_1 q4_1;
		BlockQ5_0 q5_0;
		BlockQ5_1 q5_1;
		BlockQ8_0 q8_0;
		BlockQ4_K q4_k;
		BlockQ5_K q5_k;
		BlockQ6_K q6_k;
	} block;

	memset(out, 0, sizeof(*out));
	memcpy(&block, at, (size_t) format->file_bytes);
	switch (format->type)
	{
		case BLOCK_Q4_0:
			out->d = block.q4_0.d;
			nibbles_split(block.q4_0.nibbles, out->codes);
			break;
		case BLOCK_Q4_1:
			out->d = block.q4_1.d;
			out->m = block.q4_1.m;
			nibbles_split(block.q4_1.nibbles, out->codes);
			break;
		case BLOCK_Q5_0:
			out->d = block.q5_0.d;
			nibbles_split(block.q5_0.nibbles, out->codes);
			high_bits_add(block.q5_0.high, out->codes);
			break;
		case BLOCK_Q5_1:
			out->d = block.q5_1.d;
			out->m = block.q5_1.m;
			nibbles_split(block.q5_1.nibbles, out->codes);
			high_bits_add(block.q5_1.high, out->codes);
			break;
		case BLOCK_Q8_0:
			out->d = block.q8_0.d;
			for (int i = 0; i < 32; i++)
				out->codes[i] = (uint8_t) (block.q8_0.q[i] + 128);
			break;
		case BLOCK_Q4_K:
			out->d = block.q4_k.d;
			out->m = block.q4_k.dmin;
			k_scales_read(block.q4_k.scales, s, out);
			k_nibbles_read(block.q4_k.nibbles, s, out->codes);
			break;
		case BLOCK_Q5_K:
			out->d = block.q5_k.d;
			out->m = block.q5_k.dmin;
			k_scales_read(block.q5_k.scales, s, out);
			k_nibbles_read(block.q5_k.nibbles, s, out->codes);
			for (int i = 0; i < 32; i++)
				out->codes[i] |= (uint8_t) ((block.q5_k.high[i] >> s & 1) << 4);
			break;
		case BLOCK_Q6_K:
			q6_k_read(&block.q6_k, s, out);
			break;
	}
}

void
sub_block_values(const PackedFormat *format, const SubBlock *block, float *out)
{
	float d = half_to_float(block->d);
	float m = half_to_float(block->m);

	for (int i = 0; i < 32; i++)
	{
		float code = (float) (block->codes[i] - format->zero);

		if (format->n_scales == 2)
			out[i] = d * (float) (int8_t) block->sc[i / 16] * code;
		else if (format->n_scales == 1)
			out[i] = d * (float) block->sc[0] * code - m * (float) block->mn;
		else if (format->min == MIN_PLUS)
			out[i] = d * code + m;
		else
			out[i] = d * code;
	}
}
