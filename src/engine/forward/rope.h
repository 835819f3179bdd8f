/*
 * rope.h: rotary position embedding as a table of angles: pair i of a head at position p turns by
 * p * frequency[i], and its length changes by `magnitude`.
 *
 * Linear scaling divides all frequencies by the factor. YaRN (Peng et al. 2023, arXiv 2309.00071,
 * section 3.2) leaves fast pairs alone, divides slow ones and blends between; its magnitude is the
 * attention temperature folded into the rotation. A file may bring a divisor for each pair
 * (rope_freqs: Llama 3.1). Angles are computed in double, so that position 100,000 is as exact as
 * position 1.
 */
#ifndef INFER_ENGINE_ROPE_H
#define INFER_ENGINE_ROPE_H

#include "engine/model/model.h"

typedef struct Rope
{
	int32_t n_pairs;
	const double *frequency; /* [n_pairs] owned by whoever made the Rope */
	double magnitude;
} Rope;

/* Fills frequency [n_rot / 2] and points rope at it. */
extern void rope_init(Rope *rope, const ModelConfig *config, const float *rope_freqs,
					  double *frequency);

/* cos and sin [n_pairs] of one position. */
extern void rope_angles(const Rope *rope, int32_t position, float *cosines, float *sines);

#endif
