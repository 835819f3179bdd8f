#include "engine/model/tensor_type.h"

#include <stddef.h>

/*
 * Block shapes are those of the ggml formats. A name without a block shape is a type that was taken
 * out of the format again, or one too new for us: files that hold it are refused by that name.
 */
static const TensorTypeInfo types[TENSOR_TYPE_LIMIT] = {
	[TENSOR_F32] = { "F32", 1, 4, true },
	[TENSOR_F16] = { "F16", 1, 2, true },
	[TENSOR_Q4_0] = { "Q4_0", 32, 18, true },
	[TENSOR_Q4_1] = { "Q4_1", 32, 20, true },
	[4] = { "Q4_2", 0, 0, false },
	[5] = { "Q4_3", 0, 0, false },
	[TENSOR_Q5_0] = { "Q5_0", 32, 22, true },
	[TENSOR_Q5_1] = { "Q5_1", 32, 24, true },
	[TENSOR_Q8_0] = { "Q8_0", 32, 34, true },
	[9] = { "Q8_1", 32, 36, false },
	[TENSOR_Q2_K] = { "Q2_K", 256, 84, false },
	[TENSOR_Q3_K] = { "Q3_K", 256, 110, false },
	[TENSOR_Q4_K] = { "Q4_K", 256, 144, true },
	[TENSOR_Q5_K] = { "Q5_K", 256, 176, true },
	[TENSOR_Q6_K] = { "Q6_K", 256, 210, true },
	[15] = { "Q8_K", 256, 292, false },
	[16] = { "IQ2_XXS", 256, 66, false },
	[17] = { "IQ2_XS", 256, 74, false },
	[18] = { "IQ3_XXS", 256, 98, false },
	[19] = { "IQ1_S", 256, 50, false },
	[20] = { "IQ4_NL", 32, 18, false },
	[21] = { "IQ3_S", 256, 110, false },
	[22] = { "IQ2_S", 256, 82, false },
	[23] = { "IQ4_XS", 256, 136, false },
	[24] = { "I8", 1, 1, false },
	[25] = { "I16", 1, 2, false },
	[26] = { "I32", 1, 4, false },
	[27] = { "I64", 1, 8, false },
	[28] = { "F64", 1, 8, false },
	[29] = { "IQ1_M", 256, 56, false },
	[TENSOR_BF16] = { "BF16", 1, 2, true },
	[31] = { "Q4_0_4_4", 0, 0, false },
	[32] = { "Q4_0_4_8", 0, 0, false },
	[33] = { "Q4_0_8_8", 0, 0, false },
	[34] = { "TQ1_0", 256, 54, false },
	[35] = { "TQ2_0", 256, 66, false },
	[36] = { "IQ4_NL_4_4", 0, 0, false },
	[37] = { "IQ4_NL_4_8", 0, 0, false },
	[38] = { "IQ4_NL_8_8", 0, 0, false },
	[39] = { "MXFP4", 32, 17, false },
	[40] = { "NVFP4", 64, 36, false },
	[41] = { "Q1_0", 0, 0, false },
	[42] = { "Q2_0", 0, 0, false },
};

const TensorTypeInfo *
tensor_type_info(uint32_t type)
{
	return type < TENSOR_TYPE_LIMIT && types[type].block_items != 0 ? &types[type] : NULL;
}

const char *
tensor_type_name(uint32_t type)
{
	return type < TENSOR_TYPE_LIMIT && types[type].name != NULL ? types[type].name : "unknown";
}
