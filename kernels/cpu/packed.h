/*
 * packed.h: the layout of packed matrices, private to the kernels. README.md beside kernels.h draws
 * it.
 *
 * A group is 16 rows. Float types: [n_cols][16] elements in the file's own precision. Quantized
 * types are all brought to one scheme of unsigned codes, so that one kernel serves them:
 *
 *   value = scale * (code - zero) + min         per sub-block of 32 (Q6_K: scale per 16)
 *
 * A group is planes behind each other, each starting on 64 bytes:
 *
 *   codes  [n_cols / 32][4][64]  nibbles: byte 4r + b of vector j holds, of row r,
 *                                column 8j + b (low) and column 8j + 4 + b (high)
 *          [n_cols / 32][8][64]  Q8_0: byte 4r + b of vector k is column 4k + b, plus 128
 *   high   [n_cols / 32][1][64]  fifth bits: bit k of byte 4r + b belongs to column 4k + b
 *          [n_cols / 32][2][64]  bits five and six: vector k / 4, bits 2 (k % 4) and up
 *   d      [n_cols / item][16]   f16, item = 32 or 256
 *   m      [n_cols / item][16]   f16: min (Q4_1, Q5_1) or dmin (K)
 *   sc     [n_cols / 32][16]     u8 (Q4_K, Q5_K); [n_cols / 32][2][16] i8 (Q6_K)
 *   mn     [n_cols / 32][16]     u8 (Q4_K, Q5_K)
 */
#ifndef INFER_KERNELS_PACKED_H
#define INFER_KERNELS_PACKED_H

#include "kernels/kernels.h"

typedef enum PackedScheme
{
	SCHEME_FLOAT,  /* elements */
	SCHEME_NIBBLE, /* codes of four bits and n_high planes of more */
	SCHEME_BYTE	   /* codes of eight bits */
} PackedScheme;

typedef enum PackedMin
{
	MIN_NONE,
	MIN_PLUS, /* + m */
	MIN_K	  /* - dmin * mn */
} PackedMin;

typedef struct PackedFormat
{
	uint32_t type;
	PackedScheme scheme;
	int32_t file_items; /* columns of a block in the file */
	int32_t file_bytes;
	int32_t n_high; /* high planes: 0, 1 (five bits), 2 (six bits) */
	int32_t zero;
	int32_t n_scales; /* sub-block scales per 32 columns: 0 (d alone), 1 or 2 */
	PackedMin min;
} PackedFormat;

/* NULL for types that do not run. */
extern const PackedFormat *packed_format(uint32_t type);

/* Offsets of the planes in a group. */
typedef struct PackedPlanes
{
	size_t high;
	size_t d;
	size_t m;
	size_t sc;
	size_t mn;
	size_t group_bytes;
} PackedPlanes;

extern void packed_planes(const PackedFormat *format, int32_t n_cols, PackedPlanes *out);

/* Codes and scales of one 32-column sub-block of one row in the file's form, before interleaving.
 */
typedef struct SubBlock
{
	uint8_t codes[32];
	uint16_t d;
	uint16_t m;
	uint8_t sc[2]; /* as stored: u8, or the bits of an i8 */
	uint8_t mn;
} SubBlock;

extern void sub_block_read(const PackedFormat *format, const void *row, int32_t index,
						   SubBlock *out);

/* f32 values of a sub-block, in the order of operations that defines the format. */
extern void sub_block_values(const PackedFormat *format, const SubBlock *block, float *out);

#endif
