/*
 * pack.c: from the file's rows to groups of 16 interleaved rows, and back for single rows.
 */
#include "kernels/blocks.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/packed.h"

#include <string.h>

#define PLANE_ALIGNMENT ((size_t) 64)

static size_t
plane_align(size_t n_bytes)
{
	return (n_bytes + PLANE_ALIGNMENT - 1) & ~(PLANE_ALIGNMENT - 1);
}

void
packed_planes(const PackedFormat *format, int32_t n_cols, PackedPlanes *out)
{
	size_t n_sub = (size_t) n_cols / 32;
	size_t n_blocks = (size_t) n_cols / (size_t) format->file_items;
	size_t at;

	memset(out, 0, sizeof(*out));
	if (format->scheme == SCHEME_FLOAT)
	{
		out->group_bytes =
			plane_align((size_t) n_cols * KERNEL_ROW_GROUP * (size_t) format->file_bytes);
		return;
	}
	at = n_sub * (format->scheme == SCHEME_BYTE ? 512 : 256);
	out->high = at;
	at += n_sub * 64 * (size_t) format->n_high;
	out->d = at;
	at = plane_align(at + n_blocks * 2 * KERNEL_ROW_GROUP);
	out->m = at;
	if (format->min != MIN_NONE)
		at = plane_align(at + n_blocks * 2 * KERNEL_ROW_GROUP);
	out->sc = at;
	at = plane_align(at + n_sub * KERNEL_ROW_GROUP * (size_t) format->n_scales);
	out->mn = at;
	if (format->min == MIN_K)
		at = plane_align(at + n_sub * KERNEL_ROW_GROUP);
	out->group_bytes = at;
}

bool
packed_type_runs(uint32_t type, int64_t n_cols)
{
	const PackedFormat *format = packed_format(type);

	return format != NULL && n_cols > 0 && n_cols <= INT32_MAX && n_cols % format->file_items == 0;
}

ActKind
packed_act_kind(uint32_t type)
{
	const PackedFormat *format = packed_format(type);

	return format != NULL && format->scheme != SCHEME_FLOAT ? ACT_CODES : ACT_F32;
}

size_t
packed_bytes(uint32_t type, int64_t n_rows, int64_t n_cols)
{
	PackedPlanes planes;
	size_t n_groups;

	if (!packed_type_runs(type, n_cols) || n_rows <= 0 || n_rows > INT32_MAX - KERNEL_ROW_GROUP)
		return 0;
	packed_planes(packed_format(type), (int32_t) n_cols, &planes);
	n_groups = ((size_t) n_rows + KERNEL_ROW_GROUP - 1) / KERNEL_ROW_GROUP;
	return planes.group_bytes > SIZE_MAX / n_groups ? 0 : planes.group_bytes * n_groups;
}

static void
float_row_pack(const PackedFormat *format, const char *row, int32_t n_cols, int lane, char *group)
{
	size_t n = (size_t) format->file_bytes;

	for (int32_t c = 0; c < n_cols; c++)
		memcpy(group + ((size_t) c * KERNEL_ROW_GROUP + (size_t) lane) * n, row + (size_t) c * n,
			   n);
}

static void
codes_pack(const PackedFormat *format, const SubBlock *block, int lane, uint8_t *codes,
		   uint8_t *high)
{
	for (int c = 0; c < 32; c++)
	{
		int k = c / 4;
		int byte = 4 * lane + c % 4;

		if (format->scheme == SCHEME_BYTE)
			codes[64 * k + byte] = block->codes[c];
		else
			codes[64 * (k / 2) + byte] |= (uint8_t) ((block->codes[c] & 0x0f) << 4 * (k % 2));
		if (format->n_high == 1)
			high[byte] |= (uint8_t) ((block->codes[c] >> 4 & 1) << k);
		else if (format->n_high == 2)
			high[64 * (k / 4) + byte] |= (uint8_t) ((block->codes[c] >> 4 & 3) << 2 * (k % 4));
	}
}

static void
quantized_row_pack(const PackedFormat *format, const PackedPlanes *planes, const char *row,
				   int32_t n_cols, int lane, char *group)
{
	size_t code_bytes = format->scheme == SCHEME_BYTE ? 512 : 256;
	int32_t per_block = format->file_items / 32;

	for (int32_t s = 0; s < n_cols / 32; s++)
	{
		size_t at = (size_t) s;
		size_t scale_at = (at / (size_t) per_block * KERNEL_ROW_GROUP + (size_t) lane) * 2;
		SubBlock block;

		sub_block_read(format, row, s, &block);
		codes_pack(format, &block, lane, (uint8_t *) group + at * code_bytes,
				   (uint8_t *) group + planes->high + at * 64 * (size_t) format->n_high);
		memcpy(group + planes->d + scale_at, &block.d, 2);
		if (format->min != MIN_NONE)
			memcpy(group + planes->m + scale_at, &block.m, 2);
		for (int i = 0; i < format->n_scales; i++)
			group[planes->sc + (at * (size_t) format->n_scales + (size_t) i) * KERNEL_ROW_GROUP +
				  (size_t) lane] = (char) block.sc[i];
		if (format->min == MIN_K)
			group[planes->mn + at * KERNEL_ROW_GROUP + (size_t) lane] = (char) block.mn;
	}
}

void
matrix_pack(uint32_t type, const void *rows, int32_t n_rows, int32_t n_cols, int32_t first_group,
			int32_t n_groups, void *packed)
{
	const PackedFormat *format = packed_format(type);
	size_t row_bytes = (size_t) (n_cols / format->file_items) * (size_t) format->file_bytes;
	PackedPlanes planes;

	packed_planes(format, n_cols, &planes);
	for (int32_t g = first_group; g < first_group + n_groups; g++)
	{
		char *group = (char *) packed + (size_t) g * planes.group_bytes;

		memset(group, 0, planes.group_bytes);
		for (int lane = 0; lane < KERNEL_ROW_GROUP; lane++)
		{
			int64_t row = (int64_t) g * KERNEL_ROW_GROUP + lane;
			const char *from = (const char *) rows + (size_t) row * row_bytes;

			if (row >= n_rows)
				break;
			if (format->scheme == SCHEME_FLOAT)
				float_row_pack(format, from, n_cols, lane, group);
			else
				quantized_row_pack(format, &planes, from, n_cols, lane, group);
		}
	}
}

static float
element_read(uint32_t type, const char *at)
{
	uint16_t bits;
	float f;

	if (type == BLOCK_F32)
	{
		memcpy(&f, at, sizeof(f));
		return f;
	}
	memcpy(&bits, at, sizeof(bits));
	return type == BLOCK_F16 ? half_to_float(bits) : bfloat_to_float(bits);
}

/* Sub-block s of one lane, gathered back out of the planes. */
static void
sub_block_gather(const PackedFormat *format, const PackedPlanes *planes, const char *group,
				 int lane, int32_t s, SubBlock *out)
{
	size_t at = (size_t) s;
	const uint8_t *codes =
		(const uint8_t *) group + at * (format->scheme == SCHEME_BYTE ? 512 : 256);
	const uint8_t *high =
		(const uint8_t *) group + planes->high + at * 64 * (size_t) format->n_high;
	size_t scale_at =
		(at / (size_t) (format->file_items / 32) * KERNEL_ROW_GROUP + (size_t) lane) * 2;

	memset(out, 0, sizeof(*out));
	for (int c = 0; c < 32; c++)
	{
		int k = c / 4;
		int byte = 4 * lane + c % 4;

		if (format->scheme == SCHEME_BYTE)
			out->codes[c] = codes[64 * k + byte];
		else
			out->codes[c] = (uint8_t) (codes[64 * (k / 2) + byte] >> 4 * (k % 2) & 0x0f);
		if (format->n_high == 1)
			out->codes[c] |= (uint8_t) ((high[byte] >> k & 1) << 4);
		else if (format->n_high == 2)
			out->codes[c] |= (uint8_t) ((high[64 * (k / 4) + byte] >> 2 * (k % 4) & 3) << 4);
	}
	memcpy(&out->d, group + planes->d + scale_at, 2);
	if (format->min != MIN_NONE)
		memcpy(&out->m, group + planes->m + scale_at, 2);
	for (int i = 0; i < format->n_scales; i++)
		out->sc[i] = (uint8_t)
			group[planes->sc + (at * (size_t) format->n_scales + (size_t) i) * KERNEL_ROW_GROUP +
				  (size_t) lane];
	if (format->min == MIN_K)
		out->mn = (uint8_t) group[planes->mn + at * KERNEL_ROW_GROUP + (size_t) lane];
}

void
packed_row(const PackedMatrix *m, int32_t row, float *out)
{
	const PackedFormat *format = packed_format(m->type);
	int lane = row % KERNEL_ROW_GROUP;
	PackedPlanes planes;
	const char *group;

	packed_planes(format, m->n_cols, &planes);
	group = (const char *) m->data + (size_t) (row / KERNEL_ROW_GROUP) * planes.group_bytes;
	if (format->scheme == SCHEME_FLOAT)
	{
		size_t n = (size_t) format->file_bytes;

		for (int32_t c = 0; c < m->n_cols; c++)
			out[c] =
				element_read(m->type, group + ((size_t) c * KERNEL_ROW_GROUP + (size_t) lane) * n);
		return;
	}
	for (int32_t s = 0; s < m->n_cols / 32; s++)
	{
		SubBlock block;

		sub_block_gather(format, &planes, group, lane, s, &block);
		sub_block_values(format, &block, out + 32 * (size_t) s);
	}
}

bool
dequantize_row(uint32_t type, const void *row, int64_t n_cols, float *out)
{
	const PackedFormat *format = packed_format(type);

	if (!packed_type_runs(type, n_cols))
		return false;
	if (format->scheme == SCHEME_FLOAT)
	{
		for (int64_t c = 0; c < n_cols; c++)
			out[c] =
				element_read(type, (const char *) row + (size_t) c * (size_t) format->file_bytes);
		return true;
	}
	for (int32_t s = 0; s < (int32_t) (n_cols / 32); s++)
	{
		SubBlock block;

		sub_block_read(format, row, s, &block);
		sub_block_values(format, &block, out + 32 * (size_t) s);
	}
	return true;
}
