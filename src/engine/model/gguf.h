/*
 * gguf.h: a GGUF file (versions 2 and 3, little-endian) as a checked, read-only table of metadata
 * and tensors over an mmap.
 *
 * Everything in a file is a claim until it is checked, and gguf_open checks all of it before it
 * returns: counts against the bytes that remain, every multiplication and addition for overflow,
 * types, alignment, names, duplicate keys and tensors, and for *each* tensor that offset + size
 * lies inside the file. After gguf_open succeeded, tensor data may be read without a further check,
 * and keys of the wrong type are reported by the typed getters below, never reinterpreted.
 * docs/file-safety.md lists the published CVEs and the check that answers each.
 *
 * Owner: a Gguf owns the mapping and the arena that holds its tables; pointers handed out live
 * until gguf_close. Read-only after open: any thread may read.
 *
 * Source: GGUF specification (ggml docs/gguf.md).
 */
#ifndef INFER_ENGINE_GGUF_H
#define INFER_ENGINE_GGUF_H

#include "shared/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Gguf Gguf;

/* Text inside the mapping; no '\0' at its end, may hold any byte. */
typedef struct GgufText
{
	const char *bytes;
	size_t n_bytes;
} GgufText;

typedef enum GgufValueType
{
	GGUF_UINT8 = 0,
	GGUF_INT8,
	GGUF_UINT16,
	GGUF_INT16,
	GGUF_UINT32,
	GGUF_INT32,
	GGUF_FLOAT32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_UINT64,
	GGUF_INT64,
	GGUF_FLOAT64,
	GGUF_N_VALUE_TYPES
} GgufValueType;

typedef struct GgufArray
{
	GgufValueType item_type; /* never GGUF_ARRAY */
	uint64_t n_items;
	const GgufText *texts; /* item_type GGUF_STRING: one per item */
	const void *items;	   /* else: n_items packed little-endian values, perhaps unaligned */
} GgufArray;

#define GGUF_MAX_DIMS 4

typedef struct GgufTensor
{
	char name[64];
	uint32_t type; /* a TensorType of model/tensor_type.h, known and supported or at least sized */
	uint32_t n_dims;
	uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] runs fastest (columns); unused ones are 1; never 0 */
	uint64_t n_items;
	const void *data; /* inside the mapping, aligned to the file's alignment */
	uint64_t n_bytes;
} GgufTensor;

/* Maps and checks the file. `path` appears in messages as its base name only. */
extern bool gguf_open(const char *path, Gguf **out, InferError *err);

/* The same over memory that the caller keeps alive (tests, fuzzing). */
extern bool gguf_open_memory(const void *bytes, size_t n_bytes, const char *name, Gguf **out,
							 InferError *err);
extern void gguf_close(Gguf *gguf);

extern const char *gguf_name(const Gguf *gguf); /* base name of the file */
extern uint64_t gguf_file_bytes(const Gguf *gguf);
extern const void *gguf_bytes(const Gguf *gguf, size_t *n_bytes); /* all of it, as it lies */
extern uint32_t gguf_version(const Gguf *gguf);

extern size_t gguf_tensor_count(const Gguf *gguf);
extern const GgufTensor *gguf_tensor_at(const Gguf *gguf, size_t index);
extern const GgufTensor *gguf_tensor_find(const Gguf *gguf, const char *name); /* or NULL */

/* Metadata in file order, for `infer-engine info` and the fingerprint. */
extern size_t gguf_key_count(const Gguf *gguf);
extern GgufText gguf_key_at(const Gguf *gguf, size_t index, GgufValueType *type);

/*
 * Typed getters. Absent key: *out stays as it was (so put the default there first) and true.
 * Present with another type, or a value that does not fit: INFER_BAD_MODEL. Integers of any width
 * are accepted where they fit; gguf_get_f32 takes f32 and f64.
 */
extern bool gguf_get_u32(const Gguf *gguf, const char *key, uint32_t *out, InferError *err);
extern bool gguf_get_f32(const Gguf *gguf, const char *key, float *out, InferError *err);
extern bool gguf_get_bool(const Gguf *gguf, const char *key, bool *out, InferError *err);
extern bool gguf_get_text(const Gguf *gguf, const char *key, GgufText *out, InferError *err);
extern bool gguf_get_array(const Gguf *gguf, const char *key, GgufArray *out, InferError *err);
extern bool gguf_has(const Gguf *gguf, const char *key);

/* Item of a numeric array, bounds- and type-checked; for arrays of any integer type. */
extern bool gguf_array_i64(const GgufArray *array, uint64_t index, int64_t *out);
extern bool gguf_array_f32(const GgufArray *array, uint64_t index, float *out);

/*
 * Text out of the file as it may stand in a message: cut, and '?' for each byte that is not
 * printable ASCII. Messages reach logs, terminals and SQL, where other bytes do harm.
 */
typedef struct GgufPrintable
{
	char text[80];
} GgufPrintable;

extern GgufPrintable gguf_printable(GgufText text);

/* Reclaims the page cache mapping of tensor data once weights have been repacked. */
extern void gguf_drop_pages(Gguf *gguf);

#endif
