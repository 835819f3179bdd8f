/*
 * The sampler on a vocabulary of six tokens whose probabilities are known.
 */
#include "engine/sample/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define N_VOCAB 6

/* Probabilities 0.5, 0.3, 0.15, 0.05, and two tokens that are masked. */
static void
logits_fill(float *logits)
{
	static const float probabilities[] = { 0.15f, 0.5f, 0.05f, 0.3f };

	for (int i = 0; i < 4; i++)
		logits[i] = logf(probabilities[i]);
	logits[4] = logits[5] = -INFINITY;
}

static SamplerParams
params_of(double temperature, double top_p, int32_t top_k, double min_p)
{
	InferRequest request;
	SamplerParams params;

	infer_request_init(&request, INFER_KIND_GENERATE);
	request.temperature = temperature;
	request.top_p = top_p;
	request.top_k = top_k;
	request.min_p = min_p;
	sampler_params_init(&params, &request);
	return params;
}

/* Bit i: token i came in a thousand draws. */
static unsigned
drawn(SamplerParams params)
{
	SamplerScratch *scratch = sampler_scratch_create(N_VOCAB);
	const char *problem;
	float logits[16] __attribute__((aligned(64)));
	int32_t history[] = { 0 };
	unsigned tokens = 0;
	Kernels kernels;

	assert_true(kernels_select(&kernels, &problem));
	assert_non_null(scratch);
	logits_fill(logits);
	for (params.seed = 0; params.seed < 1000; params.seed++)
		tokens |= 1u << sampler_pick(&params, &kernels, logits, N_VOCAB, history, 1, scratch);
	sampler_scratch_destroy(scratch);
	return tokens;
}

static void
test_without_bounds_every_token_but_masked_ones_comes(void **state)
{
	(void) state;
	assert_int_equal(drawn(params_of(1, 1, 0, 0)), 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3);
}

static void
test_temperature_0_takes_the_likeliest(void **state)
{
	(void) state;
	assert_int_equal(drawn(params_of(0, 1, 0, 0)), 1 << 1);
	assert_int_equal(drawn(params_of(1e-300, 1, 0, 0)), 1 << 1);
}

static void
test_bounds_keep_the_likeliest(void **state)
{
	(void) state;
	assert_int_equal(drawn(params_of(1, 1, 2, 0)), 1 << 1 | 1 << 3);
	assert_int_equal(drawn(params_of(1, 0.7, 0, 0)), 1 << 1 | 1 << 3);
	assert_int_equal(drawn(params_of(1, 1, 0, 0.25)), 1 << 0 | 1 << 1 | 1 << 3);
}

/* 1e-300 is 0 as a float: a share of nothing is still one token, not none. */
static void
test_the_smallest_top_p_keeps_one(void **state)
{
	(void) state;
	assert_int_equal(drawn(params_of(1, 0.01, 0, 0)), 1 << 1);
	assert_int_equal(drawn(params_of(1, 1e-300, 0, 0)), 1 << 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_bounds_every_token_but_masked_ones_comes),
		cmocka_unit_test(test_temperature_0_takes_the_likeliest),
		cmocka_unit_test(test_bounds_keep_the_likeliest),
		cmocka_unit_test(test_the_smallest_top_p_keeps_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
