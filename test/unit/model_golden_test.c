/*
 * Logits of whole models against the reference (golden/README.md tells how it was made).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "forward_rig.h"

#define N_TOKENS 100

/* Error and agreement of one file with its reference, fed in one chunk. */
static void
logits_compare(const char *folder, const char *name, double *error, int *n_same)
{
	char file[128];
	int32_t ids[N_TOKENS];
	int n_rows = 0;
	int n_cols = 0;
	Rig rig;
	float *expected;
	float *got;

	snprintf(file, sizeof(file), "%s/%s.npy", folder, name);
	expected = npy_read(golden_path(file), &n_rows, &n_cols);
	assert_non_null(expected);
	assert_int_equal(golden_tokens(ids, N_TOKENS), N_TOKENS);
	assert_int_equal(n_rows, N_TOKENS);
	snprintf(file, sizeof(file), "%s/%s.gguf", folder, name);
	rig_create(&rig, golden_path(file), KV_F32, 2);
	assert_int_equal(n_cols, rig_vocab(&rig));

	got = rig_logits(&rig, ids, N_TOKENS, N_TOKENS);
	*error = normalized_error(got, expected, (size_t) n_rows * (size_t) n_cols);
	*n_same = 0;
	for (int i = 0; i < n_rows; i++)
		*n_same += index_of_largest(got + i * n_cols, n_cols) ==
				   index_of_largest(expected + i * n_cols, n_cols);
	free(got);
	free(expected);
	rig_destroy(&rig);
}

static void
test_f32_models_equal_the_reference(void **state)
{
	static const char *const names[] = { "llama-dense",		 "qwen2-dense",	   "qwen3-dense",
										 "v-llama-tied",	 "v-llama-linear", "v-llama-yarn",
										 "v-llama-ropefreqs" };

	(void) state;
	SKIP_WITHOUT(golden_path("models/tokens.json"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		double error;
		int n_same;

		logits_compare("models", names[i], &error, &n_same);
		print_message("%-20s normalized error %.2e, same argmax %d of %d\n", names[i], error,
					  n_same, N_TOKENS);
		assert_true(error <= 1e-6);
		assert_true(n_same >= 99);
	}
}

/* Bounds: what llama.cpp itself misses the exact result by (golden/README.md). */
static void
test_quantized_models_are_as_exact_as_llama_cpp(void **state)
{
	static const struct
	{
		const char *name;
		double bound;
	} types[] = {
		{ "Q4_0", 1.0e-3 },	  { "Q4_1", 1.2e-3 },	{ "Q5_0", 1.1e-3 },	  { "Q8_0", 1.2e-3 },
		{ "Q4_K_M", 2.4e-3 }, { "Q4_K_S", 2.4e-3 }, { "Q5_K_M", 2.4e-3 }, { "Q5_K_S", 2.4e-3 },
		{ "Q6_K", 2.3e-3 },	  { "F16", 1.6e-6 },
	};

	(void) state;
	SKIP_WITHOUT(golden_path("models/tokens.json"));
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		double error;
		int n_same;

		logits_compare("quants", types[i].name, &error, &n_same);
		print_message("%-8s normalized error %.2e, bound %.1e, same argmax %d\n", types[i].name,
					  error, types[i].bound, n_same);
		assert_true(error <= types[i].bound);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_f32_models_equal_the_reference),
		cmocka_unit_test(test_quantized_models_are_as_exact_as_llama_cpp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
