/*
 * blocks.h: quantized blocks as they lie in GGUF files (little-endian, packed, perhaps unaligned).
 *
 * Source: the ggml formats. The ids are GGUF's; model/weights.c asserts that they are
 * model/tensor_type.h's.
 */
#ifndef INFER_KERNELS_BLOCKS_H
#define INFER_KERNELS_BLOCKS_H

#include <stdint.h>

enum
{
	BLOCK_F32 = 0,
	BLOCK_F16 = 1,
	BLOCK_Q4_0 = 2,
	BLOCK_Q4_1 = 3,
	BLOCK_Q5_0 = 6,
	BLOCK_Q5_1 = 7,
	BLOCK_Q8_0 = 8,
	BLOCK_Q4_K = 12,
	BLOCK_Q5_K = 13,
	BLOCK_Q6_K = 14,
	BLOCK_BF16 = 30
};

#define BLOCK_K_ITEMS 256

/* value = d * (nibble - 8); byte i holds items i (low) and i + 16 (high) */
typedef struct BlockQ4_0
{
	uint16_t d;
	uint8_t nibbles[16];
} BlockQ4_0;

/* value = d * nibble + m */
typedef struct BlockQ4_1
{
	uint16_t d;
	uint16_t m;
	uint8_t nibbles[16];
} BlockQ4_1;

/* value = d * (nibble + 16 * bit i of high - 16) */
typedef struct BlockQ5_0
{
	uint16_t d;
	uint8_t high[4];
	uint8_t nibbles[16];
} BlockQ5_0;

/* value = d * (nibble + 16 * bit i of high) + m */
typedef struct BlockQ5_1
{
	uint16_t d;
	uint16_t m;
	uint8_t high[4];
	uint8_t nibbles[16];
} BlockQ5_1;

/* value = d * q */
typedef struct BlockQ8_0
{
	uint16_t d;
	int8_t q[32];
} BlockQ8_0;

/*
 * Eight sub-blocks of 32: value = d * scale * nibble - dmin * min. Scales and mins are six bits
 * each, in 12 bytes. Nibbles: 32 bytes to a pair of sub-blocks, low then high.
 */
typedef struct BlockQ4_K
{
	uint16_t d;
	uint16_t dmin;
	uint8_t scales[12];
	uint8_t nibbles[128];
} BlockQ4_K;

/* As Q4_K with a fifth bit: bit s of high[i] belongs to item i of sub-block s. */
typedef struct BlockQ5_K
{
	uint16_t d;
	uint16_t dmin;
	uint8_t scales[12];
	uint8_t high[32];
	uint8_t nibbles[128];
} BlockQ5_K;

/* Sixteen sub-blocks of 16: value = d * scale * (q - 32), q of four low and two high bits. */
typedef struct BlockQ6_K
{
	uint8_t low[128];
	uint8_t high[64];
	int8_t scales[16];
	uint16_t d;
} BlockQ6_K;

_Static_assert(sizeof(BlockQ4_0) == 18, "file format");
_Static_assert(sizeof(BlockQ4_1) == 20, "file format");
_Static_assert(sizeof(BlockQ5_0) == 22, "file format");
_Static_assert(sizeof(BlockQ5_1) == 24, "file format");
_Static_assert(sizeof(BlockQ8_0) == 34, "file format");
_Static_assert(sizeof(BlockQ4_K) == 144, "file format");
_Static_assert(sizeof(BlockQ5_K) == 176, "file format");
_Static_assert(sizeof(BlockQ6_K) == 210, "file format");

#endif
