/*
 * matmul_amx.c: the packed matrix product on AMX tiles (Sapphire Rapids and later), for batches.
 *
 * One tile instruction multiplies 16 tokens by 16 rows over 32 columns. What it takes is what the
 * layouts already are: the codes of a sub-block, unpacked, are eight rows of 64 bytes (4 columns of
 * 16 weight rows), and the activations of a tile of tokens lie 64 bytes apart. The sums come out as
 * int32 [token][row], so from there on the work is that of matmul_template.h, one row a lane, in
 * the same order, and the bits are the same.
 *
 * Codes are made signed here (the zero point taken off), so that no sum needs a correction. A group
 * is unpacked once, a panel of columns at a time, and then used by tile after tile of tokens; the
 * f32 sums of a tile wait in `out` between panels. Small batches, tokens that fill no tile of 16,
 * and float types go the way of AVX-512 VNNI.
 *
 * A unit is what has one scale: a sub-block, or for Q6_K half of one. Tiles 0 and 1 are the sums of
 * an even unit with the high and the low bytes, 2 and 3 those of an odd one, 4 and 5 the
 * activations, 6 the codes. Tile instructions take long and the vectors that follow them too, so
 * three units are under way at a time: one is multiplied, one stored, one scaled. Measured on one
 * core, with this order 30 ns for 16 x 16 x 32, one after the other 42.
 */
#define SIMD_VNNI
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/group_template.h"
#include "kernels/cpu/variants.h"

#define PANEL_BLOCKS 32 /* sub-blocks: 16 kB of codes, a third of the first cache */
#define FEWEST		 32 /* tokens that are worth unpacking a group for */

/* The memory form of a tile configuration, as LDTILECFG reads it. */
typedef struct TileConfig
{
	uint8_t palette;
	uint8_t start_row;
	uint8_t reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} TileConfig;

/* Tiles for sub-blocks in halves of 16 columns, or whole. */
SIMD_INLINE void
tiles_configure(int n_scales)
{
	TileConfig config = { .palette = 1 };
	int n_columns = n_scales == 2 ? 16 : 32;

	for (int i = 0; i < 8; i++)
	{
		bool is_sum = i < 4;
		bool is_code = i >= 6;

		config.rows[i] = (uint8_t) (is_code ? n_columns / 4 : ACT_TILE_TOKENS);
		config.row_bytes[i] = (uint16_t) (is_sum || is_code ? 64 : n_columns);
	}
	_tile_loadconfig(&config);
}

/* The codes of one panel of one group: [n_blocks][8][64] signed bytes. */
typedef struct Panel
{
	int32_t first_block;
	int32_t n_blocks;
	int8_t codes[PANEL_BLOCKS * 512] __attribute__((aligned(64)));
} Panel;

SIMD_INLINE void
panel_unpack(Panel *panel, const HalfGroup *half, PackedScheme scheme, int n_high, int zero)
{
	for (int32_t b = 0; b < panel->n_blocks; b++)
	{
		int32_t s = panel->first_block + b;
		vi codes[8];

		codes_unpack(half, s, scheme, n_high, codes);
#pragma GCC unroll 8
		for (int k = 0; k < 8; k++)
			_mm512_store_si512(panel->codes + 512 * b + 64 * k,
							   _mm512_sub_epi8(codes[k], _mm512_set1_epi8((char) zero)));
	}
	/* The tile loads of gcc do not say that they read memory. */
	__asm__ volatile("" ::: "memory");
}

/* Sums of an even and an odd unit, [token][row]. */
typedef struct TileSums
{
	int32_t high[2][ACT_TILE_TOKENS * 16] __attribute__((aligned(64)));
	int32_t low[2][ACT_TILE_TOKENS * 16] __attribute__((aligned(64)));
} TileSums;

/* Instructions name their tiles, so the parity of the unit is a branch that the compiler drops. */
SIMD_INLINE void
unit_multiply(const int8_t *acts, const int8_t *codes, int parity)
{
	_tile_loadd(6, codes, 64);
	_tile_loadd(4, acts, 64);
	_tile_loadd(5, acts + 32, 64);
	if (parity == 0)
	{
		_tile_zero(0);
		_tile_zero(1);
		_tile_dpbssd(0, 4, 6);
		_tile_dpbssd(1, 5, 6);
	}
	else
	{
		_tile_zero(2);
		_tile_zero(3);
		_tile_dpbssd(2, 4, 6);
		_tile_dpbssd(3, 5, 6);
	}
}

SIMD_INLINE void
unit_store(TileSums *sums, int parity)
{
	if (parity == 0)
	{
		_tile_stored(0, sums->high[0], 64);
		_tile_stored(1, sums->low[0], 64);
	}
	else
	{
		_tile_stored(2, sums->high[1], 64);
		_tile_stored(3, sums->low[1], 64);
	}
}

SIMD_INLINE vi
sums_join(const TileSums *sums, int t, int parity)
{
	return vi_add(vi_up7(vi_load(sums->high[parity] + 16 * t)),
				  vi_load(sums->low[parity] + 16 * t));
}

/* Adds a sub-block to the sums: the unit of this parity, or both where they are halves. */
SIMD_INLINE void
unit_scale(const TileSums *sums, const SubScales *scales, const Acts *acts, size_t place,
		   int n_scales, PackedMin min, int parity, vf *acc)
{
#pragma GCC unroll 16
	for (int t = 0; t < ACT_TILE_TOKENS; t++)
	{
		vi dot = n_scales == 2 ? vi_add(vi_mul(scales->sc[0], sums_join(sums, t, 0)),
										vi_mul(scales->sc[1], sums_join(sums, t, 1)))
							   : sums_join(sums, t, parity);

		acc[t] = vf_fma(vf_mul(scales->scale, vf_set1(acts->scale[place + (size_t) t])),
						vf_from_int(dot), acc[t]);
		if (min != MIN_NONE)
			acc[t] = vf_fma(scales->minimum, vf_set1(acts->offset[place + (size_t) t]), acc[t]);
	}
}

/* acts: codes of the tile of activations in the panel's first block, `stride` places a block. */
SIMD_INLINE void
unit_begin(const Panel *panel, const int8_t *acts, size_t stride, int32_t unit, int per_block,
		   int parity)
{
	size_t block = (size_t) unit / (size_t) per_block;
	size_t half = (size_t) unit % (size_t) per_block;

	unit_multiply(acts + 64 * stride * block + 16 * half, panel->codes + 512 * block + 256 * half,
				  parity);
}

/* The tile of activations that begins with `token`, over one panel. Constants as in
 * matmul_template.h. */
SIMD_INLINE void
panel_multiply(const Panel *panel, const HalfGroup *half, const Acts *acts, int32_t token,
			   int n_scales, PackedMin min, size_t step_bytes, float *out, int64_t out_stride)
{
	const int per_block = n_scales == 2 ? 2 : 1;
	int32_t n_units = panel->n_blocks * per_block;
	size_t stride = (size_t) acts_tile_tokens(acts, token);
	size_t first_place = acts_place_of(acts, token, panel->first_block);
	const int8_t *codes = acts->codes + 64 * first_place;
	TileSums sums;
	vf acc[ACT_TILE_TOKENS];

#pragma GCC unroll 16
	for (int t = 0; t < ACT_TILE_TOKENS; t++)
		acc[t] = panel->first_block == 0
					 ? vf_zero()
					 : lanes_load(out + (token + t) * out_stride, half->n_lanes);
	unit_begin(panel, codes, stride, 0, per_block, 0);
	unit_store(&sums, 0);
	if (n_units > 1)
		unit_begin(panel, codes, stride, 1, per_block, 1);
	for (int32_t pair = 0; pair < n_units; pair += 2)
#pragma GCC unroll 2
		for (int parity = 0; parity < 2; parity++)
		{
			int32_t unit = pair + parity;

			if (unit >= n_units)
				break;
			if (unit + 2 < n_units)
				unit_begin(panel, codes, stride, unit + 2, per_block, parity);
			if (per_block == 1 || parity == 1)
			{
				size_t block = (size_t) unit / (size_t) per_block;
				size_t s = (size_t) panel->first_block + block;
				SubScales scales = scales_load(half, s, n_scales, min);

				group_prefetch(half, token, s * step_bytes, step_bytes);
				unit_scale(&sums, &scales, acts, first_place + block * stride, n_scales, min,
						   parity, acc);
			}
			if (unit + 1 < n_units)
				unit_store(&sums, 1 - parity);
		}
#pragma GCC unroll 16
	for (int t = 0; t < ACT_TILE_TOKENS; t++)
		lanes_store(acc[t], half->n_lanes, out + (token + t) * out_stride);
}

/* The tokens that fill tiles. */
SIMD_INLINE void
group_multiply(const HalfGroup *half, const Acts *acts, PackedScheme scheme, int n_high,
			   int n_scales, PackedMin min, int zero, float *out, int64_t out_stride)
{
	size_t step_bytes = (scheme == SCHEME_BYTE ? 512 : 256) + 64 * (size_t) n_high + 64;
	int32_t n_blocks = acts->n_cols / KERNEL_BLOCK_ITEMS;
	Panel panel;

	tiles_configure(n_scales);
	for (panel.first_block = 0; panel.first_block < n_blocks; panel.first_block += PANEL_BLOCKS)
	{
		panel.n_blocks = n_blocks - panel.first_block < PANEL_BLOCKS ? n_blocks - panel.first_block
																	 : PANEL_BLOCKS;
		panel_unpack(&panel, half, scheme, n_high, zero);
		for (int32_t token = 0; token + ACT_TILE_TOKENS <= acts->n_tokens; token += ACT_TILE_TOKENS)
			panel_multiply(&panel, half, acts, token, n_scales, min, step_bytes, out, out_stride);
	}
}

/* clang-format off */
#define FORMAT_MULTIPLY(name, scheme, n_high, n_scales, min, zero)                                 \
	static void name(const HalfGroup *half, const Acts *acts, float *out, int64_t out_stride)      \
	{                                                                                              \
		group_multiply(half, acts, scheme, n_high, n_scales, min, zero, out, out_stride);          \
	}

FORMAT_MULTIPLY(q4_0, SCHEME_NIBBLE, 0, 0, MIN_NONE, 8)
FORMAT_MULTIPLY(q4_1, SCHEME_NIBBLE, 0, 0, MIN_PLUS, 0)
FORMAT_MULTIPLY(q5_0, SCHEME_NIBBLE, 1, 0, MIN_NONE, 16)
FORMAT_MULTIPLY(q5_1, SCHEME_NIBBLE, 1, 0, MIN_PLUS, 0)
FORMAT_MULTIPLY(q8_0, SCHEME_BYTE,   0, 0, MIN_NONE, 128)
FORMAT_MULTIPLY(q4_k, SCHEME_NIBBLE, 0, 1, MIN_K,    0)
FORMAT_MULTIPLY(q5_k, SCHEME_NIBBLE, 1, 1, MIN_K,    0)
FORMAT_MULTIPLY(q6_k, SCHEME_NIBBLE, 2, 2, MIN_NONE, 32)
/* clang-format on */

typedef void (*GroupMultiply)(const HalfGroup *half, const Acts *acts, float *out,
							  int64_t out_stride);

/* NULL for types that have no codes. */
static GroupMultiply
group_multiply_find(uint32_t type)
{
	static const struct
	{
		uint32_t type;
		GroupMultiply run;
	} table[] = {
		{ BLOCK_Q4_0, q4_0 }, { BLOCK_Q4_1, q4_1 }, { BLOCK_Q5_0, q5_0 }, { BLOCK_Q5_1, q5_1 },
		{ BLOCK_Q8_0, q8_0 }, { BLOCK_Q4_K, q4_k }, { BLOCK_Q5_K, q5_k }, { BLOCK_Q6_K, q6_k },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].type == type)
			return table[i].run;
	return NULL;
}

void
matmul_amx(const PackedMatrix *m, const Acts *acts, int32_t first_group, int32_t n_groups,
		   float *out, int64_t out_stride)
{
	GroupMultiply run = group_multiply_find(m->type);
	HalfGroup half = { .format = packed_format(m->type) };
	int32_t n_tiled = acts->n_tokens - acts->n_tokens % ACT_TILE_TOKENS;

	if (run == NULL || acts->n_tokens < FEWEST)
	{
		matmul_vnni(m, acts, first_group, n_groups, out, out_stride);
		return;
	}
	packed_planes(half.format, m->n_cols, &half.planes);
	for (int32_t g = first_group; g < first_group + n_groups; g++)
	{
		int32_t row = g * KERNEL_ROW_GROUP;

		half.group = (const char *) m->data + (size_t) g * half.planes.group_bytes;
		half.next = half.group + half.planes.group_bytes;
		half.n_lanes = m->n_rows - row < KERNEL_ROW_GROUP ? m->n_rows - row : KERNEL_ROW_GROUP;
		run(&half, acts, out + row, out_stride);
		if (n_tiled < acts->n_tokens)
			matmul_vnni_rest(m, acts, n_tiled, g, 1, out, out_stride);
	}
	/* Leaves the registers clean: what is in use the kernel saves at every switch. */
	_tile_release();
}

void
kernels_fill_amx(Kernels *kernels)
{
	kernels->matmul = matmul_amx;
}
