/*
 * gguf_builder.h: GGUF files made in memory, valid or damaged on purpose, for tests and fuzzing.
 *
 *     GgufBuilder b = gguf_begin();
 *     gguf_put_u32(&b, "general.alignment", 64);
 *     gguf_put_tensor(&b, "weight", 2, (uint64_t[]){ 32, 4 }, TENSOR_F32, 0);
 *     gguf_put_data(&b, 32 * 4 * sizeof(float), 64);
 *     ... b.bytes, b.n_bytes ...
 *     gguf_end(&b);
 *
 * Keys go first, then tensors, then data. The header counts what is put; gguf_poke overwrites any
 * number afterwards, which is how a file is damaged. Running out of memory aborts: this is a test.
 */
#ifndef INFER_TEST_GGUF_BUILDER_H
#define INFER_TEST_GGUF_BUILDER_H

#include "engine/model/gguf.h"
#include "engine/model/tensor_type.h"

#include <stdlib.h>
#include <string.h>

#define GGUF_AT_VERSION	  4 /* where the header's fields lie */
#define GGUF_AT_N_TENSORS 8
#define GGUF_AT_N_KEYS	  16

typedef struct GgufBuilder
{
	unsigned char *bytes;
	size_t n_bytes;
	size_t capacity;
} GgufBuilder;

static inline void
gguf_put_bytes(GgufBuilder *b, const void *bytes, size_t n)
{
	if (b->n_bytes + n > b->capacity)
	{
		b->capacity = 2 * (b->n_bytes + n) + 256;
		b->bytes = realloc(b->bytes, b->capacity);
		if (b->bytes == NULL)
			abort();
	}
	if (n > 0)
		memcpy(b->bytes + b->n_bytes, bytes, n);
	b->n_bytes += n;
}

/* The low n_bytes of a number, as the file holds them. */
static inline void
gguf_put_number(GgufBuilder *b, uint64_t number, size_t n_bytes)
{
	gguf_put_bytes(b, &number, n_bytes);
}

static inline void
gguf_poke(GgufBuilder *b, size_t at, uint64_t number, size_t n_bytes)
{
	memcpy(b->bytes + at, &number, n_bytes);
}

static inline void
gguf_count(GgufBuilder *b, size_t at)
{
	uint64_t n;

	memcpy(&n, b->bytes + at, sizeof(n));
	gguf_poke(b, at, n + 1, sizeof(n));
}

static inline GgufBuilder
gguf_begin(void)
{
	GgufBuilder b = { 0 };

	gguf_put_bytes(&b, "GGUF", 4);
	gguf_put_number(&b, 3, 4);
	gguf_put_number(&b, 0, 8);
	gguf_put_number(&b, 0, 8);
	return b;
}

static inline void
gguf_end(GgufBuilder *b)
{
	free(b->bytes);
	memset(b, 0, sizeof(*b));
}

/* A length and the bytes; any byte may be in it. */
static inline void
gguf_put_text(GgufBuilder *b, const char *text, size_t n)
{
	gguf_put_number(b, n, 8);
	gguf_put_bytes(b, text, n);
}

/* ---- metadata ---- */

/* Name and type; the value is up to the caller. `type` may be one that does not exist. */
static inline void
gguf_put_key(GgufBuilder *b, const char *name, uint32_t type)
{
	gguf_count(b, GGUF_AT_N_KEYS);
	gguf_put_text(b, name, strlen(name));
	gguf_put_number(b, type, 4);
}

static inline void
gguf_put_u32(GgufBuilder *b, const char *name, uint32_t value)
{
	gguf_put_key(b, name, GGUF_UINT32);
	gguf_put_number(b, value, 4);
}

static inline void
gguf_put_f32(GgufBuilder *b, const char *name, float value)
{
	gguf_put_key(b, name, GGUF_FLOAT32);
	gguf_put_bytes(b, &value, sizeof(value));
}

static inline void
gguf_put_bool(GgufBuilder *b, const char *name, bool value)
{
	gguf_put_key(b, name, GGUF_BOOL);
	gguf_put_number(b, value, 1);
}

static inline void
gguf_put_string(GgufBuilder *b, const char *name, const char *value)
{
	gguf_put_key(b, name, GGUF_STRING);
	gguf_put_text(b, value, strlen(value));
}

/* The head of an array; its items follow by gguf_put_text, gguf_put_number or gguf_put_bytes. */
static inline void
gguf_put_array(GgufBuilder *b, const char *name, uint32_t item_type, uint64_t n_items)
{
	gguf_put_key(b, name, GGUF_ARRAY);
	gguf_put_number(b, item_type, 4);
	gguf_put_number(b, n_items, 8);
}

static inline void
gguf_put_strings(GgufBuilder *b, const char *name, const char *const *texts, uint64_t n)
{
	gguf_put_array(b, name, GGUF_STRING, n);
	for (uint64_t i = 0; i < n; i++)
		gguf_put_text(b, texts[i], strlen(texts[i]));
}

/* ---- tensors ---- */

static inline void
gguf_put_tensor(GgufBuilder *b, const char *name, uint32_t n_dims, const uint64_t *dims,
				uint32_t type, uint64_t offset)
{
	gguf_count(b, GGUF_AT_N_TENSORS);
	gguf_put_text(b, name, strlen(name));
	gguf_put_number(b, n_dims, 4);
	for (uint32_t i = 0; i < n_dims; i++)
		gguf_put_number(b, dims[i], 8);
	gguf_put_number(b, type, 4);
	gguf_put_number(b, offset, 8);
}

/* Zeros up to the next multiple of `alignment`, then n bytes of data, which is a counting pattern.
 */
static inline void
gguf_put_data(GgufBuilder *b, size_t n, size_t alignment)
{
	while (b->n_bytes % alignment != 0)
		gguf_put_number(b, 0, 1);
	for (size_t i = 0; i < n; i++)
		gguf_put_number(b, i & 0x3F, 1);
}

/* A file of every kind of value and two tensors, some 600 bytes. */
static inline GgufBuilder
gguf_small_file(void)
{
	static const char *const tokens[] = { "<s>", "a", "" };
	GgufBuilder b = gguf_begin();
	double wide = 0.5;

	gguf_put_string(&b, "general.architecture", "llama");
	gguf_put_u32(&b, "general.alignment", 16);
	gguf_put_f32(&b, "eps", 1e-5f);
	gguf_put_bool(&b, "flag", true);
	gguf_put_key(&b, "i8", GGUF_INT8);
	gguf_put_number(&b, 0xFE, 1);
	gguf_put_key(&b, "u64", GGUF_UINT64);
	gguf_put_number(&b, UINT64_MAX, 8);
	gguf_put_key(&b, "f64", GGUF_FLOAT64);
	gguf_put_bytes(&b, &wide, sizeof(wide));
	gguf_put_strings(&b, "tokens", tokens, 3);
	gguf_put_array(&b, "types", GGUF_INT32, 2);
	gguf_put_number(&b, 0x300000007, 8);
	gguf_put_array(&b, "scores", GGUF_FLOAT32, 1);
	gguf_put_number(&b, 0x3F800000, 4);
	gguf_put_array(&b, "bools", GGUF_BOOL, 3);
	gguf_put_number(&b, 0x010001, 3);
	gguf_put_array(&b, "nothing", GGUF_STRING, 0);
	gguf_put_tensor(&b, "weight", 2, (uint64_t[]){ 32, 1 }, TENSOR_Q8_0, 0);
	gguf_put_tensor(&b, "norm", 1, (uint64_t[]){ 5 }, TENSOR_F32, 48);
	gguf_put_data(&b, 48 + 5 * sizeof(float), 16);
	return b;
}

/* ---- reading everything that an open file offers, so that a sanitizer sees each byte ---- */

static inline uint64_t
gguf_bytes_sum(const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += at[i];
	return sum;
}

static inline uint64_t
gguf_array_sum(const GgufArray *array)
{
	uint64_t sum = array->n_items;

	for (uint64_t i = 0; i < array->n_items; i++)
	{
		int64_t integer = 0;
		float real = 0;

		if (array->texts != NULL)
			sum += gguf_bytes_sum(array->texts[i].bytes, array->texts[i].n_bytes);
		if (gguf_array_i64(array, i, &integer))
			sum += (uint64_t) integer;
		if (gguf_array_f32(array, i, &real))
			sum++;
	}
	return sum;
}

/* Every getter on one key: at most one of them fits, the others must refuse. */
static inline uint64_t
gguf_key_sum(const Gguf *gguf, const char *name)
{
	GgufText text = { NULL, 0 };
	GgufArray array = { 0 };
	uint32_t number = 0;
	bool flag = false;
	float real = 0;
	InferError err;
	uint64_t sum = 0;

	if (gguf_get_text(gguf, name, &text, &err))
		sum += gguf_bytes_sum(text.bytes, text.n_bytes);
	if (gguf_get_array(gguf, name, &array, &err))
		sum += gguf_array_sum(&array);
	if (gguf_get_u32(gguf, name, &number, &err))
		sum += number;
	if (gguf_get_bool(gguf, name, &flag, &err))
		sum += flag;
	if (gguf_get_f32(gguf, name, &real, &err))
		sum += real > 0;
	return sum;
}

/* A number that depends on all of it. */
static inline uint64_t
gguf_read_all(const Gguf *gguf)
{
	uint64_t sum = gguf_version(gguf);
	char name[256];

	for (size_t i = 0; i < gguf_key_count(gguf); i++)
	{
		GgufValueType type;
		GgufText key = gguf_key_at(gguf, i, &type);
		size_t n = key.n_bytes < sizeof(name) ? key.n_bytes : sizeof(name) - 1;

		memcpy(name, key.bytes, n);
		name[n] = '\0';
		sum += (uint64_t) type + gguf_key_sum(gguf, name);
	}
	for (size_t i = 0; i < gguf_tensor_count(gguf); i++)
	{
		const GgufTensor *tensor = gguf_tensor_at(gguf, i);

		if (gguf_tensor_find(gguf, tensor->name) != tensor)
			abort();
		sum += gguf_bytes_sum(tensor->data, (size_t) tensor->n_bytes);
	}
	return sum;
}

#endif
