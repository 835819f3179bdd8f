/*
 * vector_ref.c: the operations on single vectors, scalar.
 */
#include "kernels/cpu/exp.h"
#include "kernels/cpu/ref.h"

#include <math.h>

void
rms_norm_ref(const float *x, const float *weight, int32_t n, float eps, float *out)
{
	float partials[16] = { 0 };
	float scale;

	for (int32_t i = 0; i < n; i++)
		partials[i % 16] = fmaf(x[i], x[i], partials[i % 16]);
	scale = 1.0f / sqrtf(partials_add(partials) / (float) n + eps);
	for (int32_t i = 0; i < n; i++)
		out[i] = x[i] * scale * weight[i];
}

void
rope_ref(float *head, const float *cos, const float *sin, int32_t n_rot, bool interleaved)
{
	int32_t n_pairs = n_rot / 2;

	for (int32_t i = 0; i < n_pairs; i++)
	{
		float *a = interleaved ? head + 2 * i : head + i;

		pair_rotate(a, interleaved ? a + 1 : a + n_pairs, cos[i], sin[i]);
	}
}

void
swiglu_ref(const float *gate, const float *up, int32_t n, float *out)
{
	for (int32_t i = 0; i < n; i++)
		out[i] = gate[i] / (1.0f + exp_scalar(-gate[i])) * up[i];
}

void
add_ref(float *x, const float *y, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		x[i] += y[i];
}

int32_t
argmax_ref(const float *x, int32_t n)
{
	int32_t best = 0;
	float largest = -INFINITY;

	for (int32_t i = 0; i < n; i++)
		if (x[i] > largest)
		{
			largest = x[i];
			best = i;
		}
	return best;
}

float
exp_sum_ref(const float *x, int32_t n, float max, float *out)
{
	float partials[16] = { 0 };

	for (int32_t i = 0; i < n; i++)
	{
		out[i] = exp_scalar(x[i] - max);
		partials[i % 16] += out[i];
	}
	return partials_add(partials);
}

float
max_finite_ref(const float *x, int32_t n, bool *all_finite)
{
	float largest = -INFINITY;
	bool finite = true;

	for (int32_t i = 0; i < n; i++)
	{
		if (!isfinite(x[i]))
			finite = false;
		if (x[i] > largest)
			largest = x[i];
	}
	*all_finite = finite;
	return largest + 0.0f; /* of zeros, the positive one */
}
