/*
 * Every variant of every kernel that this machine has, against the scalar reference, bit for bit;
 * and the reference against the golden rows.
 */
#include "engine/model/gguf.h"
#include "kernels/blocks.h"
#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD 12345.5f

static const uint32_t types[] = { BLOCK_F32,  BLOCK_F16,  BLOCK_BF16, BLOCK_Q4_0,
								  BLOCK_Q4_1, BLOCK_Q5_0, BLOCK_Q5_1, BLOCK_Q8_0,
								  BLOCK_Q4_K, BLOCK_Q5_K, BLOCK_Q6_K };
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static uint32_t random_state = 1;

static uint32_t
random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

static float
random_float(void)
{
	return ((float) (random_next() >> 8) / 8388608.0f - 1.0f) * 3.0f;
}

/* A half that is small, finite and of either sign. */
static uint16_t
random_half(void)
{
	return (uint16_t) ((random_next() & 0x83ff) | (5 + random_next() % 8) << 10);
}

static size_t
row_bytes(uint32_t type, int32_t n_cols)
{
	switch (type)
	{
		case BLOCK_F32:
			return 4 * (size_t) n_cols;
		case BLOCK_F16:
		case BLOCK_BF16:
			return 2 * (size_t) n_cols;
		case BLOCK_Q4_0:
			return sizeof(BlockQ4_0) * (size_t) n_cols / 32;
		case BLOCK_Q4_1:
			return sizeof(BlockQ4_1) * (size_t) n_cols / 32;
		case BLOCK_Q5_0:
			return sizeof(BlockQ5_0) * (size_t) n_cols / 32;
		case BLOCK_Q5_1:
			return sizeof(BlockQ5_1) * (size_t) n_cols / 32;
		case BLOCK_Q8_0:
			return sizeof(BlockQ8_0) * (size_t) n_cols / 32;
		case BLOCK_Q4_K:
			return sizeof(BlockQ4_K) * (size_t) n_cols / 256;
		case BLOCK_Q5_K:
			return sizeof(BlockQ5_K) * (size_t) n_cols / 256;
		default:
			return sizeof(BlockQ6_K) * (size_t) n_cols / 256;
	}
}

/* Random bytes with the scales replaced by sane ones. */
static void *
random_rows(uint32_t type, int32_t n_rows, int32_t n_cols)
{
	size_t n = row_bytes(type, n_cols) * (size_t) n_rows;
	unsigned char *rows = malloc(n);

	for (size_t i = 0; i < n; i++)
		rows[i] = (unsigned char) random_next();
	for (size_t i = 0; type == BLOCK_F32 && i < n / 4; i++)
		((float *) (void *) rows)[i] = random_float();
	for (size_t i = 0; type == BLOCK_F16 && i < n / 2; i++)
		((uint16_t *) (void *) rows)[i] = random_half();
	for (size_t i = 0; type == BLOCK_BF16 && i < n / 2; i++)
		((uint16_t *) (void *) rows)[i] =
			(uint16_t) ((random_next() & 0x807f) | (120 + random_next() % 8) << 7);
#define SET(Block, field)                                                                          \
	for (size_t i = 0; i < n / sizeof(Block); i++)                                                 \
	((Block *) (void *) rows)[i].field = random_half()
	if (type == BLOCK_Q4_0)
		SET(BlockQ4_0, d);
	if (type == BLOCK_Q4_1)
	{
		SET(BlockQ4_1, d);
		SET(BlockQ4_1, m);
	}
	if (type == BLOCK_Q5_0)
		SET(BlockQ5_0, d);
	if (type == BLOCK_Q5_1)
	{
		SET(BlockQ5_1, d);
		SET(BlockQ5_1, m);
	}
	if (type == BLOCK_Q8_0)
		SET(BlockQ8_0, d);
	if (type == BLOCK_Q4_K)
	{
		SET(BlockQ4_K, d);
		SET(BlockQ4_K, dmin);
	}
	if (type == BLOCK_Q5_K)
	{
		SET(BlockQ5_K, d);
		SET(BlockQ5_K, dmin);
	}
	if (type == BLOCK_Q6_K)
		SET(BlockQ6_K, d);
#undef SET
	return rows;
}

static PackedMatrix
pack(uint32_t type, const void *rows, int32_t n_rows, int32_t n_cols)
{
	size_t n = packed_bytes(type, n_rows, n_cols);
	void *data = aligned_alloc(64, n);

	matrix_pack(type, rows, n_rows, n_cols, 0, (n_rows + 15) / 16, data);
	return (PackedMatrix){ type, n_rows, n_cols, data, n };
}

static float *
random_vector(size_t n)
{
	float *x = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);

	for (size_t i = 0; i < n; i++)
		x[i] = random_float();
	return x;
}

/* The variants beside the reference that this machine has. */
static int
variants(Kernels *out)
{
	int n = 0;

	for (int isa = KERNEL_AVX2; isa < KERNEL_N_ISAS; isa++)
	{
		if (kernels_for_isa((KernelIsa) isa, &out[n]))
			n++;
		else
			print_message("skipped: this machine has no %s\n", kernel_isa_name((KernelIsa) isa));
	}
	return n;
}

static Kernels
reference(void)
{
	Kernels k;

	assert_true(kernels_for_isa(KERNEL_REF, &k));
	return k;
}

static void
packed_rows_give_back_what_the_file_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < N_TYPES; i++)
	{
		const int32_t n_rows = 21, n_cols = 512;
		char *rows = random_rows(types[i], n_rows, n_cols);
		PackedMatrix m = pack(types[i], rows, n_rows, n_cols);
		float from_file[512], from_packed[512];

		for (int32_t r = 0; r < n_rows; r++)
		{
			assert_true(dequantize_row(types[i], rows + (size_t) r * row_bytes(types[i], n_cols),
									   n_cols, from_file));
			packed_row(&m, r, from_packed);
			assert_memory_equal(from_file, from_packed, sizeof(from_file));
		}
		free((void *) m.data);
		free(rows);
	}
}

/* Products by `k` of all tokens at once into out with a guard behind every row of outputs. */
static void
multiply(const Kernels *k, const PackedMatrix *m, const float *x, int32_t n_tokens, float *out)
{
	int64_t stride = m->n_rows + 3;
	void *memory = aligned_alloc(64, acts_bytes(n_tokens, m->n_cols) + 64);
	Acts acts;

	for (int64_t i = 0; i < stride * n_tokens; i++)
		out[i] = GUARD;
	acts_place(&acts, n_tokens, m->n_cols, x, memory);
	if (packed_act_kind(m->type) == ACT_CODES)
		k->quantize_acts(&acts, 0, n_tokens);
	k->matmul(m, &acts, 0, (m->n_rows + 15) / 16, out, stride);
	for (int32_t t = 0; t < n_tokens; t++)
		for (int64_t i = m->n_rows; i < stride; i++)
			assert_true(out[t * stride + i] == GUARD);
	free(memory);
}

static void
matmul_is_equal_in_every_variant_and_at_every_number_of_tokens(void **state)
{
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);

	(void) state;
	for (size_t i = 0; i < N_TYPES; i++)
	{
		const int32_t n_rows = 37, n_cols = 1280, max_tokens = 33;
		char *rows = random_rows(types[i], n_rows, n_cols);
		PackedMatrix m = pack(types[i], rows, n_rows, n_cols);
		float *x = random_vector((size_t) n_cols * (size_t) max_tokens);
		size_t n_out = (size_t) (n_rows + 3) * (size_t) max_tokens;
		float *expected = malloc(n_out * sizeof(float));
		float *got = malloc(n_out * sizeof(float));

		memset(x + 64, 0, 32 * sizeof(float)); /* a block of zeros */
		multiply(&ref, &m, x, max_tokens, expected);
		for (int v = 0; v < n_variants; v++)
			for (int32_t n = 1; n <= max_tokens; n++)
			{
				multiply(&all[v], &m, x, n, got);
				assert_memory_equal(got, expected,
									(size_t) (n_rows + 3) * (size_t) n * sizeof(float));
			}
		free(expected);
		free(got);
		free(x);
		free((void *) m.data);
		free(rows);
	}
}

static void
matmul_is_close_to_the_product_of_the_values(void **state)
{
	Kernels ref = reference();

	(void) state;
	for (size_t i = 0; i < N_TYPES; i++)
	{
		const int32_t n_rows = 16, n_cols = 512;
		char *rows = random_rows(types[i], n_rows, n_cols);
		PackedMatrix m = pack(types[i], rows, n_rows, n_cols);
		float *x = random_vector((size_t) n_cols);
		float got[19], values[512];
		double error = 0, norm = 0;

		multiply(&ref, &m, x, 1, got);
		for (int32_t r = 0; r < n_rows; r++)
		{
			double dot = 0;

			dequantize_row(types[i], rows + (size_t) r * row_bytes(types[i], n_cols), n_cols,
						   values);
			for (int32_t c = 0; c < n_cols; c++)
				dot += (double) values[c] * (double) x[c];
			error += (dot - (double) got[r]) * (dot - (double) got[r]);
			norm += dot * dot;
		}
		assert_true(error / norm < (packed_act_kind(types[i]) == ACT_CODES ? 1e-4 : 1e-11));
		free(x);
		free((void *) m.data);
		free(rows);
	}
}

/* All bits of all codes set, and activations as large as they get: sums in 16 bits come closest to
 * overflowing. */
static void
largest_codes_are_equal_in_every_variant(void **state)
{
	static const struct
	{
		uint32_t type;
		size_t block_bytes;
		size_t half_at[2]; /* where a block has its scale, and its minimum */
	} formats[] = {
		{ BLOCK_Q4_0, sizeof(BlockQ4_0), { 0, 0 } },
		{ BLOCK_Q4_1, sizeof(BlockQ4_1), { 0, 2 } },
		{ BLOCK_Q5_0, sizeof(BlockQ5_0), { 0, 0 } },
		{ BLOCK_Q5_1, sizeof(BlockQ5_1), { 0, 2 } },
		{ BLOCK_Q8_0, sizeof(BlockQ8_0), { 0, 0 } },
		{ BLOCK_Q4_K, sizeof(BlockQ4_K), { 0, 2 } },
		{ BLOCK_Q5_K, sizeof(BlockQ5_K), { 0, 2 } },
		{ BLOCK_Q6_K, sizeof(BlockQ6_K), { offsetof(BlockQ6_K, d), offsetof(BlockQ6_K, d) } },
	};
	static const uint8_t fills[] = { 0xff, 0x7f, 0x80, 0x00 };
	const int32_t n_rows = 16, n_cols = 512, n_tokens = 2;
	const uint16_t one = 0x3c00;
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);
	float x[2 * 512], expected[2 * 19], got[2 * 19];

	(void) state;
	for (int32_t i = 0; i < n_cols; i++)
	{
		x[i] = 1.0f;
		x[n_cols + i] = -1.0f;
	}
	for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]) * sizeof(fills); f++)
	{
		uint32_t type = formats[f / sizeof(fills)].type;
		size_t n_bytes = row_bytes(type, n_cols) * (size_t) n_rows;
		char *rows = malloc(n_bytes);
		PackedMatrix m;

		memset(rows, fills[f % sizeof(fills)], n_bytes);
		for (size_t b = 0; b < n_bytes; b += formats[f / sizeof(fills)].block_bytes)
			for (int h = 0; h < 2; h++)
				memcpy(rows + b + formats[f / sizeof(fills)].half_at[h], &one, sizeof(one));
		m = pack(type, rows, n_rows, n_cols);
		multiply(&ref, &m, x, n_tokens, expected);
		for (int v = 0; v < n_variants; v++)
		{
			multiply(&all[v], &m, x, n_tokens, got);
			assert_memory_equal(got, expected, sizeof(got));
		}
		free((void *) m.data);
		free(rows);
	}
}

static void
quantized_activations_are_equal_in_every_variant(void **state)
{
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);
	const int32_t n_cols = 320, n_tokens = 35;
	float *x = random_vector((size_t) n_cols * (size_t) n_tokens);
	size_t n = acts_bytes(n_tokens, n_cols);
	char *expected = aligned_alloc(64, n), *got = aligned_alloc(64, n);
	Acts acts;

	(void) state;
	for (int i = 0; i < 32; i++)
		x[32 + i] = 0.0f;
	x[70] = NAN;
	x[100] = INFINITY;
	x[130] = 1e-40f;
	memset(expected, 0, n);
	acts_place(&acts, n_tokens, n_cols, x, expected);
	ref.quantize_acts(&acts, 0, n_tokens);
	assert_true(acts.scale[acts_place_of(&acts, 0, 1)] == 0.0f);
	for (int v = 0; v < n_variants; v++)
	{
		memset(got, 0, n);
		acts_place(&acts, n_tokens, n_cols, x, got);
		all[v].quantize_acts(&acts, 0, 16);
		all[v].quantize_acts(&acts, 16, 19);
		assert_memory_equal(got, expected, n);
	}
	free(x);
	free(expected);
	free(got);
}

static void
vector_operations_are_equal_in_every_variant(void **state)
{
	static const int32_t lengths[] = { 1, 15, 16, 17, 64, 100, 576 };
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);

	(void) state;
	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
	{
		int32_t n = lengths[l];
		size_t n_bytes = (size_t) n * sizeof(float);
		float *x = random_vector((size_t) n), *y = random_vector((size_t) n);
		float expected[576], got[576], sum;

		x[n / 2] = 100.0f;
		y[n / 3] = -90.0f;
		for (int v = 0; v < n_variants; v++)
		{
			ref.rms_norm(x, y, n, 1e-5f, expected);
			all[v].rms_norm(x, y, n, 1e-5f, got);
			assert_memory_equal(got, expected, n_bytes);
			ref.swiglu(x, y, n, expected);
			all[v].swiglu(x, y, n, got);
			assert_memory_equal(got, expected, n_bytes);
			sum = ref.exp_sum(y, n, 3.0f, expected);
			assert_true(all[v].exp_sum(y, n, 3.0f, got) == sum);
			assert_memory_equal(got, expected, n_bytes);
			memcpy(expected, x, n_bytes);
			memcpy(got, x, n_bytes);
			ref.add(expected, y, n);
			all[v].add(got, y, n);
			assert_memory_equal(got, expected, n_bytes);
			assert_int_equal(all[v].argmax(x, n), ref.argmax(x, n));
		}
		free(x);
		free(y);
	}
}

static void
argmax_takes_the_first_of_equals_and_never_nan(void **state)
{
	Kernels all[KERNEL_N_ISAS];
	float x[40];
	int n = variants(all);

	(void) state;
	all[n++] = reference();
	for (int i = 0; i < 40; i++)
		x[i] = NAN;
	x[7] = x[23] = 2.0f;
	x[30] = 1.0f;
	for (int v = 0; v < n; v++)
		assert_int_equal(all[v].argmax(x, 40), 7);
}

static void
max_finite_is_equal_in_every_variant(void **state)
{
	static const float odd[] = { 0.0f, -0.0f, NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e-40f };
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);

	(void) state;
	for (int32_t n = 0; n < 70; n++)
		for (size_t o = 0; o < sizeof(odd) / sizeof(odd[0]); o++)
		{
			float *x = random_vector(70);
			bool expected_finite, finite;
			float expected, got;

			for (int32_t i = 0; i < n; i++)
				x[i] = n % 2 == 0 ? -fabsf(x[i]) : x[i];
			x[n / 2] = odd[o];
			x[n / 3] = odd[o];
			expected = ref.max_finite(x, n, &expected_finite);
			assert_int_equal(expected_finite, n == 0 || isfinite(odd[o]));
			for (int v = 0; v < n_variants; v++)
			{
				got = all[v].max_finite(x, n, &finite);
				assert_memory_equal(&got, &expected, sizeof(got));
				assert_int_equal(finite, expected_finite);
			}
			free(x);
		}
}

/* Also what lies behind the rotated elements, and between the halves, stays as it was. */
static void
rope_is_equal_in_every_variant(void **state)
{
	static const int32_t rotated[] = { 2, 6, 16, 20, 32, 64, 72, 96, 128 };
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);

	(void) state;
	for (size_t r = 0; r < sizeof(rotated) / sizeof(rotated[0]); r++)
		for (int interleaved = 0; interleaved < 2; interleaved++)
		{
			float *x = random_vector(160), *angles = random_vector(128);
			float expected[160], got[160];

			memcpy(expected, x, sizeof(expected));
			ref.rope(expected, angles, angles + 64, rotated[r], interleaved);
			assert_true(expected[0] != x[0]);
			assert_memory_equal(expected + rotated[r], x + rotated[r],
								(size_t) (160 - rotated[r]) * sizeof(float));
			for (int v = 0; v < n_variants; v++)
			{
				memcpy(got, x, sizeof(got));
				all[v].rope(got, angles, angles + 64, rotated[r], interleaved);
				assert_memory_equal(got, expected, sizeof(got));
			}
			free(x);
			free(angles);
		}
}

static void
kv_write_is_equal_in_every_variant(void **state)
{
	static const float odd[] = { NAN, INFINITY, -1e6f, 65519.0f, 65520.0f, 1e-6f, 3e-8f, -0.0f };
	static const int32_t head_dims[] = { 8, 20, 64, 72, 128 };
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);

	(void) state;
	for (size_t d = 0; d < sizeof(head_dims) / sizeof(head_dims[0]); d++)
		for (int type = KV_F16; type <= KV_F32; type++)
		{
			int32_t head_dim = head_dims[d];
			size_t head_bytes = 2 * 16 * (size_t) head_dim * (type == KV_F16 ? 2 : 4);
			size_t n_bytes = 2 * 3 * head_bytes; /* 2 pages of 3 heads */
			KvLayer kv = { NULL, 3 * head_bytes, head_bytes, (KvType) type, 3, head_dim };
			float *k = random_vector(3 * 128), *v = random_vector(3 * 128);
			char *expected = calloc(1, n_bytes), *got = malloc(n_bytes);

			memcpy(k, odd, sizeof(odd));
			memcpy(v + 2 * head_dim, odd, sizeof(odd));
			for (int32_t slot = 0; slot < 16; slot += 5)
			{
				kv.base = expected;
				ref.kv_write(&kv, 1, slot, k, v);
			}
			for (int i = 0; i < n_variants; i++)
			{
				memset(got, 0, n_bytes);
				kv.base = got;
				for (int32_t slot = 0; slot < 16; slot += 5)
					all[i].kv_write(&kv, 1, slot, k, v);
				assert_memory_equal(got, expected, n_bytes);
			}
			free(k);
			free(v);
			free(expected);
			free(got);
		}
}

static void
exponential_is_accurate_and_total(void **state)
{
	Kernels k = reference();

	(void) state;
	for (int i = -86; i <= 88; i++)
	{
		float x = (float) i + 0.37f, e;

		if (x > 88.0f)
			break;
		k.exp_sum(&x, 1, 0.0f, &e);
		assert_true(fabs((double) e / exp((double) x) - 1.0) < 3e-7);
	}
	float low = -INFINITY, e;

	k.exp_sum(&low, 1, 0.0f, &e);
	assert_true(e == 0.0f);
}

typedef struct AttentionCase
{
	KvType type;
	int32_t n_group, head_dim, first_position, n_tokens, window;
	float softcap;
} AttentionCase;

static void
attention_is_equal_in_every_variant(void **state)
{
	static const AttentionCase cases[] = {
		{ KV_F16, 1, 64, 0, 1, 0, 0 },		{ KV_F16, 3, 64, 15, 2, 0, 0 },
		{ KV_F32, 3, 64, 40, 17, 0, 0 },	{ KV_F32, 8, 128, 5, 3, 0, 0 },
		{ KV_F16, 5, 80, 100, 1, 0, 0 },	{ KV_F16, 2, 96, 31, 33, 0, 0 },
		{ KV_F32, 4, 72, 30, 4, 0, 0 },		{ KV_F16, 3, 64, 50, 9, 20, 0 },
		{ KV_F32, 1, 64, 33, 5, 16, 50 },	{ KV_F16, 7, 256, 20, 2, 0, 30 },
		{ KV_F32, 1, 20, 20, 2, 0, 0 },		{ KV_F16, 3, 64, 0, 40, 0, 0 },
		{ KV_F16, 2, 64, 60, 24, 3, 0 },	{ KV_F32, 1, 32, 0, 50, 1, 0 },
		{ KV_F16, 6, 128, 130, 16, 40, 0 },
	};
	Kernels all[KERNEL_N_ISAS];
	Kernels ref = reference();
	int n_variants = variants(all);

	(void) state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
	{
		AttentionCase a = cases[c];
		int32_t n_positions = a.first_position + a.n_tokens;
		int32_t n_pages = (n_positions + 15) / 16, n_kv_heads = 2;
		size_t head_bytes = 2 * 16 * (size_t) a.head_dim * (a.type == KV_F16 ? 2 : 4);
		KvLayer kv = { .page_bytes = head_bytes * (size_t) n_kv_heads,
					   .head_bytes = head_bytes,
					   .type = a.type,
					   .n_kv_heads = n_kv_heads,
					   .head_dim = a.head_dim };
		int32_t stride = a.n_group * a.head_dim * n_kv_heads;
		size_t n_q = (size_t) stride * (size_t) a.n_tokens;
		float *q = random_vector(n_q);
		float *expected = calloc(n_q, sizeof(float)), *got = calloc(n_q, sizeof(float));
		void *scratch = aligned_alloc(64, attention_scratch_bytes(n_positions, a.head_dim) + 64);
		int32_t table[16];
		AttentionTask task = { &kv,		 table,	 1,			a.n_group, a.n_tokens, a.first_position,
							   a.window, 0.125f, a.softcap, q,		   expected,   stride };

		/* pages in reverse order; places behind the last position hold NaN, as stale memory may */
		kv.base = aligned_alloc(64, kv.page_bytes * (size_t) n_pages);
		memset(kv.base, 0xff, kv.page_bytes * (size_t) n_pages);
		for (int32_t p = 0; p < n_pages; p++)
			table[p] = n_pages - 1 - p;
		for (int32_t p = 0; p < n_positions; p++)
		{
			float *k = random_vector((size_t) (n_kv_heads * a.head_dim));
			float *v = random_vector((size_t) (n_kv_heads * a.head_dim));

			ref.kv_write(&kv, table[p / 16], p % 16, k, v);
			free(k);
			free(v);
		}
		ref.attention(&task, scratch);
		for (size_t i = 0; i < n_q; i++)
			assert_true(isfinite(expected[i]));
		for (int v = 0; v < n_variants; v++)
		{
			memset(got, 0, n_q * sizeof(float));
			task.out = got;
			all[v].attention(&task, scratch);
			assert_memory_equal(got, expected, n_q * sizeof(float));
		}
		free(kv.base);
		free(scratch);
		free(q);
		free(expected);
		free(got);
	}
}

static void
types_that_do_not_run_have_no_size(void **state)
{
	(void) state;
	assert_false(packed_type_runs(16, 256));
	assert_int_equal(packed_bytes(16, 16, 256), 0);
	assert_int_equal(packed_bytes(BLOCK_Q4_K, 16, 288), 0);
	assert_int_equal(packed_bytes(BLOCK_Q4_0, 0, 32), 0);
	assert_int_equal(packed_bytes(BLOCK_F32, INT32_MAX, 32), 0);
}

static void
golden_rows_are_equal_bit_for_bit(void **state)
{
	static const char *const names[] = { "F16",	 "Q4_0",   "Q4_1",	 "Q5_0",
										 "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K" };
	const char *golden =
		getenv("INFER_GOLDEN") != NULL ? getenv("INFER_GOLDEN") : "../shared/golden";
	int n_compared = 0;

	(void) state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		char path[512];
		unsigned char head[128];
		float expected[1024], got[1024];
		const GgufTensor *tensor;
		Gguf *gguf;
		InferError err;
		FILE *file;
		size_t n_header, n_cols;

		snprintf(path, sizeof(path), "%s/quants/%s.rows.npy", golden, names[i]);
		file = fopen(path, "rb");
		if (file == NULL)
		{
			print_message("skipped: no %s\n", path);
			continue;
		}
		assert_int_equal(fread(head, 1, 10, file), 10);
		n_header = head[8] | (size_t) head[9] << 8;
		assert_int_equal(fseek(file, (long) (10 + n_header), SEEK_SET), 0);
		snprintf(path, sizeof(path), "%s/quants/%s.gguf", golden, names[i]);
		assert_true(gguf_open(path, &gguf, &err));
		tensor = gguf_tensor_find(gguf, "blk.0.ffn_up.weight");
		assert_non_null(tensor);
		n_cols = (size_t) tensor->dims[0];
		assert_true(n_cols <= 1024);
		for (int r = 0; r < 4; r++)
		{
			assert_int_equal(fread(expected, sizeof(float), n_cols, file), n_cols);
			assert_true(dequantize_row(tensor->type,
									   (const char *) tensor->data +
										   (size_t) r * row_bytes(tensor->type, (int32_t) n_cols),
									   (int64_t) n_cols, got));
			assert_memory_equal(got, expected, n_cols * sizeof(float));
			n_compared++;
		}
		gguf_close(gguf);
		fclose(file);
	}
	print_message("%d golden rows compared\n", n_compared);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packed_rows_give_back_what_the_file_says),
		cmocka_unit_test(matmul_is_equal_in_every_variant_and_at_every_number_of_tokens),
		cmocka_unit_test(matmul_is_close_to_the_product_of_the_values),
		cmocka_unit_test(largest_codes_are_equal_in_every_variant),
		cmocka_unit_test(quantized_activations_are_equal_in_every_variant),
		cmocka_unit_test(vector_operations_are_equal_in_every_variant),
		cmocka_unit_test(argmax_takes_the_first_of_equals_and_never_nan),
		cmocka_unit_test(max_finite_is_equal_in_every_variant),
		cmocka_unit_test(rope_is_equal_in_every_variant),
		cmocka_unit_test(kv_write_is_equal_in_every_variant),
		cmocka_unit_test(exponential_is_accurate_and_total),
		cmocka_unit_test(attention_is_equal_in_every_variant),
		cmocka_unit_test(types_that_do_not_run_have_no_size),
		cmocka_unit_test(golden_rows_are_equal_bit_for_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
