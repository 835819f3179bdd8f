#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gguf_file.h"

static const struct
{
	const char *name;
	size_t n_bytes;
} value_types[GGUF_N_VALUE_TYPES] = {
	[GGUF_UINT8] = { "uint8", 1 },	   [GGUF_INT8] = { "int8", 1 },
	[GGUF_UINT16] = { "uint16", 2 },   [GGUF_INT16] = { "int16", 2 },
	[GGUF_UINT32] = { "uint32", 4 },   [GGUF_INT32] = { "int32", 4 },
	[GGUF_FLOAT32] = { "float32", 4 }, [GGUF_BOOL] = { "bool", 1 },
	[GGUF_STRING] = { "string", 0 },   [GGUF_ARRAY] = { "array", 0 },
	[GGUF_UINT64] = { "uint64", 8 },   [GGUF_INT64] = { "int64", 8 },
	[GGUF_FLOAT64] = { "float64", 8 },
};

size_t
gguf_scalar_bytes(uint32_t type)
{
	return type < GGUF_N_VALUE_TYPES ? value_types[type].n_bytes : 0;
}

const char *
gguf_type_name(uint32_t type)
{
	return type < GGUF_N_VALUE_TYPES ? value_types[type].name : "unknown";
}

int
gguf_text_compare(GgufText a, GgufText b)
{
	if (a.n_bytes != b.n_bytes)
		return a.n_bytes < b.n_bytes ? -1 : 1;
	return a.n_bytes == 0 ? 0 : memcmp(a.bytes, b.bytes, a.n_bytes);
}

GgufPrintable
gguf_printable(GgufText text)
{
	GgufPrintable out;
	size_t n_max = sizeof(out.text) - 1;
	bool cut = text.n_bytes > n_max;
	size_t n = cut ? n_max - 3 : text.n_bytes;

	for (size_t i = 0; i < n; i++)
	{
		unsigned char c = (unsigned char) text.bytes[i];

		out.text[i] = c < ' ' || c > '~' ? '?' : (char) c;
	}
	memcpy(out.text + n, cut ? "..." : "", cut ? 4 : 1);
	return out;
}

/* ---- the file and its tables ---- */

const char *
gguf_name(const Gguf *gguf)
{
	return gguf->name;
}

const void *
gguf_bytes(const Gguf *gguf, size_t *n_bytes)
{
	*n_bytes = gguf->n_bytes;
	return gguf->bytes;
}

uint64_t
gguf_file_bytes(const Gguf *gguf)
{
	return gguf->n_bytes;
}

uint32_t
gguf_version(const Gguf *gguf)
{
	return gguf->version;
}

size_t
gguf_tensor_count(const Gguf *gguf)
{
	return gguf->n_tensors;
}

const GgufTensor *
gguf_tensor_at(const Gguf *gguf, size_t index)
{
	return index < gguf->n_tensors ? &gguf->tensors[index] : NULL;
}

const GgufTensor *
gguf_tensor_find(const Gguf *gguf, const char *name)
{
	size_t low = 0;
	size_t high = gguf->n_tensors;

	while (low < high)
	{
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, gguf->tensors_by_name[middle]->name);

		if (order == 0)
			return gguf->tensors_by_name[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

size_t
gguf_key_count(const Gguf *gguf)
{
	return gguf->n_keys;
}

GgufText
gguf_key_at(const Gguf *gguf, size_t index, GgufValueType *type)
{
	if (index >= gguf->n_keys)
		return (GgufText){ "", 0 };
	*type = gguf->keys[index].type;
	return gguf->keys[index].name;
}

static const GgufKey *
key_find(const Gguf *gguf, const char *name)
{
	GgufText wanted = { name, strlen(name) };
	size_t low = 0;
	size_t high = gguf->n_keys;

	while (low < high)
	{
		size_t middle = low + (high - low) / 2;
		int order = gguf_text_compare(wanted, gguf->keys_by_name[middle]->name);

		if (order == 0)
			return gguf->keys_by_name[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

bool
gguf_has(const Gguf *gguf, const char *key)
{
	return key_find(gguf, key) != NULL;
}

/* ---- values ---- */

static bool
wrong_type(const Gguf *gguf, const GgufKey *key, const char *wanted, InferError *err)
{
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" is damaged\n"
				"Key \"%s\" is of type %s where %s is needed.\n"
				"Download the file again, or convert it again from the original model.",
				gguf->name, gguf_printable(key->name).text, gguf_type_name(key->type), wanted);
}

static bool
wrong_value(const Gguf *gguf, const GgufKey *key, const char *value, const char *wanted,
			InferError *err)
{
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" is damaged\n"
				"Key \"%s\" is %s; %s is needed.\n"
				"Download the file again, or convert it again from the original model.",
				gguf->name, gguf_printable(key->name).text, value, wanted);
}

#define LOAD(type, bytes)                                                                          \
	(__extension__({                                                                               \
		type value_;                                                                               \
		memcpy(&value_, (bytes), sizeof(value_));                                                  \
		value_;                                                                                    \
	}))

/* False where the type is no integer, or a uint64 is past what an int64 holds. */
static bool
load_i64(GgufValueType type, const unsigned char *bytes, int64_t *out)
{
	switch (type)
	{
		case GGUF_UINT8:
			*out = LOAD(uint8_t, bytes);
			return true;
		case GGUF_INT8:
			*out = LOAD(int8_t, bytes);
			return true;
		case GGUF_UINT16:
			*out = LOAD(uint16_t, bytes);
			return true;
		case GGUF_INT16:
			*out = LOAD(int16_t, bytes);
			return true;
		case GGUF_UINT32:
			*out = LOAD(uint32_t, bytes);
			return true;
		case GGUF_INT32:
			*out = LOAD(int32_t, bytes);
			return true;
		case GGUF_INT64:
			*out = LOAD(int64_t, bytes);
			return true;
		case GGUF_UINT64:
			if (LOAD(uint64_t, bytes) > INT64_MAX)
				return false;
			*out = (int64_t) LOAD(uint64_t, bytes);
			return true;
		default:
			return false;
	}
}

/* A double past f32's range becomes an infinity, for the caller to refuse. */
static bool
load_f32(GgufValueType type, const unsigned char *bytes, float *out)
{
	double wide;

	if (type == GGUF_FLOAT32)
	{
		*out = LOAD(float, bytes);
		return true;
	}
	if (type != GGUF_FLOAT64)
		return false;
	wide = LOAD(double, bytes);
	*out = wide > FLT_MAX ? INFINITY : wide < -FLT_MAX ? -INFINITY : (float) wide;
	return true;
}

static bool
type_is_integer(GgufValueType type)
{
	return gguf_scalar_bytes(type) != 0 && type != GGUF_BOOL && type != GGUF_FLOAT32 &&
		   type != GGUF_FLOAT64;
}

bool
gguf_get_u32(const Gguf *gguf, const char *name, uint32_t *out, InferError *err)
{
	const GgufKey *key = key_find(gguf, name);
	int64_t value = -1;
	bool loaded;

	if (key == NULL)
		return true;
	if (!type_is_integer(key->type))
		return wrong_type(gguf, key, "an integer", err);
	loaded = load_i64(key->type, key->value, &value);
	if (!loaded || value < 0 || value > UINT32_MAX)
	{
		char text[32] = "above 2^63";

		if (loaded)
			snprintf(text, sizeof(text), "%" PRId64, value);
		return wrong_value(gguf, key, text, "a number from 0 to 4294967295", err);
	}
	*out = (uint32_t) value;
	return true;
}

bool
gguf_get_f32(const Gguf *gguf, const char *name, float *out, InferError *err)
{
	const GgufKey *key = key_find(gguf, name);
	float value;

	if (key == NULL)
		return true;
	if (key->value == NULL || !load_f32(key->type, key->value, &value))
		return wrong_type(gguf, key, "a floating-point number", err);
	if (!isfinite(value))
		return wrong_value(gguf, key, isnan(value) ? "not a number" : "infinite", "a finite number",
						   err);
	*out = value;
	return true;
}

bool
gguf_get_bool(const Gguf *gguf, const char *name, bool *out, InferError *err)
{
	const GgufKey *key = key_find(gguf, name);

	if (key == NULL)
		return true;
	if (key->type != GGUF_BOOL)
		return wrong_type(gguf, key, "a boolean", err);
	*out = key->value[0] != 0;
	return true;
}

bool
gguf_get_text(const Gguf *gguf, const char *name, GgufText *out, InferError *err)
{
	const GgufKey *key = key_find(gguf, name);

	if (key == NULL)
		return true;
	if (key->type != GGUF_STRING)
		return wrong_type(gguf, key, "a string", err);
	*out = key->text;
	return true;
}

bool
gguf_get_array(const Gguf *gguf, const char *name, GgufArray *out, InferError *err)
{
	const GgufKey *key = key_find(gguf, name);

	if (key == NULL)
		return true;
	if (key->type != GGUF_ARRAY)
		return wrong_type(gguf, key, "an array", err);
	*out = key->array;
	return true;
}

bool
gguf_array_i64(const GgufArray *array, uint64_t index, int64_t *out)
{
	const unsigned char *items = array->items;

	return index < array->n_items && items != NULL &&
		   load_i64(array->item_type, items + index * gguf_scalar_bytes(array->item_type), out);
}

bool
gguf_array_f32(const GgufArray *array, uint64_t index, float *out)
{
	const unsigned char *items = array->items;

	return index < array->n_items && items != NULL &&
		   load_f32(array->item_type, items + index * gguf_scalar_bytes(array->item_type), out);
}
