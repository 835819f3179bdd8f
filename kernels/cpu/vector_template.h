/*
 * vector_template.h: the operations on single vectors at the width of the simd header in front of
 * it. Sums run over 16 partials whatever the width: two accumulators of 8 lanes, or one of 16.
 */
#include "kernels/cpu/exp.h"
#include "kernels/cpu/ref.h"

#include <math.h>
#include <string.h>

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
	float largest;
	int32_t whole = n / LANES * LANES;
	int32_t i = 0;

	for (int32_t v = 0; v < whole; v += LANES)
		best = vf_max(vf_load(x + v), best);
	largest = vf_largest(best);
	for (int32_t v = whole; v < n; v++)
		if (x[v] > largest)
			largest = x[v];
	if (largest == -INFINITY)
		return 0;
	while (i < whole && !vf_any_equal(vf_load(x + i), vf_set1(largest)))
		i += LANES;
	while (i < n && x[i] != largest)
		i++;
	return i;
}

/* Zero times a finite number is zero, and NaN once anything was not. */
SIMD_INLINE float
max_finite_run(const float *x, int32_t n, bool *all_finite)
{
	vf best[PARTS];
	vf zeros[PARTS];
	int32_t whole = n / 16 * 16;
	float largest = max_finite_ref(x + whole, n - whole, all_finite);

	for (int p = 0; p < PARTS; p++)
	{
		best[p] = vf_set1(-INFINITY);
		zeros[p] = vf_zero();
	}
	for (int32_t i = 0; i < whole; i += 16)
		for (int p = 0; p < PARTS; p++)
		{
			vf v = vf_load(x + i + p * LANES);

			best[p] = vf_max(v, best[p]);
			zeros[p] = vf_fma(v, vf_zero(), zeros[p]);
		}
	for (int p = 0; p < PARTS; p++)
		if (vf_largest(best[p]) > largest)
			largest = vf_largest(best[p]);
	*all_finite = *all_finite && vf_sum16(zeros) == 0.0f;
	return largest + 0.0f;
}

SIMD_INLINE void
rope_run(float *head, const float *cos, const float *sin, int32_t n_rot, bool interleaved)
{
	int32_t n_pairs = n_rot / 2;
	int32_t per_vector = interleaved ? LANES / 2 : LANES;
	int32_t whole = n_pairs / per_vector * per_vector;

	for (int32_t i = 0; i < whole; i += per_vector)
		if (interleaved)
		{
			vf v = vf_load(head + 2 * i);
			vf across = vf_mul(vf_swap_pairs(v), vf_load_twice(sin + i));

			vf_store(head + 2 * i,
					 vf_add(vf_mul(v, vf_load_twice(cos + i)), vf_negate_even(across)));
		}
		else
		{
			vf x = vf_load(head + i);
			vf y = vf_load(head + n_pairs + i);
			vf c = vf_load(cos + i);
			vf s = vf_load(sin + i);

			vf_store(head + i, vf_sub(vf_mul(x, c), vf_mul(y, s)));
			vf_store(head + n_pairs + i, vf_add(vf_mul(x, s), vf_mul(y, c)));
		}
	for (int32_t i = whole; i < n_pairs; i++)
	{
		float *a = interleaved ? head + 2 * i : head + i;

		pair_rotate(a, interleaved ? a + 1 : a + n_pairs, cos[i], sin[i]);
	}
}

/* One head of one position as halves: keys go every KV_PAGE_TOKENS-th place, values side by side.
 */
SIMD_INLINE void
head_write_half(const float *k, const float *v, int32_t head_dim, uint16_t *keys, uint16_t *values)
{
	int32_t whole = head_dim / LANES * LANES;
	uint16_t lanes[LANES];

	for (int32_t i = 0; i < whole; i += LANES)
	{
		vf_store_half(values + i, vf_load(v + i));
		vf_store_half(lanes, vf_load(k + i));
#pragma GCC unroll 16
		for (int l = 0; l < LANES; l++)
			keys[(i + l) * KV_PAGE_TOKENS] = lanes[l];
	}
	for (int32_t i = whole; i < head_dim; i++)
	{
		values[i] = half_from_float(v[i]);
		keys[i * KV_PAGE_TOKENS] = half_from_float(k[i]);
	}
}

SIMD_INLINE void
kv_write_run(const KvLayer *kv, int32_t page, int32_t slot_in_page, const float *k, const float *v)
{
	if (kv->type != KV_F16)
	{
		kv_write_ref(kv, page, slot_in_page, k, v);
		return;
	}
	for (int32_t h = 0; h < kv->n_kv_heads; h++)
	{
		char *head = kv->base + (size_t) page * kv->page_bytes + (size_t) h * kv->head_bytes;
		uint16_t *values = (uint16_t *) (head + kv->head_bytes / 2);

		head_write_half(k + h * kv->head_dim, v + h * kv->head_dim, kv->head_dim,
						(uint16_t *) head + slot_in_page, values + slot_in_page * kv->head_dim);
	}
}

/*
 * Quantizing goes by LANES places at a time (kernels.h: tokens of a tile, then its next block), so
 * that what a place needs once is one lane's work and everything is written in order: lines that
 * another core has read are slow to get back one by one.
 */
typedef struct QuantizeLanes
{
	const float *x[LANES]; /* the blocks; only the first n */
	int n;
	float inverse[LANES]; /* of the scale */
} QuantizeLanes;

/* The scales, and one over them; zero for blocks smaller than any activation. */
SIMD_INLINE vf
scales_compute(QuantizeLanes *lanes)
{
	vf parts[LANES];
	vf top;

	for (int l = 0; l < LANES; l++)
	{
		parts[l] = vf_zero();
		for (int i = 0; l < lanes->n && i < 32; i += LANES)
			parts[l] = vf_max(vf_abs(vf_load(lanes->x[l] + i)), parts[l]);
	}
	top = vf_max_each(parts);
	vf_store(lanes->inverse,
			 vf_zero_unless_above(top, QUANTIZE_SMALLEST, vf_div(vf_set1(QUANTIZE_REACH), top)));
	return vf_zero_unless_above(top, QUANTIZE_SMALLEST, vf_div(top, vf_set1(QUANTIZE_REACH)));
}

/* Codes of one block. sums: what added over its lanes is the sum of columns 0 - 15 and 16 - 31. */
SIMD_INLINE void
block_quantize(const float *x, float inverse, int8_t *codes, vi sums[2])
{
#pragma GCC unroll 4
	for (int i = 0; i < 32; i += LANES)
	{
		vf scaled = vf_mul(vf_load(x + i), vf_set1(inverse));
		vi code, upper;

		scaled = vf_max(vf_min(scaled, vf_set1(QUANTIZE_REACH)), vf_set1(-QUANTIZE_REACH));
		code = vi_from_float(scaled);
		upper = vi_down7(vi_add(code, vi_set1(64)));
		vi_store_i8(codes + i, upper);
		vi_store_i8(codes + 32 + i, vi_sub(code, vi_up7(upper)));
		sums[i / 16] = vi_add(sums[i / 16], code);
	}
}

SIMD_INLINE void
lanes_quantize(const Acts *acts, QuantizeLanes *lanes, size_t place)
{
	vf scale = scales_compute(lanes);
	int32_t sum[2][LANES], sum32[LANES];
	float scales[LANES], offset[LANES];
	vi parts[2][LANES];
	vi both;

	for (int l = 0; l < LANES; l++)
	{
		vi sums[2] = { vi_zero(), vi_zero() };

		if (l < lanes->n)
			block_quantize(lanes->x[l], lanes->inverse[l], acts->codes + 64 * (place + (size_t) l),
						   sums);
		parts[0][l] = sums[0];
		parts[1][l] = sums[1];
	}
	for (int half = 0; half < 2; half++)
		vi_store(sum[half], vi_sum_each(parts[half]));
	both = vi_add(vi_load(sum[0]), vi_load(sum[1]));
	vi_store(sum32, both);
	vf_store(scales, scale);
	vf_store(offset, vf_mul(scale, vf_from_int(both)));
	for (int l = 0; l < lanes->n; l++)
	{
		acts->sum[2 * (place + (size_t) l)] = sum[0][l];
		acts->sum[2 * (place + (size_t) l) + 1] = sum[1][l];
	}
	memcpy(acts->scale + place, scales, (size_t) lanes->n * sizeof(float));
	memcpy(acts->sum32 + place, sum32, (size_t) lanes->n * sizeof(int32_t));
	memcpy(acts->offset + place, offset, (size_t) lanes->n * sizeof(float));
}

SIMD_INLINE void
quantize_acts_run(Acts *acts, int32_t first, int32_t n)
{
	size_t n_cols = (size_t) acts->n_cols;

	for (int32_t tile = first; tile < first + n; tile += ACT_TILE_TOKENS)
	{
		int32_t n_tokens = acts_tile_tokens(acts, tile);
		int32_t n_places = n_tokens * (acts->n_cols / 32);
		size_t place = acts_place_of(acts, tile, 0);
		const float *x = acts->f32 + (size_t) tile * n_cols;
		int32_t token = 0;

		for (int32_t p = 0; p < n_places; p += LANES)
		{
			QuantizeLanes lanes = { .n = n_places - p < LANES ? n_places - p : LANES };

			for (int l = 0; l < lanes.n; l++)
			{
				lanes.x[l] = x + (size_t) token * n_cols;
				token++;
				if (token == n_tokens)
				{
					token = 0;
					x += 32;
				}
			}
			lanes_quantize(acts, &lanes, place + (size_t) p);
		}
	}
}
