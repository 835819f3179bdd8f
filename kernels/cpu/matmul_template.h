/*
 * matmul_template.h: the packed matrix product, for whatever width the simd header in front of it
 * has. Included by matmul_avx2.c, matmul_avx512.c and matmul_vnni.c; the operations are those of
 * matmul_ref.c, one lane per row, in the same order.
 *
 * A tile is LANES rows by N tokens. Its weights are unpacked once and used for all N; larger
 * batches run through the same group tile after tile, while the group (a few kB) stays in the L1
 * cache. (The other order, all groups of a chunk for one tile of tokens, was 10 % slower for a
 * prompt of 512 tokens and no faster for 32.)
 */
#include "kernels/cpu/group_template.h"

/*
 * codes_dot(codes, n_vectors, acts, n, n_bits, dots): for each of n tokens (at most DOT_TOKENS) and
 * n_vectors vectors of 4 columns, 128 times the dot with the high bytes plus the one with the low
 * bytes. n_bits: how many bits a code has. acts: of the first token; the next is 64 bytes further.
 */
#ifdef SIMD_VNNI

/*
 * A byte-dot instruction adds to its own result, so one token alone waits five cycles for each;
 * eight in turns keep the machine busy and still fit the registers.
 */
#	define DOT_TOKENS 8
#	define DOT_SPLIT  0

SIMD_INLINE void
codes_dot(const vi *codes, int n_vectors, const int8_t *acts, int n, int n_bits, vi *dots)
{
	(void) n_bits;
#	pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		dots[t] = vi_zero();
#	pragma GCC unroll 8
	for (int k = 0; k < n_vectors; k++)
#	pragma GCC unroll 8
		for (int t = 0; t < n; t++)
			dots[t] = vi_dot(dots[t], codes[k], vi_broadcast4(acts + 64 * t + 4 * k));
#	pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		dots[t] = vi_up7(dots[t]);
#	pragma GCC unroll 8
	for (int k = 0; k < n_vectors; k++)
#	pragma GCC unroll 8
		for (int t = 0; t < n; t++)
			dots[t] = vi_dot(dots[t], codes[k], vi_broadcast4(acts + 64 * t + 32 + 4 * k));
}

#else

/*
 * Byte products are added in pairs to 16 bits, and these as long as they fit: two products of a
 * code and 127 eight times for codes of four bits, four times for five, twice for six. Codes of
 * eight bits would not fit once: they are split into two of four.
 */
#	define DOT_TOKENS		  1
#	define DOT_SPLIT		  1
#	define DOT_PAIRS(n_bits) ((n_bits) == 4 ? 8 : (n_bits) == 5 ? 4 : 2)

/* factor times the dot of n_vectors vectors. */
SIMD_INLINE vi
plane_dot(const vi *codes, int n_vectors, const int8_t *acts, int n_bits, int factor)
{
	vi dot = vi_zero();

#	pragma GCC unroll 4
	for (int first = 0; first < n_vectors; first += DOT_PAIRS(n_bits))
	{
		const int end =
			first + DOT_PAIRS(n_bits) < n_vectors ? first + DOT_PAIRS(n_bits) : n_vectors;
		vi pairs = vi_pairs(codes[first], vi_broadcast4(acts + 4 * first));

#	pragma GCC unroll 8
		for (int k = first + 1; k < end; k++)
			pairs = vi_add16(pairs, vi_pairs(codes[k], vi_broadcast4(acts + 4 * k)));
		dot = vi_add(dot, vi_pairs_join(pairs, factor));
	}
	return dot;
}

SIMD_INLINE void
codes_dot(const vi *codes, int n_vectors, const int8_t *acts, int n, int n_bits, vi *dots)
{
	(void) n;
	if (n_bits < 8)
	{
		dots[0] = vi_add(plane_dot(codes, n_vectors, acts, n_bits, 128),
						 plane_dot(codes, n_vectors, acts + 32, n_bits, 1));
		return;
	}
	dots[0] = vi_add(vi_add(plane_dot(codes, n_vectors, acts, 4, 128),
							plane_dot(codes, n_vectors, acts + 32, 4, 1)),
					 vi_add(plane_dot(codes + 8, n_vectors, acts, 4, 128 * 16),
							plane_dot(codes + 8, n_vectors, acts + 32, 4, 16)));
}

#endif

/* Eight vectors of eight-bit codes become their low halves, and behind them the high ones. */
SIMD_INLINE void
codes_split(vi codes[16])
{
#pragma GCC unroll 8
	for (int k = 0; k < 8; k++)
	{
		codes[8 + k] = vi_bits(codes[k], 4, 0x0f, 0);
		codes[k] = vi_bits(codes[k], 0, 0x0f, 0);
	}
}

/*
 * Whole dots of n tokens (at most DOT_TOKENS) with the sub-block: zero point taken off, and where a
 * type has whole scales per 16 columns, multiplied with them.
 */
SIMD_INLINE void
sub_block_dot(const SubScales *scales, const vi *codes, const Acts *acts, size_t place, int n,
			  int n_bits, int n_scales, int zero, vi *dots)
{
	const int8_t *at = acts->codes + 64 * place;
	vi second[DOT_TOKENS];

	if (n_scales != 2)
	{
		codes_dot(codes, 8, at, n, n_bits, dots);
#pragma GCC unroll 8
		for (int t = 0; t < n && zero != 0; t++)
			dots[t] =
				vi_sub(dots[t], vi_mul_power2(vi_set1(acts->sum32[place + (size_t) t]), zero));
		return;
	}
	codes_dot(codes, 4, at, n, n_bits, dots);
	codes_dot(codes + 4, 4, at + 16, n, n_bits, second);
#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
	{
		const int32_t *sum = acts->sum + 2 * (place + (size_t) t);

		dots[t] = vi_add(vi_mul(scales->sc[0], vi_sub(dots[t], vi_set1(zero * sum[0]))),
						 vi_mul(scales->sc[1], vi_sub(second[t], vi_set1(zero * sum[1]))));
	}
}

/* scheme, n_high, n_scales, min, zero and n are constants at each call: the compiler drops the
 * branches. The n tokens lie in one tile of activations. */
SIMD_INLINE void
quantized_tile(const HalfGroup *half, const Acts *acts, int32_t token, int n, PackedScheme scheme,
			   int n_high, int n_scales, PackedMin min, int zero, float *out, int64_t out_stride)
{
	size_t n_sub = (size_t) acts->n_cols / 32;
	size_t step_bytes = (scheme == SCHEME_BYTE ? 512 : 256) + 64 * (size_t) n_high + 64;
	size_t stride = (size_t) acts_tile_tokens(acts, token);
	size_t place = acts_place_of(acts, token, 0);
	const int n_bits = scheme == SCHEME_BYTE ? 8 : 4 + n_high;
	vf acc[8];

#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		acc[t] = vf_zero();
	for (size_t s = 0; s < n_sub; s++, place += stride)
	{
		const float *act_scale = acts->scale + place;
		const float *offset = acts->offset + place;
		SubScales scales = scales_load(half, s, n_scales, min);
		vi codes[16]; /* eight, or the halves of eight */

		codes_unpack(half, (int32_t) s, scheme, n_high, codes);
		if (scheme == SCHEME_BYTE && DOT_SPLIT)
			codes_split(codes);
		group_prefetch(half, token, s * step_bytes, step_bytes);
#pragma GCC unroll 8
		for (int first = 0; first < n; first += DOT_TOKENS)
		{
			int n_dots = n - first < DOT_TOKENS ? n - first : DOT_TOKENS;
			vi dots[DOT_TOKENS];

			sub_block_dot(&scales, codes, acts, place + (size_t) first, n_dots, n_bits, n_scales,
						  zero, dots);
#pragma GCC unroll 8
			for (int t = first; t < first + n_dots; t++)
			{
				acc[t] = vf_fma(vf_mul(scales.scale, vf_set1(act_scale[t])),
								vf_from_int(dots[t - first]), acc[t]);
				if (min != MIN_NONE)
					acc[t] = vf_fma(scales.minimum, vf_set1(offset[t]), acc[t]);
			}
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

/* n tokens, which is 8, 4, 2 or 1. TILE(n) is a tile of constant width. */
#define TILE_RUN(TILE)                                                                             \
	do                                                                                             \
	{                                                                                              \
		if (n == 8)                                                                                \
			TILE(8);                                                                               \
		else if (n == 4)                                                                           \
			TILE(4);                                                                               \
		else if (n == 2)                                                                           \
			TILE(2);                                                                               \
		else                                                                                       \
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

typedef void (*HalfMatmul)(const HalfGroup *half, const Acts *acts, int32_t token, int n,
						   float *out, int64_t out_stride);

#define HALF_MATMUL(name)                                                                          \
	static void name(const HalfGroup *half, const Acts *acts, int32_t token, int n, float *out,    \
					 int64_t out_stride)                                                           \
	{                                                                                              \
		TILE_RUN(name##_tile);                                                                     \
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

/* Tokens in tiles of 8, 4, 2 and 1, each within one tile of activations. */
SIMD_INLINE void
half_run(HalfMatmul run, const HalfGroup *half, const Acts *acts, int32_t first_token, float *out,
		 int64_t out_stride)
{
	int n;

	for (int32_t token = first_token; token < acts->n_tokens; token += n)
	{
		int32_t left = acts_tile_tokens(acts, token) - token % ACT_TILE_TOKENS;

		n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
		run(half, acts, token, n, out, out_stride);
	}
}

/* Tokens from first_token on. */
SIMD_INLINE void
matmul_run(const PackedMatrix *m, const Acts *acts, int32_t first_token, int32_t first_group,
		   int32_t n_groups, float *out, int64_t out_stride)
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
				half_run(run, &half, acts, first_token, out + row, out_stride);
		}
	}
}
