#include "shared/metrics.h"

#include <stdbool.h>

#define BUCKETS_PER_OCTAVE 4

/* 2^63 * 2^(k/4), rounded up: where quarter k of an octave begins for a value shifted to bit 63. */
static const uint64_t quarter_begins[BUCKETS_PER_OCTAVE] = {
	UINT64_C(0x8000000000000000),
	UINT64_C(0x9837f0518db8a970),
	UINT64_C(0xb504f333f9de6485),
	UINT64_C(0xd744fccad69d6af5),
};

static int
bucket_of(uint64_t us)
{
	int octave;
	int quarter = BUCKETS_PER_OCTAVE - 1;
	uint64_t shifted;
	int bucket;

	if (us == 0)
		return 0;
	octave = 63 - __builtin_clzll(us);
	shifted = us << (63 - octave);
	while (shifted < quarter_begins[quarter])
		quarter--;
	bucket = octave * BUCKETS_PER_OCTAVE + quarter;
	return bucket < INFER_HISTOGRAM_BUCKETS ? bucket : INFER_HISTOGRAM_BUCKETS - 1;
}

/* The smallest whole number past the bucket, less one where that is still in it. */
static int64_t
bucket_upper_bound(int bucket)
{
	int next = bucket + 1;

	return (int64_t) (quarter_begins[next % BUCKETS_PER_OCTAVE] >>
					  (63 - next / BUCKETS_PER_OCTAVE));
}

void
infer_histogram_add(InferHistogram *histogram, int64_t us)
{
	uint64_t value = us > 0 ? (uint64_t) us : 0;

	infer_counter_add(&histogram->buckets[bucket_of(value)], 1);
	infer_counter_add(&histogram->sum_us, value);
	infer_counter_add(&histogram->n, 1);
}

int64_t
infer_histogram_quantile(const InferHistogram *histogram, double q)
{
	uint64_t counts[INFER_HISTOGRAM_BUCKETS];
	uint64_t n = 0;
	uint64_t seen = 0;
	double wanted;

	/* the counts move while they are read, so the total is made of what was read */
	for (int i = 0; i < INFER_HISTOGRAM_BUCKETS; i++)
	{
		counts[i] = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
		n += counts[i];
	}
	if (n == 0)
		return 0;

	wanted = q * (double) n;
	for (int i = 0; i < INFER_HISTOGRAM_BUCKETS; i++)
	{
		seen += counts[i];
		if (counts[i] > 0 && (double) seen >= wanted)
			return bucket_upper_bound(i);
	}
	return bucket_upper_bound(INFER_HISTOGRAM_BUCKETS - 1);
}
