/*
 * tensor_type.h: the one table of tensor types: id in GGUF, name, block shape. Types that we can
 * size but not run are in it too, so that a file is refused by name ("type IQ2_XXS is not supported
 * yet").
 */
#ifndef INFER_ENGINE_TENSOR_TYPE_H
#define INFER_ENGINE_TENSOR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum TensorType
{
	TENSOR_F32 = 0,
	TENSOR_F16 = 1,
	TENSOR_Q4_0 = 2,
	TENSOR_Q4_1 = 3,
	TENSOR_Q5_0 = 6,
	TENSOR_Q5_1 = 7,
	TENSOR_Q8_0 = 8,
	TENSOR_Q2_K = 10,
	TENSOR_Q3_K = 11,
	TENSOR_Q4_K = 12,
	TENSOR_Q5_K = 13,
	TENSOR_Q6_K = 14,
	TENSOR_BF16 = 30,
	TENSOR_TYPE_LIMIT = 64 /* ids at or above it are unknown */
} TensorType;

typedef struct TensorTypeInfo
{
	const char *name;
	uint32_t block_items; /* items that share scales; a row is a multiple of it */
	uint32_t block_bytes;
	bool runs; /* kernels exist; else dims and bytes are known and nothing more */
} TensorTypeInfo;

/* NULL for an id that no file should hold: unknown, removed from the format, or too new to size. */
extern const TensorTypeInfo *tensor_type_info(uint32_t type);

/* For messages, also about types that tensor_type_info does not know; never NULL ("unknown"). */
extern const char *tensor_type_name(uint32_t type);

#endif
