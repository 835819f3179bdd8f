/*
 * gguf_file.h: the inside of a Gguf, for gguf.c (opening), gguf_parse.c (checking) and gguf_get.c
 * (reading) and nobody else.
 */
#ifndef INFER_ENGINE_GGUF_FILE_H
#define INFER_ENGINE_GGUF_FILE_H

#include "engine/base/arena.h"
#include "engine/model/gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
			   "values are read as they lie in the file");

typedef struct GgufKey
{
	GgufText name;
	GgufValueType type;
	const unsigned char *value; /* a scalar's bytes in the file, unaligned */
	GgufText text;				/* GGUF_STRING */
	GgufArray array;			/* GGUF_ARRAY */
} GgufKey;

struct Gguf
{
	/* the file */
	const unsigned char *bytes;
	size_t n_bytes;
	void *mapping; /* NULL over the caller's memory */
	char name[256];

	/* what gguf_parse found; all in the arena */
	uint32_t version;
	uint32_t alignment;
	size_t n_keys;
	GgufKey *keys;
	const GgufKey **keys_by_name; /* sorted by text_compare */
	size_t n_tensors;
	GgufTensor *tensors;
	const GgufTensor **tensors_by_name; /* sorted by strcmp */
	Arena arena;
};

/* Bytes of a scalar type; 0 for strings, arrays and anything unknown. */
extern size_t gguf_scalar_bytes(uint32_t type);
extern const char *gguf_type_name(uint32_t type);

/* Shorter first, then by bytes: an order made for searching, not for reading. */
extern int gguf_text_compare(GgufText a, GgufText b);

/* Checks everything and fills the tables. bytes, n_bytes, name and arena are set. */
extern bool gguf_parse(Gguf *gguf, InferError *err);

#endif
