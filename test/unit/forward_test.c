/*
 * Promise 3.2 of the design at the level of a forward pass: logits are equal bit for bit whatever
 * shares the batch, however the prompt is cut, after a prefix hit, with any number of threads and
 * on every instruction set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "forward_rig.h"

static void
ids_fill(int32_t *ids, int n, int n_vocab, uint32_t seed)
{
	for (int i = 0; i < n; i++)
	{
		seed = seed * 1664525 + 1013904223;
		ids[i] = (int32_t) ((seed >> 8) % (uint32_t) n_vocab);
	}
}

/* Two small models of different kinds: floats with norms of heads, and four bits with GQA. */
static const char *const small_models[] = { "models/qwen3-dense.gguf", "quants/Q4_0.gguf",
											"quants/Q4_K_M.gguf" };
#define N_SMALL_MODELS (sizeof(small_models) / sizeof(small_models[0]))

static void
assert_rows_equal(const Rig *rig, const float *a, const float *b, int n_rows)
{
	assert_memory_equal(a, b, (size_t) n_rows * (size_t) rig_vocab(rig) * sizeof(float));
}

static void
test_chunks_do_not_change_logits(void **state)
{
	static const int32_t chunks[] = { 1, 7, 64, 512 };
	int32_t ids[200];

	(void) state;
	SKIP_WITHOUT(golden_path(small_models[0]));
	for (size_t m = 0; m < N_SMALL_MODELS; m++)
	{
		Rig rig;
		float *whole;

		rig_create(&rig, golden_path(small_models[m]), KV_F16, 2);
		ids_fill(ids, 200, rig_vocab(&rig), 1);
		whole = rig_logits(&rig, ids, 200, 200);
		for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++)
		{
			float *cut = rig_logits(&rig, ids, 200, chunks[c]);

			assert_rows_equal(&rig, cut, whole, 200);
			free(cut);
		}
		free(whole);
		rig_destroy(&rig);
	}
}

static void
test_threads_do_not_change_logits(void **state)
{
	int32_t ids[100];
	float *first = NULL;

	(void) state;
	SKIP_WITHOUT(golden_path("quants/Q4_0.gguf"));
	for (int32_t n_threads = 1; n_threads <= 3; n_threads++)
	{
		Rig rig;
		float *logits;

		rig_create(&rig, golden_path("quants/Q4_0.gguf"), KV_F16, n_threads);
		ids_fill(ids, 100, rig_vocab(&rig), 2);
		logits = rig_logits(&rig, ids, 100, 33);
		if (first == NULL)
			first = logits;
		else
		{
			assert_rows_equal(&rig, logits, first, 100);
			free(logits);
		}
		rig_destroy(&rig);
	}
	free(first);
}

static void
test_instruction_sets_do_not_change_logits(void **state)
{
	int32_t ids[60];
	float *first = NULL;
	int n_sets = 0;

	(void) state;
	SKIP_WITHOUT(golden_path("quants/Q4_K_M.gguf"));
	for (int isa = KERNEL_REF; isa < KERNEL_N_ISAS; isa++)
	{
		Rig rig;
		float *logits;
		Kernels kernels;

		if (!kernels_for_isa((KernelIsa) isa, &kernels))
			continue;
		rig_create(&rig, golden_path("quants/Q4_K_M.gguf"), KV_F16, 2);
		rig.kernels = kernels;
		ids_fill(ids, 60, rig_vocab(&rig), 3);
		logits = rig_logits(&rig, ids, 60, 25);
		n_sets++;
		if (first == NULL)
			first = logits;
		else
		{
			assert_rows_equal(&rig, logits, first, 60);
			free(logits);
		}
		rig_destroy(&rig);
	}
	print_message("equal on %d instruction sets\n", n_sets);
	free(first);
}

/* One decode step of 32 sequences of different lengths in one batch, against each alone. */
static void
test_company_does_not_change_logits(void **state)
{
	enum
	{
		N = 32
	};
	int32_t ids[N][120];
	int32_t pages[N][8];
	int32_t tokens[N];
	int32_t outputs[N];
	ForwardSequence sequences[N];
	ForwardBatch batch = { N, tokens, N, sequences, N, outputs };
	const float *together;
	float *alone;
	float *prompt;
	InferError err;
	Rig rig;

	(void) state;
	SKIP_WITHOUT(golden_path("quants/Q4_0.gguf"));
	rig_create(&rig, golden_path("quants/Q4_0.gguf"), KV_F16, 2);
	alone = malloc((size_t) (N + 1) * (size_t) rig_vocab(&rig) * sizeof(float));
	assert_non_null(alone);
	prompt = alone + (size_t) N * (size_t) rig_vocab(&rig);
	for (int s = 0; s < N; s++)
	{
		int32_t n = 3 * s + 2;

		ids_fill(ids[s], 120, rig_vocab(&rig), (uint32_t) s);
		assert_true(kv_pages_alloc(rig.kv, 8, pages[s]));
		rig_feed(&rig, ids[s], 0, n, pages[s], false, prompt);
		tokens[s] = ids[s][n];
		outputs[s] = s;
		sequences[s] = (ForwardSequence){ s, 1, n, pages[s] };
		rig_feed(&rig, ids[s], n, 1, pages[s], false,
				 alone + (size_t) s * (size_t) rig_vocab(&rig));
	}
	assert_true(forward_run(rig.forward, &batch, &together, NULL, &err));
	assert_rows_equal(&rig, together, alone, N);
	free(alone);
	rig_destroy(&rig);
}

/* A batch that mixes a long prompt chunk with decodes computes the same for both. */
static void
test_a_prompt_beside_decodes_changes_nothing(void **state)
{
	int32_t ids[2][200];
	int32_t pages[2][16];
	int32_t tokens[151];
	int32_t outputs[2] = { 0, 150 };
	ForwardSequence sequences[2] = { { 0, 1, 40, pages[0] }, { 1, 150, 0, pages[1] } };
	ForwardBatch batch = { 151, tokens, 2, sequences, 2, outputs };
	const float *together;
	float *alone;
	InferError err;
	Rig rig;

	(void) state;
	SKIP_WITHOUT(golden_path("quants/Q4_K_M.gguf"));
	rig_create(&rig, golden_path("quants/Q4_K_M.gguf"), KV_F16, 2);
	alone = malloc(2 * (size_t) rig_vocab(&rig) * sizeof(float));
	assert_non_null(alone);
	for (int s = 0; s < 2; s++)
	{
		ids_fill(ids[s], 200, rig_vocab(&rig), 50 + (uint32_t) s);
		assert_true(kv_pages_alloc(rig.kv, 16, pages[s]));
	}
	rig_feed(&rig, ids[0], 0, 40, pages[0], false, alone);
	rig_feed(&rig, ids[0], 40, 1, pages[0], false, alone);
	rig_feed(&rig, ids[1], 0, 150, pages[1], false, alone + rig_vocab(&rig));
	tokens[0] = ids[0][40];
	memcpy(tokens + 1, ids[1], 150 * sizeof(int32_t));
	assert_true(forward_run(rig.forward, &batch, &together, NULL, &err));
	assert_rows_equal(&rig, together, alone, 2);
	free(alone);
	rig_destroy(&rig);
}

static void
test_a_prefix_hit_does_not_change_logits(void **state)
{
	static const KvSalt salt = { { 9 } };
	int32_t ids[100];
	int32_t pages[7];
	int32_t found[7];
	int32_t n_found;
	float *fresh;
	float *reused;
	Rig rig;

	(void) state;
	SKIP_WITHOUT(golden_path("quants/Q4_0.gguf"));
	rig_create(&rig, golden_path("quants/Q4_0.gguf"), KV_F16, 2);
	ids_fill(ids, 100, rig_vocab(&rig), 4);
	fresh = malloc(2 * (size_t) rig_vocab(&rig) * sizeof(float));
	assert_non_null(fresh);
	reused = fresh + rig_vocab(&rig);

	assert_true(kv_pages_alloc(rig.kv, 7, pages));
	rig_feed(&rig, ids, 0, 100, pages, false, fresh);
	kv_prefix_publish(rig.kv, &salt, ids, 0, 6, pages);
	for (int i = 6; i >= 0; i--)
		kv_page_release(rig.kv, pages[i]);

	n_found = kv_prefix_find(rig.kv, &salt, ids, 100, found);
	assert_int_equal(n_found, 6);
	assert_true(kv_pages_alloc(rig.kv, 1, found + 6));
	rig_feed(&rig, ids, 96, 4, found, false, reused);
	assert_rows_equal(&rig, reused, fresh, 1);
	free(fresh);
	rig_destroy(&rig);
}

static void
test_a_token_outside_the_vocabulary_is_refused(void **state)
{
	int32_t page;
	int32_t token;
	int32_t output = 0;
	ForwardSequence sequence = { 0, 1, 0, &page };
	ForwardBatch batch = { 1, &token, 1, &sequence, 1, &output };
	const float *logits;
	InferError err;
	Rig rig;

	(void) state;
	SKIP_WITHOUT(golden_path(small_models[0]));
	rig_create(&rig, golden_path(small_models[0]), KV_F32, 1);
	assert_true(kv_pages_alloc(rig.kv, 1, &page));
	for (int i = 0; i < 2; i++)
	{
		token = i == 0 ? -1 : rig_vocab(&rig);
		assert_false(forward_run(rig.forward, &batch, &logits, NULL, &err));
		assert_int_equal(err.code, INFER_BAD_INPUT);
	}
	rig_destroy(&rig);
}

/* A weight that is not finite shows in its own row only, and is told. */
static void
test_logits_that_are_not_numbers_are_told(void **state)
{
	int32_t pages[2];
	int32_t tokens[2] = { 5, 6 };
	int32_t outputs[2] = { 0, 1 };
	ForwardSequence sequences[2] = { { 0, 1, 0, &pages[0] }, { 1, 1, 0, &pages[1] } };
	ForwardBatch batch = { 2, tokens, 2, sequences, 2, outputs };
	bool failed[2] = { false, true };
	const float *logits;
	float *embedding;
	InferError err;
	Rig rig;

	(void) state;
	SKIP_WITHOUT(golden_path("models/llama-dense.gguf"));
	rig_create(&rig, golden_path("models/llama-dense.gguf"), KV_F32, 2);
	assert_true(kv_pages_alloc(rig.kv, 2, pages));
	/* packed floats: [column][16 rows], the row of token 5 in group 0 */
	embedding = (float *) (uintptr_t) rig.model->weights.token_embd.data;
	embedding[5] = 1e38f;
	embedding[16 + 5] = -1e38f;
	embedding[32 + 5] = 1e38f * 10;
	assert_false(forward_run(rig.forward, &batch, &logits, failed, &err));
	assert_int_equal(err.code, INFER_BAD_MODEL);
	assert_true(failed[0]);
	assert_false(failed[1]);
	rig_destroy(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks_do_not_change_logits),
		cmocka_unit_test(test_threads_do_not_change_logits),
		cmocka_unit_test(test_instruction_sets_do_not_change_logits),
		cmocka_unit_test(test_company_does_not_change_logits),
		cmocka_unit_test(test_a_prompt_beside_decodes_changes_nothing),
		cmocka_unit_test(test_a_prefix_hit_does_not_change_logits),
		cmocka_unit_test(test_a_token_outside_the_vocabulary_is_refused),
		cmocka_unit_test(test_logits_that_are_not_numbers_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
