/*
 * The GGUF reader on good files: values come back, of no other type than they have, and the files
 * of other programs open. gguf_damage_test.c has the bad ones.
 */
#include "test/unit/gguf_builder.h"

#include "engine/model/tensor_type.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- what a good file says ---- */

static void
test_values_come_back_as_they_were_put(void **state)
{
	GgufBuilder b = gguf_small_file();
	Gguf *gguf;
	InferError err;
	GgufText text = { "", 0 };
	GgufArray array = { 0 };
	uint32_t number = 7;
	bool flag = false;
	float real = 0;
	int64_t item;

	(void) state;
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "a/b/small.gguf", &gguf, &err));
	assert_string_equal(gguf_name(gguf), "small.gguf");
	assert_int_equal(gguf_version(gguf), 3);
	assert_int_equal(gguf_key_count(gguf), 12);
	assert_int_equal(gguf_tensor_count(gguf), 2);
	assert_true(gguf_get_text(gguf, "general.architecture", &text, &err));
	assert_int_equal(text.n_bytes, 5);
	assert_memory_equal(text.bytes, "llama", 5);
	assert_true(gguf_get_u32(gguf, "absent", &number, &err) && number == 7);
	assert_true(gguf_get_u32(gguf, "general.alignment", &number, &err) && number == 16);
	assert_true(gguf_get_f32(gguf, "f64", &real, &err) && real == 0.5f);
	assert_true(gguf_get_bool(gguf, "flag", &flag, &err) && flag);
	assert_true(gguf_get_array(gguf, "tokens", &array, &err));
	assert_int_equal(array.n_items, 3);
	assert_memory_equal(array.texts[0].bytes, "<s>", 3);
	assert_int_equal(array.texts[2].n_bytes, 0);
	assert_true(gguf_get_array(gguf, "types", &array, &err));
	assert_true(gguf_array_i64(&array, 0, &item) && item == 7);
	assert_true(gguf_array_i64(&array, 1, &item) && item == 3);
	assert_false(gguf_array_i64(&array, 2, &item));
	gguf_close(gguf);
	gguf_end(&b);
}

static void
test_tensors_lie_where_the_file_puts_them(void **state)
{
	GgufBuilder b = gguf_small_file();
	const GgufTensor *norm;
	Gguf *gguf;
	InferError err;

	(void) state;
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "small.gguf", &gguf, &err));
	norm = gguf_tensor_find(gguf, "norm");
	assert_non_null(norm);
	assert_int_equal(norm->n_items, 5);
	assert_int_equal(norm->dims[1], 1);
	assert_int_equal(norm->n_bytes, 20);
	assert_ptr_equal(norm->data, b.bytes + b.n_bytes - 20);
	assert_int_equal(gguf_tensor_find(gguf, "weight")->n_bytes, 34);
	assert_null(gguf_tensor_find(gguf, "Norm"));
	assert_null(gguf_tensor_at(gguf, 2));
	gguf_close(gguf);
	gguf_end(&b);
}

/* ---- getters never reinterpret ---- */

static void
test_getters_refuse_other_types(void **state)
{
	GgufBuilder b = gguf_small_file();
	GgufText text;
	GgufArray array;
	uint32_t number;
	bool flag;
	float real;
	Gguf *gguf;
	InferError err;

	(void) state;
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "small.gguf", &gguf, &err));
	assert_false(gguf_get_text(gguf, "eps", &text, &err));
	assert_int_equal(err.code, INFER_BAD_MODEL);
	assert_string_equal(err.detail, "Key \"eps\" is of type float32 where a string is needed.");
	assert_false(gguf_get_u32(gguf, "eps", &number, &err));
	assert_false(gguf_get_u32(gguf, "flag", &number, &err));
	assert_false(gguf_get_u32(gguf, "tokens", &number, &err));
	assert_false(gguf_get_u32(gguf, "general.architecture", &number, &err));
	assert_false(gguf_get_f32(gguf, "general.alignment", &real, &err));
	assert_false(gguf_get_f32(gguf, "tokens", &real, &err));
	assert_false(gguf_get_f32(gguf, "general.architecture", &real, &err));
	assert_false(gguf_get_bool(gguf, "i8", &flag, &err));
	assert_false(gguf_get_array(gguf, "general.architecture", &array, &err));
	gguf_close(gguf);
	gguf_end(&b);
}

static void
test_numbers_that_do_not_fit_are_refused(void **state)
{
	GgufBuilder b = gguf_small_file();
	uint32_t number;
	Gguf *gguf;
	InferError err;

	(void) state;
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "small.gguf", &gguf, &err));
	assert_false(gguf_get_u32(gguf, "i8", &number, &err));
	assert_string_equal(err.detail, "Key \"i8\" is -2; a number from 0 to 4294967295 is needed.");
	assert_false(gguf_get_u32(gguf, "u64", &number, &err));
	assert_non_null(strstr(err.detail, "above 2^63"));
	gguf_close(gguf);
	gguf_end(&b);
}

static void
test_not_a_number_and_infinite_metadata_are_refused(void **state)
{
	GgufBuilder b = gguf_begin();
	double too_wide = 1e300;
	float real;
	Gguf *gguf;
	InferError err;

	(void) state;
	gguf_put_f32(&b, "nan", NAN);
	gguf_put_f32(&b, "inf", -INFINITY);
	gguf_put_key(&b, "wide", GGUF_FLOAT64);
	gguf_put_bytes(&b, &too_wide, sizeof(too_wide));
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "nan.gguf", &gguf, &err));
	assert_false(gguf_get_f32(gguf, "nan", &real, &err));
	assert_string_equal(err.detail, "Key \"nan\" is not a number; a finite number is needed.");
	assert_false(gguf_get_f32(gguf, "inf", &real, &err));
	assert_false(gguf_get_f32(gguf, "wide", &real, &err));
	assert_int_equal(err.code, INFER_BAD_MODEL);
	gguf_close(gguf);
	gguf_end(&b);
}

/* llama.cpp PR 26690: scores, token types and lists of ids were read as the type that one hoped. */
static void
test_array_items_are_never_read_as_another_type(void **state)
{
	GgufBuilder b = gguf_small_file();
	GgufArray array = { 0 };
	int64_t integer;
	float real;
	Gguf *gguf;
	InferError err;

	(void) state;
	assert_true(gguf_open_memory(b.bytes, b.n_bytes, "small.gguf", &gguf, &err));
	assert_true(gguf_get_array(gguf, "scores", &array, &err));
	assert_false(gguf_array_i64(&array, 0, &integer));
	assert_true(gguf_array_f32(&array, 0, &real) && real == 1.0f);
	assert_false(gguf_array_f32(&array, 1, &real));
	assert_true(gguf_get_array(gguf, "types", &array, &err));
	assert_false(gguf_array_f32(&array, 0, &real));
	assert_true(gguf_get_array(gguf, "tokens", &array, &err));
	assert_false(gguf_array_i64(&array, 0, &integer));
	assert_false(gguf_array_f32(&array, 0, &real));
	assert_true(gguf_get_array(gguf, "bools", &array, &err));
	assert_false(gguf_array_i64(&array, 0, &integer));
	gguf_close(gguf);
	gguf_end(&b);
}

/* ---- files of other programs ---- */

static bool
has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name);

	return n >= strlen(suffix) && strcmp(name + n - strlen(suffix), suffix) == 0;
}

/* Each type is one that the table can name, and size, whether or not it runs. */
static void
file_check(const char *path)
{
	Gguf *gguf = NULL;
	InferError err;

	if (!gguf_open(path, &gguf, &err))
		fail_msg("%s: %s", err.message, err.detail);
	for (size_t i = 0; i < gguf_tensor_count(gguf); i++)
		assert_non_null(tensor_type_info(gguf_tensor_at(gguf, i)->type));
	assert_true(gguf_key_count(gguf) > 0);
	(void) gguf_read_all(gguf);
	gguf_drop_pages(gguf);
	gguf_close(gguf);
}

static int
folder_check(const char *golden, const char *folder)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int n_files = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s", golden, folder);
	dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		if (!has_suffix(entry->d_name, ".gguf"))
			continue;
		snprintf(path, sizeof(path), "%s/%s/%s", golden, folder, entry->d_name);
		file_check(path);
		n_files++;
	}
	if (dir != NULL)
		closedir(dir);
	return n_files;
}

static void
test_files_of_other_programs_open(void **state)
{
	const char *golden =
		getenv("INFER_GOLDEN") != NULL ? getenv("INFER_GOLDEN") : "../shared/golden";
	int n_files = folder_check(golden, "models") + folder_check(golden, "quants") +
				  folder_check(golden, "tokenizers") + folder_check(golden, "minilm");

	(void) state;
	if (n_files == 0)
	{
		print_message("no reference files in \"%s\"\n", golden);
		skip();
	}
	print_message("%d files opened and read\n", n_files);
}

static void
test_the_model_of_the_demo_opens(void **state)
{
	const char *path = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

	(void) state;
	if (access(path, R_OK) != 0)
	{
		print_message("no \"%s\"; scripts/model makes it\n", path);
		skip();
	}
	file_check(path);
}

/* ---- what is no file at all ---- */

static void
expect_not_opened(const char *path, InferCode code, const char *message)
{
	Gguf *gguf = NULL;
	InferError err;

	assert_false(gguf_open(path, &gguf, &err));
	assert_null(gguf);
	assert_int_equal(err.code, code);
	assert_string_equal(err.message, message);
}

static void
test_what_cannot_be_opened_is_told_by_its_base_name(void **state)
{
	(void) state;
	expect_not_opened("/nowhere/secret/absent.gguf", INFER_IO,
					  "cannot open model file \"absent.gguf\"");
	expect_not_opened("/usr", INFER_IO, "model file \"usr\" is not a regular file");
	expect_not_opened("/dev/zero", INFER_IO, "model file \"zero\" is not a regular file");
}

/* A reader that waits for a writer would hang the engine. */
static void
test_a_fifo_is_refused_at_once(void **state)
{
	char folder[] = "/tmp/gguf_test.XXXXXX";
	char path[64];

	(void) state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/fifo.gguf", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_not_opened(path, INFER_IO, "model file \"fifo.gguf\" is not a regular file");
	unlink(path);
	rmdir(folder);
}

static void
test_an_empty_file_is_refused(void **state)
{
	char path[] = "/tmp/gguf_test.XXXXXX";
	int fd = mkstemp(path);
	Gguf *gguf;
	InferError err;

	(void) state;
	assert_true(fd >= 0);
	close(fd);
	assert_false(gguf_open(path, &gguf, &err));
	assert_int_equal(err.code, INFER_BAD_MODEL);
	assert_non_null(strstr(err.message, "is empty"));
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_come_back_as_they_were_put),
		cmocka_unit_test(test_tensors_lie_where_the_file_puts_them),
		cmocka_unit_test(test_getters_refuse_other_types),
		cmocka_unit_test(test_numbers_that_do_not_fit_are_refused),
		cmocka_unit_test(test_not_a_number_and_infinite_metadata_are_refused),
		cmocka_unit_test(test_array_items_are_never_read_as_another_type),
		cmocka_unit_test(test_files_of_other_programs_open),
		cmocka_unit_test(test_the_model_of_the_demo_opens),
		cmocka_unit_test(test_what_cannot_be_opened_is_told_by_its_base_name),
		cmocka_unit_test(test_a_fifo_is_refused_at_once),
		cmocka_unit_test(test_an_empty_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
