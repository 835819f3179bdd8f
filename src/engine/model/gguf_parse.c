#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/tensor_type.h"
#include "gguf_file.h"

#define HEADER_BYTES	   ((size_t) 24) /* magic, version, n_tensors, n_keys */
#define MIN_KEY_BYTES	   ((size_t) 14) /* length, one byte of name, type, the smallest value */
#define MIN_TENSOR_BYTES   ((size_t) 25) /* length, one byte of name, n_dims, type, offset */
#define MAX_KEYS		   ((uint64_t) 1 << 16) /* real files have some dozens */
#define MAX_TENSORS		   ((uint64_t) 1 << 18) /* the largest known, experts unmerged: 60 000 */
#define MAX_KEY_NAME_BYTES ((size_t) 65535)		/* the specification's own limit */
#define DEFAULT_ALIGNMENT  32
#define MIN_ALIGNMENT	   8 /* by the specification; what f64 items need */
#define MAX_ALIGNMENT	   (1u << 20)

/* The part of the file that is not read yet. */
typedef struct Reader
{
	const Gguf *gguf;
	const unsigned char *at;
	size_t n_left;
	InferError *err;
} Reader;

static bool damaged(const Gguf *gguf, InferError *err, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

static bool
damaged(const Gguf *gguf, InferError *err, const char *format, ...)
{
	char detail[INFER_ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" is damaged\n%s\n"
				"Download the file again, or convert it again from the original model.",
				gguf->name, detail);
}

/* As with fail(): visibly false at the call. */
#define damaged(...) infer_always_false(damaged(__VA_ARGS__))

static bool
no_memory(const Gguf *gguf, InferError *err)
{
	return fail(err, INFER_OUT_OF_MEMORY, "out of memory while reading model file \"%s\"",
				gguf->name);
}

/* ---- reading with bounds ---- */

static bool
take(Reader *reader, uint64_t n_bytes, const unsigned char **out)
{
	if (n_bytes > reader->n_left)
		return damaged(reader->gguf, reader->err,
					   "It ends at byte %zu, where %" PRIu64 " more bytes were announced.",
					   reader->gguf->n_bytes, n_bytes - reader->n_left);
	*out = reader->at;
	reader->at += n_bytes;
	reader->n_left -= (size_t) n_bytes;
	return true;
}

static bool
take_u32(Reader *reader, uint32_t *out)
{
	const unsigned char *bytes;

	if (!take(reader, sizeof(*out), &bytes))
		return false;
	memcpy(out, bytes, sizeof(*out));
	return true;
}

static bool
take_u64(Reader *reader, uint64_t *out)
{
	const unsigned char *bytes;

	if (!take(reader, sizeof(*out), &bytes))
		return false;
	memcpy(out, bytes, sizeof(*out));
	return true;
}

static bool
take_text(Reader *reader, GgufText *out)
{
	const unsigned char *bytes;
	uint64_t n_bytes;

	if (!take_u64(reader, &n_bytes) || !take(reader, n_bytes, &bytes))
		return false;
	out->bytes = (const char *) bytes;
	out->n_bytes = (size_t) n_bytes;
	return true;
}

/* ---- header ---- */

static bool
version_check(const Gguf *gguf, InferError *err)
{
	if (gguf->version == 2 || gguf->version == 3)
		return true;
	if (gguf->version == 1)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is of GGUF version 1\n"
					"Versions 2 and 3 are supported.\n"
					"Convert the model again with current tools.",
					gguf->name);
	if ((gguf->version & 0xFFFF) == 0 && gguf->version != 0)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" is big-endian\n"
					"It was made for another kind of machine.\n"
					"Get the little-endian file of the model.",
					gguf->name);
	return fail(err, INFER_BAD_MODEL,
				"model file \"%s\" is of GGUF version %" PRIu32 "\n"
				"Versions 2 and 3 are supported.\n"
				"Download the file again, or use a newer release of infer.",
				gguf->name, gguf->version);
}

static bool
header_parse(Gguf *gguf, Reader *reader, uint64_t *n_tensors, uint64_t *n_keys)
{
	const unsigned char *magic;

	if (gguf->n_bytes < 4 || memcmp(gguf->bytes, "GGUF", 4) != 0)
		return fail(reader->err, INFER_BAD_MODEL,
					"file \"%s\" is not a GGUF model\n"
					"It has %zu bytes and does not begin with \"GGUF\".\n"
					"Check the file name, or download the file again.",
					gguf->name, gguf->n_bytes);
	if (gguf->n_bytes < HEADER_BYTES)
		return damaged(gguf, reader->err, "It has %zu bytes, less than a header.", gguf->n_bytes);
	if (!take(reader, 4, &magic) || !take_u32(reader, &gguf->version) ||
		!version_check(gguf, reader->err) || !take_u64(reader, n_tensors) ||
		!take_u64(reader, n_keys))
		return false;

	/* No table is allocated that the rest of the file could not fill. */
	if (*n_keys > MAX_KEYS || *n_keys > reader->n_left / MIN_KEY_BYTES)
		return damaged(gguf, reader->err, "It claims %" PRIu64 " metadata keys; it has %zu bytes.",
					   *n_keys, gguf->n_bytes);
	if (*n_tensors > MAX_TENSORS || *n_tensors > reader->n_left / MIN_TENSOR_BYTES)
		return damaged(gguf, reader->err, "It claims %" PRIu64 " tensors; it has %zu bytes.",
					   *n_tensors, gguf->n_bytes);
	return true;
}

/* ---- metadata ---- */

static bool
bools_check(Reader *reader, const GgufKey *key, const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] > 1)
			return damaged(reader->gguf, reader->err, "Key \"%s\" holds a boolean of value %d.",
						   gguf_printable(key->name).text, bytes[i]);
	return true;
}

static bool
texts_parse(Gguf *gguf, Reader *reader, GgufArray *array)
{
	GgufText *texts;

	if (array->n_items > reader->n_left / sizeof(uint64_t))
		return damaged(gguf, reader->err,
					   "It announces %" PRIu64 " texts where %zu bytes are left.", array->n_items,
					   reader->n_left);
	texts = arena_alloc_array(&gguf->arena, (size_t) array->n_items, sizeof(GgufText));
	if (texts == NULL)
		return no_memory(gguf, reader->err);
	for (uint64_t i = 0; i < array->n_items; i++)
		if (!take_text(reader, &texts[i]))
			return false;
	array->texts = texts;
	return true;
}

static bool
array_parse(Gguf *gguf, Reader *reader, GgufKey *key)
{
	GgufArray *array = &key->array;
	const unsigned char *items;
	uint32_t item_type;
	size_t item_bytes;

	if (!take_u32(reader, &item_type) || !take_u64(reader, &array->n_items))
		return false;
	array->item_type = (GgufValueType) item_type;
	if (item_type == GGUF_STRING)
		return texts_parse(gguf, reader, array);
	item_bytes = gguf_scalar_bytes(item_type);
	if (item_bytes == 0)
		return damaged(gguf, reader->err,
					   "Key \"%s\" is an array of items of type %" PRIu32 " (%s).",
					   gguf_printable(key->name).text, item_type, gguf_type_name(item_type));
	if (array->n_items > reader->n_left / item_bytes)
		return damaged(gguf, reader->err,
					   "Key \"%s\" announces %" PRIu64 " items where %zu bytes are left.",
					   gguf_printable(key->name).text, array->n_items, reader->n_left);
	if (!take(reader, array->n_items * item_bytes, &items))
		return false;
	array->items = items;
	return item_type != GGUF_BOOL || bools_check(reader, key, items, (size_t) array->n_items);
}

static bool
key_parse(Gguf *gguf, Reader *reader, GgufKey *key)
{
	uint32_t type;

	if (!take_text(reader, &key->name) || !take_u32(reader, &type))
		return false;
	if (key->name.n_bytes == 0 || key->name.n_bytes > MAX_KEY_NAME_BYTES)
		return damaged(gguf, reader->err, "A metadata key has a name of %zu bytes.",
					   key->name.n_bytes);
	if (type >= GGUF_N_VALUE_TYPES)
		return damaged(gguf, reader->err, "Key \"%s\" has the unknown type %" PRIu32 ".",
					   gguf_printable(key->name).text, type);
	key->type = (GgufValueType) type;
	if (key->type == GGUF_STRING)
		return take_text(reader, &key->text);
	if (key->type == GGUF_ARRAY)
		return array_parse(gguf, reader, key);
	if (!take(reader, gguf_scalar_bytes(type), &key->value))
		return false;
	return key->type != GGUF_BOOL || bools_check(reader, key, key->value, 1);
}

static int
key_order(const void *a, const void *b)
{
	return gguf_text_compare((*(const GgufKey *const *) a)->name,
							 (*(const GgufKey *const *) b)->name);
}

static bool
keys_parse(Gguf *gguf, Reader *reader, size_t n_keys)
{
	gguf->keys = arena_alloc_array(&gguf->arena, n_keys, sizeof(GgufKey));
	gguf->keys_by_name = arena_alloc_array(&gguf->arena, n_keys, sizeof(GgufKey *));
	if (gguf->keys == NULL || gguf->keys_by_name == NULL)
		return no_memory(gguf, reader->err);
	for (size_t i = 0; i < n_keys; i++)
	{
		if (!key_parse(gguf, reader, &gguf->keys[i]))
			return false;
		gguf->keys_by_name[i] = &gguf->keys[i];
	}
	qsort(gguf->keys_by_name, n_keys, sizeof(GgufKey *), key_order);
	for (size_t i = 1; i < n_keys; i++)
		if (key_order(&gguf->keys_by_name[i - 1], &gguf->keys_by_name[i]) == 0)
			return damaged(gguf, reader->err, "Key \"%s\" occurs twice.",
						   gguf_printable(gguf->keys_by_name[i]->name).text);
	gguf->n_keys = n_keys;
	return true;
}

static bool
alignment_read(Gguf *gguf, InferError *err)
{
	uint32_t alignment = DEFAULT_ALIGNMENT;

	if (!gguf_get_u32(gguf, "general.alignment", &alignment, err))
		return false;
	if (alignment < MIN_ALIGNMENT || alignment > MAX_ALIGNMENT ||
		(alignment & (alignment - 1)) != 0)
		return damaged(gguf, err,
					   "Key \"general.alignment\" is %" PRIu32
					   "; it must be a power of two from %d to %u.",
					   alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
	gguf->alignment = alignment;
	return true;
}

/* ---- tensors ---- */

static bool
tensor_name_parse(Gguf *gguf, Reader *reader, GgufTensor *tensor)
{
	GgufText name;

	if (!take_text(reader, &name))
		return false;
	if (name.n_bytes == 0 || name.n_bytes >= sizeof(tensor->name) ||
		memchr(name.bytes, '\0', name.n_bytes) != NULL)
		return damaged(gguf, reader->err,
					   "A tensor has the name \"%s\" of %zu bytes; 1 to %zu are allowed.",
					   gguf_printable(name).text, name.n_bytes, sizeof(tensor->name) - 1);
	memcpy(tensor->name, name.bytes, name.n_bytes);
	return true;
}

static GgufPrintable
tensor_printable(const GgufTensor *tensor)
{
	return gguf_printable((GgufText){ tensor->name, strlen(tensor->name) });
}

static bool
tensor_dims_parse(Gguf *gguf, Reader *reader, GgufTensor *tensor)
{
	if (!take_u32(reader, &tensor->n_dims))
		return false;
	if (tensor->n_dims > GGUF_MAX_DIMS)
		return damaged(gguf, reader->err,
					   "Tensor \"%s\" has %" PRIu32 " dimensions; at most %d are allowed.",
					   tensor_printable(tensor).text, tensor->n_dims, GGUF_MAX_DIMS);
	tensor->n_items = 1;
	for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
	{
		tensor->dims[i] = 1;
		if (i < tensor->n_dims && !take_u64(reader, &tensor->dims[i]))
			return false;
		if (tensor->dims[i] == 0 || tensor->dims[i] > INT64_MAX)
			return damaged(gguf, reader->err,
						   "Dimension %" PRIu32 " of tensor \"%s\" is %" PRIu64 ".", i,
						   tensor_printable(tensor).text, tensor->dims[i]);
		if (__builtin_mul_overflow(tensor->n_items, tensor->dims[i], &tensor->n_items))
			return damaged(gguf, reader->err, "The dimensions of tensor \"%s\" overflow 64 bits.",
						   tensor_printable(tensor).text);
	}
	return true;
}

static bool
tensor_size_compute(Gguf *gguf, InferError *err, GgufTensor *tensor)
{
	const TensorTypeInfo *info = tensor_type_info(tensor->type);

	if (info == NULL)
		return fail(err, INFER_BAD_MODEL,
					"model file \"%s\" holds a tensor type that is not supported\n"
					"Tensor \"%s\" is of type %" PRIu32 " (%s).\n"
					"Get the model in another quantization, such as Q4_K_M or Q8_0.",
					gguf->name, tensor_printable(tensor).text, tensor->type,
					tensor_type_name(tensor->type));
	if (tensor->dims[0] % info->block_items != 0)
		return damaged(gguf, err,
					   "Rows of tensor \"%s\" have %" PRIu64 " items, no multiple of %" PRIu32
					   " as type %s needs.",
					   tensor_printable(tensor).text, tensor->dims[0], info->block_items,
					   info->name);
	if (__builtin_mul_overflow(tensor->n_items / info->block_items, (uint64_t) info->block_bytes,
							   &tensor->n_bytes))
		return damaged(gguf, err, "The size of tensor \"%s\" overflows 64 bits.",
					   tensor_printable(tensor).text);
	return true;
}

/* The offset from the start of the data part waits in `offsets` until that start is known. */
static bool
tensor_parse(Gguf *gguf, Reader *reader, GgufTensor *tensor, uint64_t *offset)
{
	return tensor_name_parse(gguf, reader, tensor) && tensor_dims_parse(gguf, reader, tensor) &&
		   take_u32(reader, &tensor->type) && tensor_size_compute(gguf, reader->err, tensor) &&
		   take_u64(reader, offset);
}

static bool
tensor_place(Gguf *gguf, InferError *err, GgufTensor *tensor, size_t data_start, uint64_t offset)
{
	uint64_t n_data = data_start < gguf->n_bytes ? gguf->n_bytes - data_start : 0;

	if (offset % gguf->alignment != 0)
		return damaged(gguf, err,
					   "Tensor \"%s\" begins at offset %" PRIu64 ", no multiple of %" PRIu32 ".",
					   tensor_printable(tensor).text, offset, gguf->alignment);
	if (offset > n_data || tensor->n_bytes > n_data - offset)
		return damaged(gguf, err,
					   "Tensor \"%s\" has %" PRIu64 " bytes at offset %" PRIu64
					   ", past the end of the file's %" PRIu64 " bytes of data.",
					   tensor_printable(tensor).text, tensor->n_bytes, offset, n_data);
	tensor->data = gguf->bytes + data_start + offset;
	return true;
}

static int
tensor_name_order(const void *a, const void *b)
{
	return strcmp((*(const GgufTensor *const *) a)->name, (*(const GgufTensor *const *) b)->name);
}

static int
tensor_data_order(const void *a, const void *b)
{
	uintptr_t at_a = (uintptr_t) (*(const GgufTensor *const *) a)->data;
	uintptr_t at_b = (uintptr_t) (*(const GgufTensor *const *) b)->data;

	return (at_a > at_b) - (at_a < at_b);
}

/* Sorts tensors_by_name twice: by place to find overlaps, then by name to find duplicates. */
static bool
tensors_check_distinct(Gguf *gguf, InferError *err)
{
	const GgufTensor **sorted = gguf->tensors_by_name;

	qsort(sorted, gguf->n_tensors, sizeof(*sorted), tensor_data_order);
	for (size_t i = 1; i < gguf->n_tensors; i++)
	{
		const unsigned char *begin = sorted[i - 1]->data;

		if ((uint64_t) ((const unsigned char *) sorted[i]->data - begin) < sorted[i - 1]->n_bytes)
			return damaged(gguf, err, "Tensors \"%s\" and \"%s\" overlap.",
						   tensor_printable(sorted[i - 1]).text, tensor_printable(sorted[i]).text);
	}
	qsort(sorted, gguf->n_tensors, sizeof(*sorted), tensor_name_order);
	for (size_t i = 1; i < gguf->n_tensors; i++)
		if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
			return damaged(gguf, err, "Tensor \"%s\" occurs twice.",
						   tensor_printable(sorted[i]).text);
	return true;
}

static bool
tensors_parse(Gguf *gguf, Reader *reader, size_t n_tensors)
{
	uint64_t *offsets = arena_alloc_array(&gguf->arena, n_tensors, sizeof(uint64_t));
	size_t data_start;

	gguf->tensors = arena_alloc_array(&gguf->arena, n_tensors, sizeof(GgufTensor));
	gguf->tensors_by_name = arena_alloc_array(&gguf->arena, n_tensors, sizeof(GgufTensor *));
	if (offsets == NULL || gguf->tensors == NULL || gguf->tensors_by_name == NULL)
		return no_memory(gguf, reader->err);
	for (size_t i = 0; i < n_tensors; i++)
	{
		if (!tensor_parse(gguf, reader, &gguf->tensors[i], &offsets[i]))
			return false;
		gguf->tensors_by_name[i] = &gguf->tensors[i];
	}
	gguf->n_tensors = n_tensors;

	if (__builtin_add_overflow(gguf->n_bytes - reader->n_left, (size_t) gguf->alignment - 1,
							   &data_start))
		return damaged(gguf, reader->err, "The place of its data overflows 64 bits.");
	data_start &= ~((size_t) gguf->alignment - 1);
	for (size_t i = 0; i < n_tensors; i++)
		if (!tensor_place(gguf, reader->err, &gguf->tensors[i], data_start, offsets[i]))
			return false;
	return tensors_check_distinct(gguf, reader->err);
}

bool
gguf_parse(Gguf *gguf, InferError *err)
{
	Reader reader = { .gguf = gguf, .at = gguf->bytes, .n_left = gguf->n_bytes, .err = err };
	uint64_t n_tensors;
	uint64_t n_keys;

	return header_parse(gguf, &reader, &n_tensors, &n_keys) &&
		   keys_parse(gguf, &reader, (size_t) n_keys) && alignment_read(gguf, err) &&
		   tensors_parse(gguf, &reader, (size_t) n_tensors);
}
