/*
 * metrics.h: counters and latency histograms that the engine keeps in the region and views read.
 *
 * Single writer (the engine's threads add with relaxed atomics), any reader. A histogram has four
 * buckets to an octave of microseconds: bucket of v = floor(4 * log2(v)), so a quantile is right
 * within 19 %.
 */
#ifndef INFER_SHARED_METRICS_H
#define INFER_SHARED_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct InferCounters
{
	_Atomic uint64_t requests_submitted; /* taken from a slot, of any kind */
	_Atomic uint64_t requests_finished;	 /* with an answer */
	_Atomic uint64_t requests_failed;
	_Atomic uint64_t requests_cancelled;
	_Atomic uint64_t requests_refused; /* queue bounds, never fits */
	_Atomic uint64_t prompt_tokens;
	_Atomic uint64_t cached_tokens;
	_Atomic uint64_t output_tokens;
	_Atomic uint64_t steps;
	_Atomic uint64_t step_tokens;
	_Atomic uint64_t preemptions;
	_Atomic uint64_t connections_opened;
	_Atomic uint64_t connections_closed;
} InferCounters;

#define INFER_HISTOGRAM_BUCKETS 160 /* 2^40 us = 12 days */

typedef struct InferHistogram
{
	_Atomic uint64_t buckets[INFER_HISTOGRAM_BUCKETS];
	_Atomic uint64_t sum_us;
	_Atomic uint64_t n;
} InferHistogram;

typedef struct InferHistograms
{
	InferHistogram queue;		/* submit to first step */
	InferHistogram first_token; /* submit to first token */
	InferHistogram inter_token;
	InferHistogram end_to_end;
	InferHistogram step;
} InferHistograms;

extern void infer_histogram_add(InferHistogram *histogram, int64_t us);

/* Upper bound of the bucket that holds quantile q (0..1); 0 when empty. */
extern int64_t infer_histogram_quantile(const InferHistogram *histogram, double q);

static inline void
infer_counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
