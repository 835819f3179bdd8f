/*
 * attention_template.h: attention over pages at the width of the simd header in front of it; the
 * operations of attention_ref.c in the same order.
 *
 * Rows (a query head of a token) that share a KV head walk the pages together in strips, and each
 * page is loaded once for the strip. Scores: lane = position in the page; a sum of products adds
 * to its own result, so enough rows or pages go side by side to keep the machine busy. Values:
 * lane = element of the head; four rows at a time over the positions that all of them see, before
 * and behind that each row alone, so that no row touches a position that is not its own.
 */
#include "kernels/cpu/ref.h"

#include <math.h>

#define VALUE_ROWS 4 /* 4 x 4 accumulators of 16 lanes for head_dim 64 fit the registers */

typedef struct AttentionRow
{
	const float *q;
	float *out;
	int32_t from;
	int32_t position;
} AttentionRow;

/* What a strip works on. */
typedef struct Strip
{
	const AttentionTask *task;
	AttentionRow rows[ATTENTION_ROWS];
	float *queries; /* [head_dim][n]: q of the rows, element by element */
	float *scores;	/* [n][stride], by position */
	size_t stride;
} Strip;

SIMD_INLINE vf
kv_load(const char *half, size_t at, KvType type)
{
	return type == KV_F32 ? vf_load((const float *) half + at)
						  : vf_load_half((const uint16_t *) half + at);
}

SIMD_INLINE const char *
page_head(const AttentionTask *task, int32_t page)
{
	return task->kv->base + (size_t) task->block_table[page] * task->kv->page_bytes +
		   (size_t) task->kv_head * task->kv->head_bytes;
}

/* ---- scores ---- */

#define PAGE_PARTS (KV_PAGE_TOKENS / LANES)
#define MOST_PARTS 8

/* Pages side by side for n rows: eight sums or more, as far as the registers reach. */
#define PAGES_FOR(n)                                                                               \
	(LANES == 16 ? ((n) == 1 ? 8 : (n) <= 4 ? 4 : 2) : ((n) == 1 ? 4 : (n) == 2 ? 2 : 1))

/* Scores of n rows against n_pages pages from `page` on, scaled. */
SIMD_INLINE void
pages_score(const Strip *strip, int n, int n_pages, int32_t page, KvType type)
{
	const int n_parts = n_pages * PAGE_PARTS;
	int32_t head_dim = strip->task->kv->head_dim;
	const float *queries = strip->queries;
	const char *keys[MOST_PARTS];
	vf acc[ATTENTION_ROWS][MOST_PARTS];

	for (int p = 0; p < n_pages; p++)
		keys[p] = page_head(strip->task, page + p);
#pragma GCC unroll 8
	for (int r = 0; r < n; r++)
#pragma GCC unroll 8
		for (int p = 0; p < n_parts; p++)
			acc[r][p] = vf_zero();
	for (int32_t i = 0; i < head_dim; i++, queries += n)
	{
		vf k[MOST_PARTS];

#pragma GCC unroll 8
		for (int p = 0; p < n_parts; p++)
			k[p] = kv_load(keys[p / PAGE_PARTS],
						   (size_t) i * KV_PAGE_TOKENS + (size_t) (p % PAGE_PARTS) * LANES, type);
#pragma GCC unroll 8
		for (int r = 0; r < n; r++)
#pragma GCC unroll 8
			for (int p = 0; p < n_parts; p++)
				acc[r][p] = vf_fma(vf_set1(queries[r]), k[p], acc[r][p]);
	}
#pragma GCC unroll 8
	for (int r = 0; r < n; r++)
#pragma GCC unroll 8
		for (int p = 0; p < n_parts; p++)
			vf_store(strip->scores + (size_t) r * strip->stride + (size_t) page * KV_PAGE_TOKENS +
						 (size_t) p * LANES,
					 vf_mul(acc[r][p], vf_set1(strip->task->scale)));
}

/* Against all pages that any of the rows sees. */
SIMD_INLINE void
scores_compute(const Strip *strip, int n, KvType type)
{
	int32_t head_dim = strip->task->kv->head_dim;
	int32_t page = strip->rows[0].from / KV_PAGE_TOKENS;
	int32_t end = strip->rows[n - 1].position / KV_PAGE_TOKENS + 1;

	for (int32_t i = 0; i < head_dim; i++)
		for (int r = 0; r < n; r++)
			strip->queries[(size_t) i * (size_t) n + (size_t) r] = strip->rows[r].q[i];
	for (; page + PAGES_FOR(n) <= end; page += PAGES_FOR(n))
		pages_score(strip, n, PAGES_FOR(n), page, type);
	for (; page < end; page++)
		pages_score(strip, n, 1, page, type);
}

/*
 * Scores of one row become weights; returns their sum. Positions outside [from, position] within
 * the border pages get weight 0.
 */
SIMD_INLINE float
weights_compute(float *scores, int32_t from, int32_t position, float softcap)
{
	int32_t start = from / KV_PAGE_TOKENS * KV_PAGE_TOKENS;
	int32_t end = (position / KV_PAGE_TOKENS + 1) * KV_PAGE_TOKENS;
	vf best = vf_set1(-INFINITY);

	if (softcap > 0.0f)
		scores_cap(scores + from, position - from + 1, softcap);
	for (int32_t p = start; p < from; p++)
		scores[p] = -INFINITY;
	for (int32_t p = position + 1; p < end; p++)
		scores[p] = -INFINITY;
	for (int32_t p = start; p < end; p += LANES)
		best = vf_max(vf_load(scores + p), best);
	return exp_sum_run(scores + start, end - start, vf_largest(best), scores + start);
}

/* ---- values ---- */

/* sums[w] += weights * V for one row, over positions [from, end) that not all rows see. */
static void
row_values_add(const Strip *strip, int row, int width, int32_t from, int32_t end, int32_t i,
			   KvType type, float *sums)
{
	const float *weights = strip->scores + (size_t) row * strip->stride;

	for (int32_t p = from; p < end; p++)
	{
		const char *values =
			page_head(strip->task, p / KV_PAGE_TOKENS) + strip->task->kv->head_bytes / 2;
		size_t at = (size_t) (p % KV_PAGE_TOKENS) * (size_t) strip->task->kv->head_dim + (size_t) i;

		for (int w = 0; w < width; w++)
		{
			vf v = kv_load(values, at + (size_t) w * LANES, type);

			vf_store(sums + w * LANES, vf_fma(vf_set1(weights[p]), v, vf_load(sums + w * LANES)));
		}
	}
}

/* The same for n rows over positions that all of them see. */
SIMD_INLINE void
shared_values_add(const Strip *strip, int first, int n, int width, int32_t from, int32_t end,
				  int32_t i, KvType type, float sums[VALUE_ROWS][4 * LANES])
{
	const KvLayer *kv = strip->task->kv;
	const float *weights = strip->scores + (size_t) first * strip->stride;
	vf acc[VALUE_ROWS][4];

#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
#pragma GCC unroll 4
		for (int w = 0; w < width; w++)
			acc[r][w] = vf_load(sums[r] + w * LANES);
	for (int32_t p = from; p < end;)
	{
		int32_t page = p / KV_PAGE_TOKENS;
		int32_t page_end = (page + 1) * KV_PAGE_TOKENS;
		const char *values = page_head(strip->task, page) + kv->head_bytes / 2;

		for (page_end = page_end < end ? page_end : end; p < page_end; p++)
		{
			size_t at = (size_t) (p % KV_PAGE_TOKENS) * (size_t) kv->head_dim + (size_t) i;
			vf v[4];

#pragma GCC unroll 4
			for (int w = 0; w < width; w++)
				v[w] = kv_load(values, at + (size_t) w * LANES, type);
#pragma GCC unroll 4
			for (int r = 0; r < n; r++)
			{
				vf weight = vf_set1(weights[(size_t) r * strip->stride + (size_t) p]);

#pragma GCC unroll 4
				for (int w = 0; w < width; w++)
					acc[r][w] = vf_fma(weight, v[w], acc[r][w]);
			}
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < n; r++)
#pragma GCC unroll 4
		for (int w = 0; w < width; w++)
			vf_store(sums[r] + w * LANES, acc[r][w]);
}

static inline int32_t
smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/*
 * `width` vectors of the head from element i on, of n rows. Rows come in the order of their
 * positions, so what all of them see lies between the last `from` and the first position.
 */
SIMD_INLINE void
values_compute(const Strip *strip, int first, int n, int width, int32_t i, const float *inverse,
			   KvType type)
{
	const AttentionRow *rows = strip->rows + first;
	int32_t shared_from = rows[n - 1].from;
	int32_t shared_end = rows[0].position + 1;
	float sums[VALUE_ROWS][4 * LANES] = { 0 };

	if (shared_end < shared_from)
		shared_end = shared_from;
	for (int r = 0; r < n; r++)
		row_values_add(strip, first + r, width, rows[r].from,
					   smaller(rows[r].position + 1, shared_from), i, type, sums[r]);
	shared_values_add(strip, first, n, width, shared_from, shared_end, i, type, sums);
	for (int r = 0; r < n; r++)
	{
		row_values_add(strip, first + r, width, shared_end, rows[r].position + 1, i, type, sums[r]);
		for (int w = 0; w < width; w++)
			vf_store(rows[r].out + i + w * LANES,
					 vf_mul(vf_load(sums[r] + w * LANES), vf_set1(inverse[first + r])));
	}
}

/* ---- strips ---- */

SIMD_INLINE void
strip_attend(const Strip *strip, int n, KvType type)
{
	int32_t head_dim = strip->task->kv->head_dim;
	float inverse[ATTENTION_ROWS];

	scores_compute(strip, n, type);
	for (int r = 0; r < n; r++)
		inverse[r] =
			1.0f / weights_compute(strip->scores + (size_t) r * strip->stride, strip->rows[r].from,
								   strip->rows[r].position, strip->task->softcap);
#pragma GCC unroll 2
	for (int first = 0; first < n; first += VALUE_ROWS)
	{
		const int n_rows = n - first < VALUE_ROWS ? n - first : VALUE_ROWS;
		int32_t i = 0;

		for (; i + 4 * LANES <= head_dim; i += 4 * LANES)
			values_compute(strip, first, n_rows, 4, i, inverse, type);
		for (; i + LANES <= head_dim; i += LANES)
			values_compute(strip, first, n_rows, 1, i, inverse, type);
	}
}

/* Row number r of a task: the heads of a token, token after token. */
SIMD_INLINE AttentionRow
task_row(const AttentionTask *task, int32_t r)
{
	int32_t t = r / task->n_group;
	int64_t at =
		(int64_t) t * task->token_stride + (int64_t) (r % task->n_group) * task->kv->head_dim;
	int32_t position = task->first_position + t;

	return (AttentionRow){
		.q = task->q + at,
		.out = task->out + at,
		.from = task->window > 0 && position >= task->window ? position - task->window + 1 : 0,
		.position = position,
	};
}

/* n and type as constants for the compiler. */
#define STRIP_ATTEND(n)                                                                            \
	(task->kv->type == KV_F16 ? strip_attend(&strip, n, KV_F16) : strip_attend(&strip, n, KV_F32))

SIMD_INLINE void
attention_run(const AttentionTask *task, void *scratch)
{
	int32_t last = task->first_position + task->n_tokens - 1;
	int32_t n_rows = task->n_tokens * task->n_group;
	Strip strip = { .task = task, .queries = scratch };

	if (task->kv->head_dim % LANES != 0)
	{
		attention_ref(task, scratch);
		return;
	}
	strip.scores = strip.queries + ATTENTION_ROWS * task->kv->head_dim;
	strip.stride = (size_t) (last / KV_PAGE_TOKENS + 1) * KV_PAGE_TOKENS;
	for (int32_t row = 0; row < n_rows;)
	{
		int32_t left = n_rows - row;
		int n = left >= 8 && LANES == 16 ? 8 : left >= 4 ? 4 : left;

		for (int r = 0; r < n; r++)
			strip.rows[r] = task_row(task, row + r);
		switch (n)
		{
			case 1:
				STRIP_ATTEND(1);
				break;
			case 2:
				STRIP_ATTEND(2);
				break;
			case 3:
				STRIP_ATTEND(3);
				break;
			case 4:
				STRIP_ATTEND(4);
				break;
			default:
				STRIP_ATTEND(8);
		}
		row += n;
	}
}
