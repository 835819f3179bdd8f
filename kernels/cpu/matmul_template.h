/*
 * matmul_template.h: the packed matrix product, for whatever width the simd header in front of it
 * has. Included by matmul_avx2.c, matmul_avx512.c and matmul_vnni.c; the operations are those of
 * matmul_ref.c, one lane per row, in the same order.
 *
 * A tile is LANES rows by N tokens. Its weights are unpacked once and used for all N; larger
 * batches run through the same group tile after tile, while the group (a few kB) stays in the L1
 * cache.
 */
#include "kernels/blocks.h"
#include "kernels/cpu/packed.h"
#include "kernels/cpu/ref.h"

#define HALVES (KERNEL_ROW_GROUP / LANES)

/* One half of a group, as the tile walks it. */
typedef struct HalfGroup
{
	const PackedFormat *format;
	const char *group;
	const char *next; /* the group to fetch, or NULL; it may not exist, and is not read */
	PackedPlanes planes;
	int32_t first_lane;
	int32_t n_lanes; /* that exist: the last group may be short */
} HalfGroup;

/* The 32 columns of sub-block s as eight vectors: bytes 4r .. 4r + 3 of codes[k] are row r, columns
 * 4k .. 4k + 3. */
SIMD_INLINE void
codes_unpack(const HalfGroup *half, int32_t s, PackedScheme scheme, int n_high, vi codes[8])
{
	const char *at = half->group + (size_t) s * (scheme == SCHEME_BYTE ? 512 : 256) +
					 4 * (size_t) half->first_lane;
	const char *high = half->group + half->planes.high + (size_t) s * 64 * (size_t) n_high +
					   4 * (size_t) half->first_lane;

	if (scheme == SCHEME_BYTE)
	{
#pragma GCC unroll 8
		for (int k = 0; k < 8; k++)
			codes[k] = vi_load(at + 64 * k);
		return;
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
	{
		vi pair = vi_load(at + 64 * j);

		codes[2 * j] = vi_bits(pair, 0, 0x0f, 0);
		codes[2 * j + 1] = vi_bits(pair, 4, 0x0f, 0);
	}
	if (n_high == 1)
	{
		vi bits = vi_load(high);

#pragma GCC unroll 8
		for (int k = 0; k < 8; k++)
			codes[k] = vi_or(codes[k], vi_bits(bits, k, 0x01, 4));
	}
	else if (n_high == 2)
	{
		vi bits[2] = { vi_load(high), vi_load(high + 64) };

#pragma GCC unroll 8
		for (int k = 0; k < 8; k++)
			codes[k] = vi_or(codes[k], vi_bits(bits[k / 4], 2 * (k % 4), 0x03, 4));
	}
}

/*
 * While one group is computed the next one is fetched: a single token reads weights as fast as
 * memory gives them, and the core's own prefetcher leaves half of that. Every step fetches its
 * share of bytes, the last ones some past the end. Only the first tile of a group does it.
 */
SIMD_INLINE void
group_prefetch(const HalfGroup *half, int32_t token, size_t at, size_t n_bytes)
{
	if (token > 0 || half->next == NULL)
		return;
#pragma GCC unroll 16
	for (size_t line = 0; line < n_bytes; line += 64)
		__builtin_prefetch((const void *) ((uintptr_t) half->next + at + line));
}

SIMD_INLINE vi
dot_add(vi acc, vi codes, const int8_t *q, PackedScheme scheme)
{
	return scheme == SCHEME_BYTE ? vi_dot_wide(acc, codes, vi_broadcast4(q))
								 : vi_dot_small(acc, codes, vi_broadcast4(q));
}

/* n vectors of 4 columns: 128 times the dot with the high bytes plus the one with the low bytes. */
SIMD_INLINE vi
codes_dot(const vi *codes, int n, const int8_t *high, const int8_t *low, PackedScheme scheme)
{
	vi upper[2] = { vi_zero(), vi_zero() };
	vi lower[2] = { vi_zero(), vi_zero() };

#pragma GCC unroll 8
	for (int k = 0; k < n; k++)
		upper[k % 2] = dot_add(upper[k % 2], codes[k], high + 4 * k, scheme);
#pragma GCC unroll 8
	for (int k = 0; k < n; k++)
		lower[k % 2] = dot_add(lower[k % 2], codes[k], low + 4 * k, scheme);
	return vi_add(vi_up7(vi_add(upper[0], upper[1])), vi_add(lower[0], lower[1]));
}

SIMD_INLINE void
lanes_store(vf acc, int32_t n_lanes, float *out)
{
	float lanes[LANES];

	if (n_lanes >= LANES)
	{
		vf_store(out, acc);
		return;
	}
	vf_store(lanes, acc);
	for (int32_t i = 0; i < n_lanes; i++)
		out[i] = lanes[i];
}

/* scheme, n_high, n_scales, min, zero and n are constants at each call: the compiler drops the
 * branches. */
SIMD_INLINE void
quantized_tile(const HalfGroup *half, const Acts *acts, int32_t token, int n, PackedScheme scheme,
			   int n_high, int n_scales, PackedMin min, int zero, float *out, int64_t out_stride)
{
	size_t n_sub = (size_t) acts->n_cols / 32;
	size_t per_block = n_scales > 0 ? BLOCK_K_ITEMS / 32 : 1;
	size_t step_bytes = (scheme == SCHEME_BYTE ? 512 : 256) + 64 * (size_t) n_high + 64;
	const uint16_t *d = (const uint16_t *) (half->group + half->planes.d) + half->first_lane;
	const uint16_t *m = (const uint16_t *) (half->group + half->planes.m) + half->first_lane;
	const uint8_t *sc = (const uint8_t *) half->group + half->planes.sc + half->first_lane;
	const uint8_t *mn = (const uint8_t *) half->group + half->planes.mn + half->first_lane;
	vf acc[8];

#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		acc[t] = vf_zero();
	for (size_t s = 0; s < n_sub; s++)
	{
		size_t scale_at = s / per_block * KERNEL_ROW_GROUP;
		vf scale = vf_load_half(d + scale_at);
		vf minimum = vf_zero();
		vi sc0 = vi_zero(), sc1 = vi_zero();
		vi codes[8];

		if (n_scales == 1)
			scale = vf_mul(scale, vf_from_int(vi_load_u8(sc + s * KERNEL_ROW_GROUP)));
		if (n_scales == 2)
		{
			sc0 = vi_load_i8((const int8_t *) sc + 2 * s * KERNEL_ROW_GROUP);
			sc1 = vi_load_i8((const int8_t *) sc + (2 * s + 1) * KERNEL_ROW_GROUP);
		}
		if (min == MIN_PLUS)
			minimum = vf_load_half(m + scale_at);
		if (min == MIN_K)
			minimum = vf_sub(vf_zero(), vf_mul(vf_load_half(m + scale_at),
											   vf_from_int(vi_load_u8(mn + s * KERNEL_ROW_GROUP))));
		codes_unpack(half, (int32_t) s, scheme, n_high, codes);
		group_prefetch(half, token, s * step_bytes, step_bytes);
#pragma GCC unroll 8
		for (int t = 0; t < n; t++)
		{
			size_t b = (size_t) (token + t) * n_sub + s;
			const int8_t *high = acts->high + 32 * b;
			const int8_t *low = acts->low + 32 * b;
			vi dot;

			if (n_scales == 2)
			{
				const int32_t *sum = acts->sum + 2 * b;
				vi first = codes_dot(codes, 4, high, low, scheme);
				vi second = codes_dot(codes + 4, 4, high + 16, low + 16, scheme);

				dot = vi_add(vi_mul(sc0, vi_sub(first, vi_set1(zero * sum[0]))),
							 vi_mul(sc1, vi_sub(second, vi_set1(zero * sum[1]))));
			}
			else
				dot = codes_dot(codes, 8, high, low, scheme);
			if (n_scales != 2 && zero != 0)
				dot = vi_sub(dot, vi_mul_power2(vi_set1(acts->sum32[b]), zero));
			acc[t] = vf_fma(vf_mul(scale, vf_set1(acts->scale[b])), vf_from_int(dot), acc[t]);
			if (min != MIN_NONE)
				acc[t] = vf_fma(minimum, vf_set1(acts->offset[b]), acc[t]);
		}
	}
#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		lanes_store(acc[t], half->n_lanes, out + (token + t) * out_stride);
}

SIMD_INLINE vf
elements_load(const char *group, uint32_t type, size_t at)
{
	if (type == BLOCK_F32)
		return vf_load((const float *) group + at);
	if (type == BLOCK_F16)
		return vf_load_half((const uint16_t *) group + at);
	return vf_load_bfloat((const uint16_t *) group + at);
}

SIMD_INLINE void
float_tile(const HalfGroup *half, const Acts *acts, int32_t token, int n, uint32_t type, float *out,
		   int64_t out_stride)
{
	const float *x = acts->f32 + (size_t) token * (size_t) acts->n_cols;
	vf acc[8];

#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		acc[t] = vf_zero();
	for (int32_t c = 0; c < acts->n_cols; c++)
	{
		vf w = elements_load(half->group, type,
							 (size_t) c * KERNEL_ROW_GROUP + (size_t) half->first_lane);

		group_prefetch(half, token, (size_t) c * (type == BLOCK_F32 ? 64 : 32), 1);
#pragma GCC unroll 8
		for (int t = 0; t < n; t++)
			acc[t] = vf_fma(w, vf_set1(x[(size_t) t * (size_t) acts->n_cols + (size_t) c]), acc[t]);
	}
#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		lanes_store(acc[t], half->n_lanes, out + (token + t) * out_stride);
}

/* All tokens of one half group, in tiles of 8, 4, 2 and 1. TILE(n) is a tile of constant width. */
#define TILES_RUN(TILE)                                                                            \
	do                                                                                             \
	{                                                                                              \
		int32_t token = 0;                                                                         \
                                                                                                   \
		for (; token + 8 <= acts->n_tokens; token += 8)                                            \
			TILE(8);                                                                               \
		if (token + 4 <= acts->n_tokens)                                                           \
		{                                                                                          \
			TILE(4);                                                                               \
			token += 4;                                                                            \
		}                                                                                          \
		if (token + 2 <= acts->n_tokens)                                                           \
		{                                                                                          \
			TILE(2);                                                                               \
			token += 2;                                                                            \
		}                                                                                          \
		if (token < acts->n_tokens)                                                                \
			TILE(1);                                                                               \
	} while (0)

/* clang-format off */
#define q4_0_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 0, 0, MIN_NONE, 8,   out, out_stride)
#define q4_1_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 0, 0, MIN_PLUS, 0,   out, out_stride)
#define q5_0_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 1, 0, MIN_NONE, 16,  out, out_stride)
#define q5_1_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 1, 0, MIN_PLUS, 0,   out, out_stride)
#define q8_0_tile(n) quantized_tile(half, acts, token, n, SCHEME_BYTE,   0, 0, MIN_NONE, 128, out, out_stride)
#define q4_k_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 0, 1, MIN_K,    0,   out, out_stride)
#define q5_k_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 1, 1, MIN_K,    0,   out, out_stride)
#define q6_k_tile(n) quantized_tile(half, acts, token, n, SCHEME_NIBBLE, 2, 2, MIN_NONE, 32,  out, out_stride)
#define f32_tile(n)  float_tile(half, acts, token, n, BLOCK_F32,  out, out_stride)
#define f16_tile(n)  float_tile(half, acts, token, n, BLOCK_F16,  out, out_stride)
#define bf16_tile(n) float_tile(half, acts, token, n, BLOCK_BF16, out, out_stride)
/* clang-format on */

typedef void (*HalfMatmul)(const HalfGroup *half, const Acts *acts, float *out, int64_t out_stride);

#define HALF_MATMUL(name)                                                                          \
	static void name(const HalfGroup *half, const Acts *acts, float *out, int64_t out_stride)      \
	{                                                                                              \
		TILES_RUN(name##_tile);                                                                    \
	}

HALF_MATMUL(q4_0)
HALF_MATMUL(q4_1)
HALF_MATMUL(q5_0)
HALF_MATMUL(q5_1)
HALF_MATMUL(q8_0)
HALF_MATMUL(q4_k)
HALF_MATMUL(q5_k)
HALF_MATMUL(q6_k)
HALF_MATMUL(f32)
HALF_MATMUL(f16)
HALF_MATMUL(bf16)

static HalfMatmul
half_matmul_find(uint32_t type)
{
	static const struct
	{
		uint32_t type;
		HalfMatmul run;
	} table[] = {
		{ BLOCK_Q4_0, q4_0 }, { BLOCK_Q4_1, q4_1 }, { BLOCK_Q5_0, q5_0 }, { BLOCK_Q5_1, q5_1 },
		{ BLOCK_Q8_0, q8_0 }, { BLOCK_Q4_K, q4_k }, { BLOCK_Q5_K, q5_k }, { BLOCK_Q6_K, q6_k },
		{ BLOCK_F32, f32 },	  { BLOCK_F16, f16 },	{ BLOCK_BF16, bf16 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].type == type)
			return table[i].run;
	return NULL;
}

SIMD_INLINE void
matmul_run(const PackedMatrix *m, const Acts *acts, int32_t first_group, int32_t n_groups,
		   float *out, int64_t out_stride)
{
	HalfMatmul run = half_matmul_find(m->type);
	HalfGroup half = { .format = packed_format(m->type) };

	packed_planes(half.format, m->n_cols, &half.planes);
	for (int32_t g = first_group; g < first_group + n_groups; g++)
	{
		half.group = (const char *) m->data + (size_t) g * half.planes.group_bytes;
		for (int h = 0; h < HALVES; h++)
		{
			int32_t row = g * KERNEL_ROW_GROUP + h * LANES;

			half.first_lane = h * LANES;
			half.next = h == 0 ? half.group + half.planes.group_bytes : NULL;
			half.n_lanes = m->n_rows - row < LANES ? m->n_rows - row : LANES;
			if (half.n_lanes > 0)
				run(&half, acts, out + row, out_stride);
		}
	}
}
