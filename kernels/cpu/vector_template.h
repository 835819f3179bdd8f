/*
 * vector_template.h: the operations on single vectors at the width of the simd header in front of
 * it. Sums run over 16 partials whatever the width: two accumulators of 8 lanes, or one of 16.
 */
#include "kernels/cpu/exp.h"
#include "kernels/cpu/ref.h"

#include <math.h>

#define PARTS (16 / LANES)

SIMD_INLINE vf
vf_exp(vf x)
{
	vf clamped = vf_min(x, vf_set1(EXP_HIGHEST));
	vf n = vf_round(vf_mul(clamped, vf_set1(EXP_LOG2E)));
	vf r = vf_fma(n, vf_set1(-EXP_LN2_HIGH), clamped);
	vf p = vf_set1(EXP_C0);

	r = vf_fma(n, vf_set1(-EXP_LN2_LOW), r);
	p = vf_fma(p, r, vf_set1(EXP_C1));
	p = vf_fma(p, r, vf_set1(EXP_C2));
	p = vf_fma(p, r, vf_set1(EXP_C3));
	p = vf_fma(p, r, vf_set1(EXP_C4));
	p = vf_fma(p, r, vf_set1(EXP_C5));
	p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set1(1.0f));
	p = vf_mul(p, vf_power2(n));
	return vf_zero_below(x, EXP_LOWEST, vf_nan_from(x, p));
}

/* The elements behind the last whole 16, into the partials where they belong. */
SIMD_INLINE float
parts_add_tail(const vf *parts, const float *tail, int32_t n)
{
	float partials[16];

	for (int i = 0; i < PARTS; i++)
		vf_store(partials + i * LANES, parts[i]);
	for (int32_t i = 0; i < n; i++)
		partials[i] = partials[i] + tail[i];
	return partials_add(partials);
}

SIMD_INLINE void
rms_norm_run(const float *x, const float *weight, int32_t n, float eps, float *out)
{
	vf parts[PARTS];
	float partials[16];
	int32_t whole = n / 16 * 16;
	float scale;

	for (int p = 0; p < PARTS; p++)
		parts[p] = vf_zero();
	for (int32_t i = 0; i < whole; i += 16)
		for (int p = 0; p < PARTS; p++)
		{
			vf v = vf_load(x + i + p * LANES);

			parts[p] = vf_fma(v, v, parts[p]);
		}
	for (int p = 0; p < PARTS; p++)
		vf_store(partials + p * LANES, parts[p]);
	for (int32_t i = whole; i < n; i++)
		partials[i % 16] = fmaf(x[i], x[i], partials[i % 16]);
	scale = 1.0f / sqrtf(partials_add(partials) / (float) n + eps);
	for (int32_t i = 0; i < whole; i += LANES)
		vf_store(out + i, vf_mul(vf_mul(vf_load(x + i), vf_set1(scale)), vf_load(weight + i)));
	for (int32_t i = whole; i < n; i++)
		out[i] = x[i] * scale * weight[i];
}

SIMD_INLINE void
swiglu_run(const float *gate, const float *up, int32_t n, float *out)
{
	int32_t whole = n / LANES * LANES;

	for (int32_t i = 0; i < whole; i += LANES)
	{
		vf g = vf_load(gate + i);
		vf e = vf_exp(vf_neg(g));

		vf_store(out + i, vf_mul(vf_div(g, vf_add(vf_set1(1.0f), e)), vf_load(up + i)));
	}
	swiglu_ref(gate + whole, up + whole, n - whole, out + whole);
}

SIMD_INLINE void
add_run(float *x, const float *y, int32_t n)
{
	int32_t whole = n / LANES * LANES;

	for (int32_t i = 0; i < whole; i += LANES)
		vf_store(x + i, vf_add(vf_load(x + i), vf_load(y + i)));
	add_ref(x + whole, y + whole, n - whole);
}

SIMD_INLINE float
exp_sum_run(const float *x, int32_t n, float max, float *out)
{
	vf parts[PARTS];
	int32_t whole = n / 16 * 16;

	for (int p = 0; p < PARTS; p++)
		parts[p] = vf_zero();
	for (int32_t i = 0; i < whole; i += 16)
		for (int p = 0; p < PARTS; p++)
		{
			vf e = vf_exp(vf_sub(vf_load(x + i + p * LANES), vf_set1(max)));

			vf_store(out + i + p * LANES, e);
			parts[p] = vf_add(parts[p], e);
		}
	for (int32_t i = whole; i < n; i++)
		out[i] = exp_scalar(x[i] - max);
	return parts_add_tail(parts, out + whole, n - whole);
}

/* The largest of each lane first; then the first index that holds the largest of all. */
SIMD_INLINE int32_t
argmax_run(const float *x, int32_t n)
{
	vf best = vf_set1(-INFINITY);
	float lanes[LANES];
	float largest = -INFINITY;
	int32_t whole = n / LANES * LANES;

	for (int32_t i = 0; i < whole; i += LANES)
		best = vf_max(vf_load(x + i), best);
	vf_store(lanes, best);
	for (int i = 0; i < LANES; i++)
		if (lanes[i] > largest)
			largest = lanes[i];
	for (int32_t i = whole; i < n; i++)
		if (x[i] > largest)
			largest = x[i];
	for (int32_t i = 0; i < n; i++)
		if (x[i] == largest)
			return largest == -INFINITY ? 0 : i;
	return 0;
}

SIMD_INLINE float
parts_add(const vf *parts)
{
	float partials[16];

	for (int i = 0; i < PARTS; i++)
		vf_store(partials + i * LANES, parts[i]);
	return partials_add(partials);
}

SIMD_INLINE void
block_quantize(const float *x, int8_t *q, float *scale, int32_t *sums)
{
	vf products[PARTS];
	vf squares[PARTS];
	vf largest = vf_zero();
	float lanes[LANES];
	float top = 0.0f;
	float inverse;
	float size;

	for (int i = 0; i < 32; i += LANES)
		largest = vf_max(vf_abs(vf_load(x + i)), largest);
	vf_store(lanes, largest);
	for (int i = 0; i < LANES; i++)
		if (lanes[i] > top)
			top = lanes[i];
	inverse = top > QUANTIZE_SMALLEST ? QUANTIZE_REACH / top : 0.0f;
	for (int p = 0; p < PARTS; p++)
		products[p] = squares[p] = vf_zero();
	for (int i = 0; i < 32; i += LANES)
	{
		vf v = vf_load(x + i);
		vf scaled = vf_mul(v, vf_set1(inverse));
		int p = i / LANES % PARTS;
		vi codes;

		scaled = vf_max(vf_min(scaled, vf_set1(127.0f)), vf_set1(-127.0f));
		codes = vi_from_float(scaled);
		vi_store_i8(q + i, codes);
		products[p] = vf_fma(v, vf_from_int(codes), products[p]);
		squares[p] = vf_fma(vf_from_int(codes), vf_from_int(codes), squares[p]);
	}
	sums[0] = bytes_sum16(q);
	sums[1] = bytes_sum16(q + 16);
	size = parts_add(squares);
	*scale = size > 0.0f ? parts_add(products) / size : 0.0f;
}

SIMD_INLINE void
quantize_acts_run(Acts *acts, int32_t first, int32_t n)
{
	size_t n_blocks = (size_t) acts->n_cols / 32;

	for (size_t b = (size_t) first * n_blocks; b < (size_t) (first + n) * n_blocks; b++)
		block_quantize(acts->f32 + 32 * b, acts->q + 32 * b, acts->scale + b, acts->sum + 2 * b);
}
