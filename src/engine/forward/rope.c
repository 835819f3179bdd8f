#include "engine/forward/rope.h"

#include <math.h>

/* The pair that turns `turns` times within the trained context; fractional. */
static double
yarn_pair_of(const ModelConfig *config, double turns)
{
	double context = config->rope_original_context;

	return config->n_rot * log(context / (turns * 2 * M_PI)) / (2 * log(config->rope_base));
}

/* 1 for pairs that keep their frequency, 0 for those that are divided by the factor. */
static double
yarn_kept(const ModelConfig *config, int32_t pair)
{
	double low = fmax(0, floor(yarn_pair_of(config, config->yarn_beta_fast)));
	double high = fmin(config->n_rot - 1, ceil(yarn_pair_of(config, config->yarn_beta_slow)));
	double along = (pair - low) / fmax(0.001, high - low);

	return 1 - fmin(1, fmax(0, along));
}

void
rope_init(Rope *rope, const ModelConfig *config, const float *rope_freqs, double *frequency)
{
	double factor = config->rope_scaling == ROPE_SCALE_NONE ? 1.0 : config->rope_factor;

	rope->n_pairs = config->n_rot / 2;
	rope->frequency = frequency;
	rope->magnitude = config->rope_attn_factor;
	if (config->rope_scaling == ROPE_SCALE_YARN && config->yarn_ext_factor != 0 && factor > 1)
		rope->magnitude *= 1 + 0.1 * log(factor);
	for (int32_t i = 0; i < rope->n_pairs; i++)
	{
		double base = pow(config->rope_base, -2.0 * i / config->n_rot);
		double kept = 0;

		if (rope_freqs != NULL)
			base /= rope_freqs[i];
		if (config->rope_scaling == ROPE_SCALE_YARN)
			kept = yarn_kept(config, i) * config->yarn_ext_factor;
		frequency[i] = base / factor * (1 - kept) + base * kept;
	}
}

void
rope_angles(const Rope *rope, int32_t position, float *cosines, float *sines)
{
	for (int32_t i = 0; i < rope->n_pairs; i++)
	{
		double angle = position * rope->frequency[i];

		cosines[i] = (float) (cos(angle) * rope->magnitude);
		sines[i] = (float) (sin(angle) * rope->magnitude);
	}
}
