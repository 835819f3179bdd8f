/*
 * The GGUF reader against damaged files. docs/file-safety.md says which published weakness each
 * test stands for. Every file is opened in an allocation of exactly its size, so that ASan sees the
 * first byte that is read too far.
 */
#include "test/unit/gguf_builder.h"

#include "engine/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define ROW ((uint64_t[]){ 32, 1, 1, 1, 1 })

/* Opens a copy of exactly n bytes; whatever opens is read completely. */
static bool
bytes_open(const void *bytes, size_t n, InferError *err)
{
	unsigned char *copy = malloc(n > 0 ? n : 1);
	Gguf *gguf = NULL;
	bool ok;

	assert_non_null(copy);
	if (n > 0)
		memcpy(copy, bytes, n);
	memset(err, 0, sizeof(*err));
	ok = gguf_open_memory(n > 0 ? copy : copy + 1, n, "dir/test.gguf", &gguf, err);
	if (ok)
		(void) gguf_read_all(gguf);
	else
		assert_null(gguf);
	gguf_close(gguf);
	free(copy);
	return ok;
}

/* Ends the builder: its file must open. */
static void
expect_opens(GgufBuilder *b)
{
	InferError err;

	if (!bytes_open(b->bytes, b->n_bytes, &err))
		fail_msg("%s: %s", err.message, err.detail);
	gguf_end(b);
}

/* Ends the builder: INFER_BAD_MODEL, a message that names the file, and `words` in what it says. */
static void
expect_refused(GgufBuilder *b, const char *words)
{
	InferError err;

	assert_false(bytes_open(b->bytes, b->n_bytes, &err));
	gguf_end(b);
	assert_int_equal(err.code, INFER_BAD_MODEL);
	assert_non_null(strstr(err.message, "\"test.gguf\""));
	assert_true(err.hint[0] != '\0');
	if (strstr(err.message, words) == NULL && strstr(err.detail, words) == NULL)
		fail_msg("no \"%s\" in: %s: %s", words, err.message, err.detail);
}
/* ---- header ---- */

static void
test_every_truncation_is_refused(void **state)
{
	GgufBuilder whole = gguf_small_file();

	(void) state;
	for (size_t n = 0; n < whole.n_bytes; n++)
	{
		GgufBuilder part = { 0 };

		gguf_put_bytes(&part, whole.bytes, n);
		expect_refused(&part, "test.gguf");
	}
	gguf_end(&whole);
}

/* Each bit, and each byte inverted: what opens is read, what does not says why. */
static void
test_every_flip_ends_in_a_result_or_an_error(void **state)
{
	GgufBuilder b = gguf_small_file();
	int n_refused = 0;
	InferError err;

	(void) state;
	for (size_t at = 0; at < b.n_bytes; at++)
		for (int bit = 0; bit <= 8; bit++)
		{
			unsigned char flip = (unsigned char) (bit == 8 ? 0xFF : 1 << bit);

			b.bytes[at] ^= flip;
			if (!bytes_open(b.bytes, b.n_bytes, &err))
			{
				assert_int_equal(err.code, INFER_BAD_MODEL);
				assert_true(err.message[0] != '\0' && err.hint[0] != '\0');
				n_refused++;
			}
			b.bytes[at] ^= flip;
		}
	assert_true(n_refused > (int) b.n_bytes);
	gguf_end(&b);
}

static void
test_four_bytes_are_no_model(void **state)
{
	GgufBuilder b = { 0 };

	(void) state;
	gguf_put_bytes(&b, "GGUF", 4);
	expect_refused(&b, "It has 4 bytes, less than a header.");
}

static void
test_another_magic_is_refused(void **state)
{
	GgufBuilder b = gguf_small_file();

	(void) state;
	gguf_poke(&b, 0, 0x67676a74, 4); /* the format before GGUF */
	expect_refused(&b, "is not a GGUF model");
}

static void
version_refused(uint32_t version, const char *words)
{
	GgufBuilder b = gguf_small_file();

	gguf_poke(&b, GGUF_AT_VERSION, version, 4);
	expect_refused(&b, words);
}

static void
test_other_versions_are_refused_by_number(void **state)
{
	(void) state;
	version_refused(0, "is of GGUF version 0");
	version_refused(1, "is of GGUF version 1");
	version_refused(4, "is of GGUF version 4");
	version_refused(UINT32_MAX, "is of GGUF version 4294967295");
}

static void
test_big_endian_is_refused_as_such(void **state)
{
	(void) state;
	version_refused(0x03000000, "is big-endian");
	version_refused(0x02000000, "is big-endian");
}

static void
test_version_2_opens(void **state)
{
	GgufBuilder b = gguf_small_file();

	(void) state;
	gguf_poke(&b, GGUF_AT_VERSION, 2, 4);
	expect_opens(&b);
}

static void
count_refused(size_t at, uint64_t n, const char *words)
{
	GgufBuilder b = gguf_small_file();

	gguf_poke(&b, at, n, 8);
	expect_refused(&b, words);
}

/* The last: n * sizeof(key) is a small number once it has wrapped. */
static void
test_key_count_is_bounded_by_the_file(void **state)
{
	(void) state;
	count_refused(GGUF_AT_N_KEYS, 1000, "It claims 1000 metadata keys");
	count_refused(GGUF_AT_N_KEYS, UINT64_MAX, "It claims 18446744073709551615 metadata keys");
	count_refused(GGUF_AT_N_KEYS, (UINT64_MAX / 32) + 2, "metadata keys");
}

static void
test_tensor_count_is_bounded_by_the_file(void **state)
{
	(void) state;
	count_refused(GGUF_AT_N_TENSORS, 1000, "It claims 1000 tensors");
	count_refused(GGUF_AT_N_TENSORS, UINT64_MAX, "It claims 18446744073709551615 tensors");
	count_refused(GGUF_AT_N_TENSORS, (UINT64_MAX / 64) + 2, "tensors");
}

/* ---- strings ---- */

/* n + 1 wraps to 0, n + 8 wraps, a length that is negative as int32 or int64, one byte too long. */
static void
test_string_lengths_are_bounded_by_the_file(void **state)
{
	static const uint64_t lengths[] = {
		UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63, UINT64_C(1) << 32, INT32_MAX, UINT32_MAX, 6
	};

	(void) state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
	{
		GgufBuilder b = gguf_begin();

		gguf_put_key(&b, "text", GGUF_STRING);
		gguf_put_number(&b, lengths[i], 8);
		gguf_put_bytes(&b, "12345", 5);
		expect_refused(&b, "more bytes were announced");
	}
}

static void
test_key_name_lengths_are_bounded_by_the_file(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_u32(&b, "a.key", 1);
	gguf_poke(&b, 24, UINT64_MAX - 3, 8);
	expect_refused(&b, "more bytes were announced");
}

static void
test_an_empty_key_is_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_u32(&b, "", 1);
	gguf_put_data(&b, 64, 1);
	expect_refused(&b, "A metadata key has a name of 0 bytes.");
}

static void
test_a_key_above_64_kb_is_refused(void **state)
{
	GgufBuilder b = gguf_begin();
	char *name = malloc(65537);

	(void) state;
	assert_non_null(name);
	memset(name, 'k', 65536);
	name[65536] = '\0';
	gguf_put_u32(&b, name, 1);
	free(name);
	expect_refused(&b, "A metadata key has a name of 65536 bytes.");
}

static void
test_a_string_may_be_empty_and_hold_any_byte(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_string(&b, "empty", "");
	gguf_put_key(&b, "odd", GGUF_STRING);
	gguf_put_text(&b, "\0\xFF\n", 3);
	expect_opens(&b);
}

/* Names from the file reach messages, and so logs and terminals, as plain characters only. */
static void
test_names_in_messages_are_printable(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_key(&b, "\x1B[31m%s%n", 99);
	gguf_put_data(&b, 64, 1);
	expect_refused(&b, "Key \"?[31m%s%n\" has the unknown type 99.");
}

static void
test_the_architecture_in_a_message_is_printable(void **state)
{
	GgufBuilder b = gguf_begin();
	ModelConfig config;
	Gguf *gguf = NULL;
	InferError err;

	(void) state;
	gguf_put_string(&b, "general.architecture", "\xC3(\x1E\x1B[2J");
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "odd.gguf", &gguf, &err));
	assert_false(model_config_read(gguf, &config, &err));
	assert_string_equal(err.message, "model file \"odd.gguf\" has architecture \"?(??[2J\", which "
									 "is not supported");
	gguf_close(gguf);
	gguf_end(&b);
}

/* ---- metadata ---- */

static void
test_duplicate_keys_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_u32(&b, "llama.block_count", 1);
	gguf_put_u32(&b, "between", 1);
	gguf_put_string(&b, "llama.block_count", "2");
	expect_refused(&b, "Key \"llama.block_count\" occurs twice.");
}

static void
test_unknown_value_types_are_refused(void **state)
{
	static const uint32_t types[] = { GGUF_N_VALUE_TYPES, 255, INT32_MAX, UINT32_MAX };

	(void) state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		GgufBuilder b = gguf_begin();

		gguf_put_key(&b, "key", types[i]);
		gguf_put_data(&b, 64, 1);
		expect_refused(&b, "Key \"key\" has the unknown type");
	}
}

static void
test_booleans_are_0_or_1(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_key(&b, "flag", GGUF_BOOL);
	gguf_put_number(&b, 2, 1);
	expect_refused(&b, "Key \"flag\" holds a boolean of value 2.");
	b = gguf_begin();
	gguf_put_array(&b, "flags", GGUF_BOOL, 3);
	gguf_put_number(&b, 0xFF0100, 3);
	expect_refused(&b, "Key \"flags\" holds a boolean of value 255.");
}

static void
test_arrays_of_arrays_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_array(&b, "nested", GGUF_ARRAY, 1);
	for (int depth = 0; depth < 10; depth++)
	{
		gguf_put_number(&b, GGUF_ARRAY, 4);
		gguf_put_number(&b, 1, 8);
	}
	expect_refused(&b, "Key \"nested\" is an array of items of type 9 (array).");
}

static void
test_arrays_of_unknown_types_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_array(&b, "odd", 0x80000001, 1);
	gguf_put_data(&b, 64, 1);
	expect_refused(&b, "Key \"odd\" is an array of items of type 2147483649 (unknown).");
}

/* n * item_bytes wraps to a small number, or is one item more than there is. */
static void
array_refused(uint32_t item_type, uint64_t n_items, const char *words)
{
	GgufBuilder b = gguf_begin();

	gguf_put_array(&b, "items", item_type, n_items);
	gguf_put_data(&b, 64, 1);
	expect_refused(&b, words);
}

static void
test_array_counts_are_bounded_by_the_file(void **state)
{
	(void) state;
	array_refused(GGUF_UINT32, 17, "announces 17 items where 64 bytes are left");
	array_refused(GGUF_UINT32, UINT64_C(1) << 62, "where 64 bytes are left");
	array_refused(GGUF_FLOAT64, (UINT64_C(1) << 61) + 1, "where 64 bytes are left");
	array_refused(GGUF_UINT8, UINT64_MAX, "where 64 bytes are left");
	array_refused(GGUF_STRING, 9, "It announces 9 texts where 64 bytes are left.");
	array_refused(GGUF_STRING, UINT64_C(1) << 60, "texts where 64 bytes are left");
	array_refused(GGUF_STRING, 8, "more bytes were announced");
}

/* ---- alignment ---- */

static void
alignment_refused(uint32_t type, uint64_t value, size_t n_bytes, const char *words)
{
	GgufBuilder b = gguf_begin();

	gguf_put_key(&b, "general.alignment", type);
	gguf_put_number(&b, value, n_bytes);
	gguf_put_tensor(&b, "weight", 1, ROW, TENSOR_F32, 0);
	gguf_put_data(&b, 128, 32);
	expect_refused(&b, words);
}

static void
test_alignment_is_a_power_of_two_in_range(void **state)
{
	(void) state;
	alignment_refused(GGUF_UINT32, 0, 4, "Key \"general.alignment\" is 0;");
	alignment_refused(GGUF_UINT32, 1, 4, "Key \"general.alignment\" is 1;");
	alignment_refused(GGUF_UINT32, 24, 4, "Key \"general.alignment\" is 24;");
	alignment_refused(GGUF_UINT32, 1u << 21, 4, "Key \"general.alignment\" is 2097152;");
	alignment_refused(GGUF_UINT32, 1u << 31, 4, "Key \"general.alignment\" is 2147483648;");
	alignment_refused(GGUF_INT32, 0xFFFFFFE0, 4, "Key \"general.alignment\" is -32;");
	alignment_refused(GGUF_UINT64, UINT64_C(1) << 63, 8, "is above 2^63");
}

static void
test_alignment_of_another_type_is_refused(void **state)
{
	(void) state;
	alignment_refused(GGUF_FLOAT32, 0x42000000, 4, "is of type float32");
	alignment_refused(GGUF_STRING, 0, 8, "is of type string");
	alignment_refused(GGUF_BOOL, 1, 1, "is of type bool");
}

/* ---- tensors ---- */

/* One tensor over 128 bytes of data. */
static GgufBuilder
tensor_file(const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset)
{
	GgufBuilder b = gguf_begin();

	gguf_put_tensor(&b, name, n_dims, dims, type, offset);
	gguf_put_data(&b, 128, 32);
	return b;
}

static void
tensor_refused(uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset,
			   const char *words)
{
	GgufBuilder b = tensor_file("weight", n_dims, dims, type, offset);

	expect_refused(&b, words);
}

static void
test_a_tensor_that_ends_with_the_file_opens(void **state)
{
	GgufBuilder b = tensor_file("weight", 1, ROW, TENSOR_F32, 0);

	(void) state;
	expect_opens(&b);
}

/* The leak of memory behind a short file that Ollama's users knew as "bleeding llama". */
static void
test_a_tensor_past_the_end_of_the_file_is_refused(void **state)
{
	(void) state;
	tensor_refused(1, (uint64_t[]){ 33 }, TENSOR_F32, 0,
				   "Tensor \"weight\" has 132 bytes at offset 0, past the end");
	tensor_refused(1, ROW, TENSOR_F32, 32, "Tensor \"weight\" has 128 bytes at offset 32, past");
	tensor_refused(2, (uint64_t[]){ 4096, 4096 }, TENSOR_F16, 0, "has 33554432 bytes at offset 0");
}

static void
test_offset_and_size_that_wrap_are_refused(void **state)
{
	(void) state;
	tensor_refused(1, ROW, TENSOR_F32, UINT64_MAX - 31, "at offset 18446744073709551584, past");
	tensor_refused(1, ROW, TENSOR_F32, UINT64_MAX - 127, "past the end");
	tensor_refused(1, ROW, TENSOR_F32, UINT64_C(1) << 63, "past the end");
}

static void
test_the_largest_alignment_does_not_wrap(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_u32(&b, "general.alignment", 1u << 20);
	gguf_put_tensor(&b, "weight", 1, ROW, TENSOR_F32, UINT64_C(0) - (1u << 20));
	gguf_put_data(&b, 128, 32);
	expect_refused(&b, "past the end of the file's 0 bytes of data");
}

static void
test_zero_dimensions_are_refused(void **state)
{
	(void) state;
	tensor_refused(1, (uint64_t[]){ 0 }, TENSOR_F32, 0, "Dimension 0 of tensor \"weight\" is 0.");
	tensor_refused(3, (uint64_t[]){ 32, 0, 1 }, TENSOR_Q8_0, 0, "Dimension 1 of tensor");
	tensor_refused(4, (uint64_t[]){ UINT64_MAX, 1, 1, 0 }, TENSOR_F32, 0, "Dimension 0 of tensor");
}

static void
test_dimensions_that_are_negative_are_refused(void **state)
{
	(void) state;
	tensor_refused(1, (uint64_t[]){ UINT64_C(1) << 63 }, TENSOR_F32, 0,
				   "Dimension 0 of tensor \"weight\" is 9223372036854775808.");
	tensor_refused(2, (uint64_t[]){ 32, UINT64_MAX }, TENSOR_F32, 0, "Dimension 1 of tensor");
}

/* The product of the items wraps, to 0 and to a number that fits the file. */
static void
test_dimensions_whose_product_wraps_are_refused(void **state)
{
	(void) state;
	tensor_refused(2, (uint64_t[]){ UINT64_C(1) << 32, UINT64_C(1) << 32 }, TENSOR_F32, 0,
				   "The dimensions of tensor \"weight\" overflow 64 bits.");
	tensor_refused(4, (uint64_t[]){ 32, UINT64_C(1) << 60, 2, 1 }, TENSOR_F32, 0, "overflow");
	tensor_refused(2, (uint64_t[]){ 32, (UINT64_C(1) << 59) + 1 }, TENSOR_F32, 0, "overflow");
}

/* The items can be counted, their bytes wrap: 2^62 * 4 = 0. */
static void
test_sizes_that_wrap_are_refused(void **state)
{
	(void) state;
	tensor_refused(1, (uint64_t[]){ UINT64_C(1) << 62 }, TENSOR_F32, 0,
				   "The size of tensor \"weight\" overflows 64 bits.");
	tensor_refused(2, (uint64_t[]){ UINT64_C(1) << 31, (UINT64_C(1) << 31) + 1 }, TENSOR_F32, 0,
				   "The size of tensor");
	tensor_refused(1, (uint64_t[]){ UINT64_C(0x7FFFFFFFFFFFFFE0) }, TENSOR_Q8_0, 0, "past the end");
}

static void
test_more_than_four_dimensions_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	tensor_refused(5, ROW, TENSOR_F32, 0, "Tensor \"weight\" has 5 dimensions; at most 4");
	gguf_put_tensor(&b, "weight", 0, ROW, TENSOR_F32, 0);
	gguf_poke(&b, 24 + 8 + 6, UINT32_MAX, 4);
	gguf_put_data(&b, 128, 32);
	expect_refused(&b, "has 4294967295 dimensions");
}

static void
test_rows_that_split_a_block_are_refused(void **state)
{
	(void) state;
	tensor_refused(1, (uint64_t[]){ 33 }, TENSOR_Q8_0, 0,
				   "Rows of tensor \"weight\" have 33 items, no multiple of 32 as type Q8_0 needs");
	tensor_refused(2, (uint64_t[]){ 128, 2 }, TENSOR_Q4_K, 0, "no multiple of 256");
}

static void
test_types_without_a_size_are_refused_by_name(void **state)
{
	static const struct
	{
		uint32_t type;
		const char *words;
	} cases[] = {
		{ 4, "type 4 (Q4_2)" },			{ 5, "type 5 (Q4_3)" },
		{ 31, "type 31 (Q4_0_4_4)" },	{ 33, "type 33 (Q4_0_8_8)" },
		{ 36, "type 36 (IQ4_NL_4_4)" }, { 41, "type 41 (Q1_0)" },
		{ 43, "type 43 (unknown)" },	{ TENSOR_TYPE_LIMIT, "type 64 (unknown)" },
		{ INT32_MAX, "(unknown)" },		{ UINT32_MAX, "type 4294967295 (unknown)" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tensor_refused(1, ROW, cases[i].type, 0, cases[i].words);
}

static void
test_offsets_off_the_alignment_are_refused(void **state)
{
	(void) state;
	tensor_refused(1, (uint64_t[]){ 8 }, TENSOR_F32, 4,
				   "Tensor \"weight\" begins at offset 4, no multiple of 32.");
}

static void
test_tensor_names_have_1_to_63_bytes(void **state)
{
	char name[65];
	GgufBuilder b;

	(void) state;
	memset(name, 'n', 64);
	name[64] = '\0';
	b = tensor_file(name, 1, ROW, TENSOR_F32, 0);
	expect_refused(&b, "of 64 bytes; 1 to 63 are allowed");
	b = tensor_file(name + 1, 1, ROW, TENSOR_F32, 0);
	expect_opens(&b);
	b = tensor_file("", 1, ROW, TENSOR_F32, 0);
	expect_refused(&b, "of 0 bytes; 1 to 63 are allowed");
}

/* Two names that are the same up to the NUL would be one tensor for C and two for the file. */
static void
test_a_tensor_name_with_a_nul_is_refused(void **state)
{
	GgufBuilder b = tensor_file("a.weight", 1, ROW, TENSOR_F32, 0);

	(void) state;
	b.bytes[24 + 8 + 1] = '\0';
	expect_refused(&b, "A tensor has the name \"a?weight\" of 8 bytes");
}

static void
test_duplicate_tensors_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_tensor(&b, "weight", 1, (uint64_t[]){ 8 }, TENSOR_F32, 0);
	gguf_put_tensor(&b, "other", 1, (uint64_t[]){ 8 }, TENSOR_F32, 32);
	gguf_put_tensor(&b, "weight", 1, (uint64_t[]){ 8 }, TENSOR_F32, 64);
	gguf_put_data(&b, 128, 32);
	expect_refused(&b, "Tensor \"weight\" occurs twice.");
}

static void
test_overlapping_tensors_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();

	(void) state;
	gguf_put_tensor(&b, "b", 1, (uint64_t[]){ 8 }, TENSOR_F32, 32);
	gguf_put_tensor(&b, "a", 1, (uint64_t[]){ 9 }, TENSOR_F32, 0);
	gguf_put_data(&b, 128, 32);
	expect_refused(&b, "Tensors \"a\" and \"b\" overlap.");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_every_flip_ends_in_a_result_or_an_error),
		cmocka_unit_test(test_four_bytes_are_no_model),
		cmocka_unit_test(test_another_magic_is_refused),
		cmocka_unit_test(test_other_versions_are_refused_by_number),
		cmocka_unit_test(test_big_endian_is_refused_as_such),
		cmocka_unit_test(test_version_2_opens),
		cmocka_unit_test(test_key_count_is_bounded_by_the_file),
		cmocka_unit_test(test_tensor_count_is_bounded_by_the_file),
		cmocka_unit_test(test_string_lengths_are_bounded_by_the_file),
		cmocka_unit_test(test_key_name_lengths_are_bounded_by_the_file),
		cmocka_unit_test(test_an_empty_key_is_refused),
		cmocka_unit_test(test_a_key_above_64_kb_is_refused),
		cmocka_unit_test(test_a_string_may_be_empty_and_hold_any_byte),
		cmocka_unit_test(test_names_in_messages_are_printable),
		cmocka_unit_test(test_the_architecture_in_a_message_is_printable),
		cmocka_unit_test(test_duplicate_keys_are_refused),
		cmocka_unit_test(test_unknown_value_types_are_refused),
		cmocka_unit_test(test_booleans_are_0_or_1),
		cmocka_unit_test(test_arrays_of_arrays_are_refused),
		cmocka_unit_test(test_arrays_of_unknown_types_are_refused),
		cmocka_unit_test(test_array_counts_are_bounded_by_the_file),
		cmocka_unit_test(test_alignment_is_a_power_of_two_in_range),
		cmocka_unit_test(test_alignment_of_another_type_is_refused),
		cmocka_unit_test(test_a_tensor_that_ends_with_the_file_opens),
		cmocka_unit_test(test_a_tensor_past_the_end_of_the_file_is_refused),
		cmocka_unit_test(test_offset_and_size_that_wrap_are_refused),
		cmocka_unit_test(test_the_largest_alignment_does_not_wrap),
		cmocka_unit_test(test_zero_dimensions_are_refused),
		cmocka_unit_test(test_dimensions_that_are_negative_are_refused),
		cmocka_unit_test(test_dimensions_whose_product_wraps_are_refused),
		cmocka_unit_test(test_sizes_that_wrap_are_refused),
		cmocka_unit_test(test_more_than_four_dimensions_are_refused),
		cmocka_unit_test(test_rows_that_split_a_block_are_refused),
		cmocka_unit_test(test_types_without_a_size_are_refused_by_name),
		cmocka_unit_test(test_offsets_off_the_alignment_are_refused),
		cmocka_unit_test(test_tensor_names_have_1_to_63_bytes),
		cmocka_unit_test(test_a_tensor_name_with_a_nul_is_refused),
		cmocka_unit_test(test_duplicate_tensors_are_refused),
		cmocka_unit_test(test_overlapping_tensors_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
