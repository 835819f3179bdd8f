#include "engine/sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Tokens this far below the heaviest weigh nothing, exactly: so a masked token (-infinity) can
 * never be drawn, and the exponential stays in its range. e^-80 is about 1.8e-35.
 */
#define MIN_EXPONENT (-80.0f)
#define MIN_WEIGHT	 1e-34f

/* A weight's 32 bits are looked at in three digits, the highest first; weights lie in [0, 1]. */
#define N_DIGITS	  3
#define DIGIT_BUCKETS 2048
static const struct
{
	int shift;
	uint32_t mask;
} digits[N_DIGITS] = { { 21, 0x7ff }, { 10, 0x7ff }, { 0, 0x3ff } };

struct SamplerScratch
{
	int32_t n_vocab;
	float *weights;	 /* [n_vocab] */
	int32_t *counts; /* [n_vocab] zero between calls */
	double mass[DIGIT_BUCKETS];
};

SamplerScratch *
sampler_scratch_create(int32_t n_vocab)
{
	SamplerScratch *scratch = calloc(1, sizeof(SamplerScratch));
	size_t n_bytes = ((size_t) n_vocab * sizeof(float) + 63) / 64 * 64;

	if (scratch == NULL)
		return NULL;
	scratch->n_vocab = n_vocab;
	scratch->weights = aligned_alloc(64, n_bytes);
	scratch->counts = calloc((size_t) n_vocab, sizeof(int32_t));
	if (scratch->weights == NULL || scratch->counts == NULL)
	{
		sampler_scratch_destroy(scratch);
		return NULL;
	}
	return scratch;
}

void
sampler_scratch_destroy(SamplerScratch *scratch)
{
	if (scratch == NULL)
		return;
	free(scratch->weights);
	free(scratch->counts);
	free(scratch);
}

void
sampler_params_init(SamplerParams *params, const InferRequest *request)
{
	memset(params, 0, sizeof(*params));
	params->temperature = (float) request->temperature;
	params->top_p = (float) request->top_p;
	params->min_p = (float) request->min_p;
	params->top_k = request->top_k;
	params->repeat_last_n = request->repeat_last_n;
	params->repeat_penalty = (float) request->repeat_penalty;
	params->frequency_penalty = (float) request->frequency_penalty;
	params->presence_penalty = (float) request->presence_penalty;
	params->seed = request->seed;
}

/* ---- the random number ---------------------------------------------------------------------- */

double
sampler_uniform(uint64_t seed, uint64_t position)
{
	uint32_t c0 = (uint32_t) position;
	uint32_t c1 = (uint32_t) (position >> 32);
	uint32_t c2 = 0;
	uint32_t c3 = 0;
	uint32_t k0 = (uint32_t) seed;
	uint32_t k1 = (uint32_t) (seed >> 32);
	uint64_t bits;

	/* Philox 4x32: two multiplications a round, keys advance by the Weyl constants. */
	for (int round = 0; round < 10; round++)
	{
		uint64_t p0 = (uint64_t) 0xD2511F53u * c0;
		uint64_t p1 = (uint64_t) 0xCD9E8D57u * c2;

		c0 = (uint32_t) (p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t) p1;
		c2 = (uint32_t) (p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t) p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	bits = (uint64_t) c0 << 32 | c1;
	return (double) (bits >> 11) * 0x1p-53;
}

/* ---- penalties and bias --------------------------------------------------------------------- */

static bool
params_change_logits(const SamplerParams *params)
{
	return params->n_biases > 0 || params->repeat_penalty != 1.0f ||
		   params->frequency_penalty != 0.0f || params->presence_penalty != 0.0f;
}

static void
penalties_apply(const SamplerParams *params, float *logits, int32_t n_vocab, const int32_t *window,
				int32_t n_window, int32_t *counts)
{
	for (int32_t i = 0; i < n_window; i++)
		if (window[i] >= 0 && window[i] < n_vocab)
			counts[window[i]]++;

	/* Each token of the window once: its count is taken, then zero again. */
	for (int32_t i = 0; i < n_window; i++)
	{
		int32_t id = window[i];
		float logit;

		if (id < 0 || id >= n_vocab || counts[id] == 0)
			continue;
		logit = logits[id];
		logit = logit > 0 ? logit / params->repeat_penalty : logit * params->repeat_penalty;
		logit -= params->frequency_penalty * (float) counts[id] + params->presence_penalty;
		logits[id] = logit;
		counts[id] = 0;
	}
}

static const float *
logits_adjust(const SamplerParams *params, const float *logits, int32_t n_vocab,
			  const int32_t *token_ids, int32_t n_tokens, SamplerScratch *scratch)
{
	int32_t n_window = n_tokens;

	if (!params_change_logits(params))
		return logits;
	if (params->repeat_last_n > 0 && params->repeat_last_n < n_tokens)
		n_window = params->repeat_last_n;
	memcpy(scratch->weights, logits, (size_t) n_vocab * sizeof(float));
	penalties_apply(params, scratch->weights, n_vocab, token_ids + n_tokens - n_window, n_window,
					scratch->counts);
	for (int32_t i = 0; i < params->n_biases; i++)
		scratch->weights[params->biases[i].token_id] += params->biases[i].bias;
	return scratch->weights;
}

/* ---- selecting ------------------------------------------------------------------------------ */

static uint32_t
weight_bits(float weight)
{
	uint32_t bits;

	memcpy(&bits, &weight, sizeof(bits));
	return bits;
}

/*
 * Keeps the heaviest weights until `limit` is reached and zeroes the others. What is summed is the
 * weights themselves (by_mass) or their number. The boundary weight is found digit by digit: of all
 * weights that share the digits found so far, the bucket of the next digit in which the sum passes
 * the limit.
 */
static void
weights_keep_heaviest(SamplerScratch *scratch, int32_t n, bool by_mass, double limit)
{
	float *weights = scratch->weights;
	double sum_above = 0;
	uint32_t found = 0;
	uint32_t found_mask = 0;
	float boundary;
	double unit;
	double n_equal;

	for (int d = 0; d < N_DIGITS; d++)
	{
		int shift = digits[d].shift;
		uint32_t mask = digits[d].mask;
		int32_t bucket;

		memset(scratch->mass, 0, sizeof(scratch->mass));
		for (int32_t i = 0; i < n; i++)
		{
			uint32_t bits = weight_bits(weights[i]);

			if ((bits & found_mask) == found && bits != 0)
				scratch->mass[(bits >> shift) & mask] += by_mass ? (double) weights[i] : 1.0;
		}
		for (bucket = (int32_t) mask; bucket > 0; bucket--)
		{
			if (scratch->mass[bucket] > 0 && sum_above + scratch->mass[bucket] >= limit)
				break;
			sum_above += scratch->mass[bucket];
		}
		found |= (uint32_t) bucket << shift;
		found_mask |= mask << shift;
	}

	memcpy(&boundary, &found, sizeof(boundary));
	unit = by_mass ? (double) boundary : 1.0;
	n_equal = unit > 0 ? ceil((limit - sum_above) / unit) : 0;
	if (sum_above == 0 && n_equal < 1)
		n_equal = 1; /* the limit was rounded to 0: the heaviest always stays */
	for (int32_t i = 0; i < n; i++)
	{
		uint32_t bits = weight_bits(weights[i]);

		if (bits < found)
			weights[i] = 0;
		else if (bits == found && n_equal < 1)
			weights[i] = 0;
		else if (bits == found)
			n_equal--;
	}
}

static double
weights_sum(const float *weights, int32_t n)
{
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += (double) weights[i];
	return sum;
}

static int32_t
weights_draw(const float *weights, int32_t n, double uniform)
{
	double target = uniform * weights_sum(weights, n);
	double sum = 0;
	int32_t last = 0;

	for (int32_t i = 0; i < n; i++)
	{
		if (weights[i] <= 0)
			continue;
		sum += (double) weights[i];
		last = i;
		if (sum > target)
			break;
	}
	return last;
}

int32_t
sampler_pick(const SamplerParams *params, const Kernels *kernels, const float *logits,
			 int32_t n_vocab, const int32_t *token_ids, int32_t n_tokens, SamplerScratch *scratch)
{
	const float *adjusted = logits_adjust(params, logits, n_vocab, token_ids, n_tokens, scratch);
	float *weights = scratch->weights;
	float per_temperature;
	float largest;
	int32_t best = kernels->argmax(adjusted, n_vocab);

	if (params->temperature <= 0)
		return best;

	largest = adjusted[best];
	per_temperature = 1.0f / params->temperature;
	for (int32_t i = 0; i < n_vocab; i++)
	{
		float x = (adjusted[i] - largest) * per_temperature;

		/* Written so that a NaN, which a kernel never yields, would count as nothing too. */
		weights[i] = x > MIN_EXPONENT ? x : MIN_EXPONENT;
	}
	weights[best] = 0; /* also when 1 / temperature is infinite */
	kernels->exp_sum(weights, n_vocab, 0.0f, weights);
	for (int32_t i = 0; i < n_vocab; i++)
		weights[i] = weights[i] < MIN_WEIGHT ? 0 : weights[i];

	if (params->top_k > 0 && params->top_k < n_vocab)
		weights_keep_heaviest(scratch, n_vocab, false, params->top_k);
	if (params->top_p < 1.0f)
		weights_keep_heaviest(scratch, n_vocab, true,
							  (double) params->top_p * weights_sum(weights, n_vocab));
	if (params->min_p > 0)
		for (int32_t i = 0; i < n_vocab; i++)
			if (weights[i] < params->min_p)
				weights[i] = 0;
	return weights_draw(weights, n_vocab, sampler_uniform(params->seed, (uint64_t) n_tokens));
}
