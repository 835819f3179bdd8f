/* The thread pool: every item once, any thread count, sleeping helpers, jobs back to back. */
#include "engine/base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define N_MAX_ITEMS 1000

typedef struct Count
{
	int32_t n_threads;
	int32_t chunk_items;
	_Atomic int32_t n_wrong;	  /* thread numbers or ranges out of bounds */
	_Atomic int32_t n_calls;	  /* chunks */
	int32_t times[N_MAX_ITEMS];	  /* plain: a claim is exclusive, TSan watches */
	_Atomic int32_t n_inside[64]; /* by thread number */
} Count;

static void
count_job(void *context, int32_t thread, int32_t first, int32_t n)
{
	Count *count = context;

	if (thread < 0 || thread >= count->n_threads || n < 1 || n > count->chunk_items)
		count->n_wrong++;
	/* Two threads with one number would share scratch. */
	if (atomic_fetch_add(&count->n_inside[thread], 1) != 0)
		count->n_wrong++;
	for (int32_t i = first; i < first + n; i++)
		count->times[i]++;
	count->n_calls++;
	count->n_inside[thread]--;
}

static Pool *
pool_of(int32_t n_threads)
{
	InferError err;
	Pool *pool;

	assert_true(pool_create(n_threads, &pool, &err));
	assert_int_equal(pool_thread_count(pool), n_threads);
	return pool;
}

static void
run_and_check(Pool *pool, int32_t n_items, int32_t chunk_items)
{
	Count *count = calloc(1, sizeof(Count));

	assert_non_null(count);
	count->n_threads = pool_thread_count(pool);
	count->chunk_items = chunk_items;
	pool_run(pool, count_job, count, n_items, chunk_items);
	for (int32_t i = 0; i < N_MAX_ITEMS; i++)
		assert_int_equal(count->times[i], i < n_items ? 1 : 0);
	assert_int_equal(count->n_wrong, 0);
	assert_int_equal(count->n_calls, (n_items + chunk_items - 1) / chunk_items);
	free(count);
}

static void
every_item_is_done_once_by_any_number_of_threads(void **state)
{
	static const int32_t thread_counts[] = { 1, 2, 3, 5, 16 };
	static const int32_t item_counts[] = { 0, 1, 2, 7, 64, 999, 1000 };
	static const int32_t chunks[] = { 1, 2, 10, 1000 };

	(void) state;
	for (size_t t = 0; t < sizeof(thread_counts) / sizeof(thread_counts[0]); t++)
	{
		Pool *pool = pool_of(thread_counts[t]);

		for (size_t i = 0; i < sizeof(item_counts) / sizeof(item_counts[0]); i++)
			for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++)
				run_and_check(pool, item_counts[i], chunks[c]);
		pool_destroy(pool);
	}
}

typedef struct Handover
{
	int32_t value[64]; /* written by one job, read by the next through another thread */
	_Atomic int32_t n_stale;
	int32_t round;
} Handover;

static void
handover_job(void *context, int32_t thread, int32_t first, int32_t n)
{
	Handover *handover = context;

	(void) thread;
	for (int32_t i = first; i < first + n; i++)
	{
		if (handover->value[i] != handover->round)
			handover->n_stale++;
		handover->value[i]++;
	}
}

static void
a_job_sees_everything_that_the_job_before_wrote(void **state)
{
	Pool *pool = pool_of(3);
	Handover handover;

	(void) state;
	memset(&handover, 0, sizeof(handover));
	for (int32_t round = 0; round < 3000; round++)
	{
		handover.round = round;
		pool_run(pool, handover_job, &handover, 64, 1 + round % 9);
	}
	assert_int_equal(handover.n_stale, 0);
	pool_destroy(pool);
}

/* Thread 0 may not finish before a helper has taken an item: helpers must wake from their sleep. */
typedef struct Meeting
{
	_Atomic int32_t n_here;
} Meeting;

static void
meeting_job(void *context, int32_t thread, int32_t first, int32_t n)
{
	Meeting *meeting = context;

	(void) thread;
	(void) first;
	(void) n;
	meeting->n_here++;
	while (meeting->n_here < 2)
		sched_yield();
}

static void
burn_job(void *context, int32_t thread, int32_t first, int32_t n)
{
	volatile uint32_t *sink = context;

	(void) thread;
	(void) n;
	for (uint32_t i = 0; i < 200000; i++)
		sink[first] = sink[first] + i;
}

static void
sleeping_helpers_wake_for_a_job(void **state)
{
	Pool *pool = pool_of(2);
	Pool *other = pool_of(1);
	uint32_t sink[16] = { 0 };

	(void) state;
	for (int round = 0; round < 20; round++)
	{
		Meeting meeting = { 0 };

		/* This takes far longer than helpers spin. */
		pool_run(other, burn_job, sink, 16, 16);
		pool_run(pool, meeting_job, &meeting, 2, 1);
		assert_int_equal(meeting.n_here, 2);
	}
	pool_destroy(other);
	pool_destroy(pool);
}

static void
the_caller_waits_for_a_helper_with_a_long_chunk(void **state)
{
	Pool *pool = pool_of(3);
	uint32_t sink[64] = { 0 };

	(void) state;
	for (int round = 0; round < 5; round++)
		pool_run(pool, burn_job, sink, 64, 1);
	for (int i = 1; i < 64; i++)
		assert_int_equal(sink[i], sink[0]);
	pool_destroy(pool);
}

/* Jobs of one item and no work: what is left of them is the hand-over between two jobs. */
typedef struct Tally
{
	int32_t n_items;
	_Atomic int32_t n_done;
	_Atomic int32_t n_beyond;
} Tally;

static void
tally_job(void *context, int32_t thread, int32_t first, int32_t n)
{
	Tally *tally = context;

	(void) thread;
	if (first + n > tally->n_items)
		tally->n_beyond++;
	tally->n_done += n;
}

/*
 * A helper that is late for a small job must not take items of the large one behind it under the
 * small one's number: they would be done twice, and the caller would wait for ever.
 */
static void
a_late_helper_takes_nothing_of_the_next_job(void **state)
{
	Pool *pool = pool_of(2);

	(void) state;
	for (int i = 0; i < 200000; i++)
	{
		Tally small = { .n_items = 3 + i % 17 };
		Tally large = { .n_items = 100 };

		pool_run(pool, tally_job, &small, small.n_items, 1);
		pool_run(pool, tally_job, &large, large.n_items, 4);
		assert_int_equal(small.n_done, small.n_items);
		assert_int_equal(large.n_done, large.n_items);
		assert_int_equal(small.n_beyond + large.n_beyond, 0);
	}
	pool_destroy(pool);
}

static void
bad_thread_counts_are_refused(void **state)
{
	static const int32_t bad[] = { INT32_MIN, -1, 0, 257, INT32_MAX };

	(void) state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		InferError err;
		Pool *pool;

		assert_false(pool_create(bad[i], &pool, &err));
		assert_int_equal(err.code, INFER_BAD_OPTION);
		assert_null(pool);
	}
	pool_destroy(NULL);
}

static void
a_pool_that_never_ran_can_be_destroyed(void **state)
{
	(void) state;
	for (int i = 0; i < 50; i++)
		pool_destroy(pool_of(1 + i % 4));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_item_is_done_once_by_any_number_of_threads),
		cmocka_unit_test(a_job_sees_everything_that_the_job_before_wrote),
		cmocka_unit_test(sleeping_helpers_wake_for_a_job),
		cmocka_unit_test(the_caller_waits_for_a_helper_with_a_long_chunk),
		cmocka_unit_test(a_late_helper_takes_nothing_of_the_next_job),
		cmocka_unit_test(bad_thread_counts_are_refused),
		cmocka_unit_test(a_pool_that_never_ran_can_be_destroyed),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
