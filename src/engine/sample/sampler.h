/*
 * sampler.h: from one row of logits to one token.
 *
 * The chain, in this order (each stage works on what the stage before left):
 *
 *   1 repeat penalty      of tokens in the window: logit > 0 ? logit / p : logit * p
 *   2 frequency, presence logit -= frequency * (times in the window) + presence
 *   3 logit bias          logit += bias
 *     temperature 0 ends here: the largest logit, the smallest id of equals
 *   4 temperature         (logit - largest) / temperature
 *   5 softmax             unnormalised: the largest has weight 1
 *   6 top-k               the k heaviest
 *   7 top-p               the fewest heaviest whose weights reach top_p of what is left
 *   8 min-p               weight >= min_p * heaviest
 *   9 draw                one of the rest in proportion to its weight
 *
 * Between equal weights the smaller id is the heavier. The window is the last repeat_last_n tokens
 * of prompt and answer together (0: all).
 *
 * The draw is a pure function of (seed, position): a counter-based generator (Philox 4x32-10,
 * Salmon et al. 2011), so neither a preemption nor the rest of the batch changes it. All arithmetic
 * has one order; sums are kept in double.
 *
 * Selecting (6, 7) is a radix select over the bits of the weights in three passes: no list of
 * candidates, no sort. Scratch is made once; sampler_pick allocates nothing and is pure apart from
 * its scratch, so any number of threads may work, each with its own.
 */
#ifndef INFER_ENGINE_SAMPLER_H
#define INFER_ENGINE_SAMPLER_H

#include "kernels/kernels.h"
#include "shared/request.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct LogitBias
{
	int32_t token_id;
	float bias;
} LogitBias;

_Static_assert(sizeof(LogitBias) == 8, "the pairs of a request's payload");

typedef struct SamplerParams
{
	float temperature;
	float top_p;
	float min_p;
	int32_t top_k;
	int32_t repeat_last_n;
	float repeat_penalty;
	float frequency_penalty;
	float presence_penalty;
	uint64_t seed;
	const LogitBias *biases; /* owned by the request; ids are checked against the vocabulary */
	int32_t n_biases;
} SamplerParams;

typedef struct SamplerScratch SamplerScratch;

/* The sampler fields of a checked request; biases are the caller's to set. */
extern void sampler_params_init(SamplerParams *params, const InferRequest *request);

/* Memory for one thread and a vocabulary of this size; NULL when out of memory. */
extern SamplerScratch *sampler_scratch_create(int32_t n_vocab);
extern void sampler_scratch_destroy(SamplerScratch *scratch);

/*
 * The token for position n_tokens of a sequence whose tokens are token_ids[0 .. n_tokens). logits
 * are finite or -infinity and stay as they are.
 */
extern int32_t sampler_pick(const SamplerParams *params, const Kernels *kernels,
							const float *logits, int32_t n_vocab, const int32_t *token_ids,
							int32_t n_tokens, SamplerScratch *scratch);

/* Uniform in [0, 1), 53 bits, of (seed, position). */
extern double sampler_uniform(uint64_t seed, uint64_t position);

#endif
