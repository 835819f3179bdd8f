/*
 * exp.h: the constants of the one exponential that all variants compute, and its scalar form.
 *
 * exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 in two parts, |r| <= ln 2 / 2; the
 * polynomial is Cephes' expf, every step an fma. Below EXP_LOWEST the result is 0; above
 * EXP_HIGHEST it is exp(EXP_HIGHEST). Largest error 2 ulp. NaN gives NaN.
 */
#ifndef INFER_KERNELS_EXP_H
#define INFER_KERNELS_EXP_H

#include "kernels/cpu/half.h"

#include <math.h>

#define EXP_HIGHEST	 88.3762626647949f
#define EXP_LOWEST	 (-87.3365447505531f)
#define EXP_LOG2E	 1.44269504088896341f
#define EXP_LN2_HIGH 0.693359375f
#define EXP_LN2_LOW	 (-2.12194440e-4f)
#define EXP_C0		 1.9875691500e-4f
#define EXP_C1		 1.3981999507e-3f
#define EXP_C2		 8.3334519073e-3f
#define EXP_C3		 4.1665795894e-2f
#define EXP_C4		 1.6666665459e-1f
#define EXP_C5		 5.0000001201e-1f

static inline float
exp_scalar(float x)
{
	float n, r, p;

	if (x < EXP_LOWEST)
		return 0.0f;
	if (x > EXP_HIGHEST)
		x = EXP_HIGHEST;
	if (x != x)
		return x;
	n = nearbyintf(x * EXP_LOG2E);
	r = fmaf(n, -EXP_LN2_HIGH, x);
	r = fmaf(n, -EXP_LN2_LOW, r);
	p = EXP_C0;
	p = fmaf(p, r, EXP_C1);
	p = fmaf(p, r, EXP_C2);
	p = fmaf(p, r, EXP_C3);
	p = fmaf(p, r, EXP_C4);
	p = fmaf(p, r, EXP_C5);
	p = fmaf(p, r * r, r) + 1.0f;
	return p * float_from_bits((uint32_t) ((int32_t) n + 127) << 23);
}

/* tanh by the same exponential; for score caps. */
static inline float
tanh_scalar(float x)
{
	return 1.0f - 2.0f / (exp_scalar(2.0f * x) + 1.0f);
}

#endif
