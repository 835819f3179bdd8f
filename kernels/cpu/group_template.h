/*
 * group_template.h: a group of 16 packed rows as the matrix products walk it, at the width of the
 * simd header in front of it: codes and scales of one sub-block, fetching ahead, storing.
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

/* What the codes of a sub-block are multiplied with, one row a lane; packed.h has the formula. */
typedef struct SubScales
{
	vf scale;
	vf minimum;
	vi sc[2]; /* Q6_K: a whole scale for each 16 columns, applied before `scale` */
} SubScales;

/* per_block: sub-blocks that share d and m. n_scales and min are constants at each call. */
SIMD_INLINE SubScales
scales_load(const HalfGroup *half, size_t s, int n_scales, PackedMin min)
{
	size_t per_block = n_scales > 0 ? BLOCK_K_ITEMS / 32 : 1;
	size_t at = s / per_block * KERNEL_ROW_GROUP + (size_t) half->first_lane;
	size_t sub = s * KERNEL_ROW_GROUP + (size_t) half->first_lane;
	const uint16_t *d = (const uint16_t *) (half->group + half->planes.d);
	const uint16_t *m = (const uint16_t *) (half->group + half->planes.m);
	const uint8_t *sc = (const uint8_t *) half->group + half->planes.sc;
	const uint8_t *mn = (const uint8_t *) half->group + half->planes.mn;
	SubScales out = { vf_load_half(d + at), vf_zero(), { vi_zero(), vi_zero() } };

	if (n_scales == 1)
		out.scale = vf_mul(out.scale, vf_from_int(vi_load_u8(sc + sub)));
	if (n_scales == 2)
	{
		const int8_t *pair = (const int8_t *) sc + s * KERNEL_ROW_GROUP + sub;

		out.sc[0] = vi_load_i8(pair);
		out.sc[1] = vi_load_i8(pair + KERNEL_ROW_GROUP);
	}
	if (min == MIN_PLUS)
		out.minimum = vf_load_half(m + at);
	if (min == MIN_K)
		out.minimum =
			vf_sub(vf_zero(), vf_mul(vf_load_half(m + at), vf_from_int(vi_load_u8(mn + sub))));
	return out;
}

SIMD_INLINE vf
lanes_load(const float *from, int32_t n_lanes)
{
	float lanes[LANES] = { 0 };

	if (n_lanes >= LANES)
		return vf_load(from);
	for (int32_t i = 0; i < n_lanes; i++)
		lanes[i] = from[i];
	return vf_load(lanes);
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
