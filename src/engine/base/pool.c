/*
 * How a job travels. The caller writes the job's fields, then `claim` = job number << 32 | 0, then
 * `epoch` = job number, which is what helpers watch and sleep on. Anybody claims a chunk by moving
 * `claim` forward with a compare-and-swap, and adds to `n_done` after the chunk. The caller waits
 * for n_done, not for the helpers: one that wakes late finds nothing left to claim.
 *
 * Why a late helper never runs a stale job, nor a new job's items under an old number: before the
 * caller touches the fields it closes `claim` (CLAIM_CLOSED). A helper reads the fields between
 * loading `claim` and swapping it, so if it read anything of the next job, the swap meets the
 * closed word and fails. Without the closing, the word of a job whose items are all claimed would
 * still be there to be swapped. Fields are atomics because a helper may read them, in vain, while
 * the next job is being written: released and acquired, so that whoever reads a new one finds
 * `claim` closed.
 */
#include "engine/base/pool.h"

#include "engine/base/machine.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POOL_MAX_THREADS 256
#define CACHE_LINE_BYTES 64

/* Longer than the gap between two operations of a step, shorter than what a backend would notice.
 */
#define SPIN_NS		  50000
#define SPINS_A_CLOCK 64 /* pauses between two looks at the clock */

/* An item number that no job reaches: nothing to claim. */
#define CLAIM_CLOSED ((uint64_t) INT32_MAX)

typedef struct PoolThread
{
	Pool *pool;
	pthread_t handle;
	int32_t thread;
} PoolThread;

struct Pool
{
	/* Config */
	int32_t n_threads;
	PoolThread *helpers; /* [n_threads - 1] */

	/* Written by the caller, once a job */
	alignas(CACHE_LINE_BYTES) _Atomic uint32_t epoch; /* number of the newest job; a futex */
	_Atomic bool quit;
	_Atomic(PoolJob) job;
	_Atomic(void *) context;
	_Atomic int32_t n_items;
	_Atomic int32_t chunk_items;

	/* Written by all, each on a line of its own */
	alignas(CACHE_LINE_BYTES) _Atomic uint64_t claim; /* job number << 32 | next item */
	alignas(CACHE_LINE_BYTES) _Atomic int32_t n_done; /* items; a futex for the caller */
	_Atomic bool caller_sleeps;
	alignas(CACHE_LINE_BYTES) _Atomic int32_t n_asleep; /* helpers in the futex, or about to be */
};

static void
futex_wait(void *word, uint32_t expected)
{
	/* EAGAIN, EINTR and spurious returns are all the same to callers: they look again. */
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void
futex_wake(void *word, int n_waiters)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n_waiters, NULL, NULL, 0);
}

static inline void
cpu_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Spins until *word differs from (or, with want_equal, equals) `value`; false: time is up. */
static bool
spin_until(_Atomic uint32_t *word, uint32_t value, bool want_equal)
{
	int64_t deadline_ns = 0;

	for (uint32_t i = 1;; i++)
	{
		uint32_t seen = atomic_load_explicit(word, memory_order_acquire);

		if ((seen == value) == want_equal)
			return true;
		cpu_pause();
		if (i % SPINS_A_CLOCK == 0)
		{
			int64_t now_ns = machine_clock_ns();

			if (deadline_ns == 0)
				deadline_ns = now_ns + SPIN_NS;
			else if (now_ns >= deadline_ns)
				return false;
		}
	}
}

/* Runs chunks of job `number` until none is left to claim. */
static void
job_work(Pool *pool, uint32_t number, int32_t thread)
{
	uint64_t claim = atomic_load_explicit(&pool->claim, memory_order_acquire);

	while ((uint32_t) (claim >> 32) == number)
	{
		PoolJob job = atomic_load_explicit(&pool->job, memory_order_acquire);
		void *context = atomic_load_explicit(&pool->context, memory_order_acquire);
		int32_t n_items = atomic_load_explicit(&pool->n_items, memory_order_acquire);
		int32_t n = atomic_load_explicit(&pool->chunk_items, memory_order_acquire);
		int32_t first = (int32_t) (uint32_t) claim;
		int32_t n_done;

		if (first >= n_items)
			return;
		if (n > n_items - first)
			n = n_items - first;
		if (!atomic_compare_exchange_weak_explicit(&pool->claim, &claim, claim + (uint64_t) n,
												   memory_order_acq_rel, memory_order_acquire))
			continue;
		job(context, thread, first, n);

		n_done = atomic_fetch_add(&pool->n_done, n) + n;
		if (n_done == n_items && atomic_load(&pool->caller_sleeps))
			futex_wake(&pool->n_done, 1);
		claim = atomic_load_explicit(&pool->claim, memory_order_acquire);
	}
}

/* The number of a job newer than `seen`. */
static uint32_t
job_await(Pool *pool, uint32_t seen)
{
	if (!spin_until(&pool->epoch, seen, false))
	{
		/* Both sides order their store before their load, so one of them sees the other. */
		atomic_fetch_add(&pool->n_asleep, 1);
		while (atomic_load(&pool->epoch) == seen)
			futex_wait(&pool->epoch, seen);
		atomic_fetch_sub(&pool->n_asleep, 1);
	}
	return atomic_load_explicit(&pool->epoch, memory_order_acquire);
}

static void *
helper_main(void *arg)
{
	PoolThread *self = arg;
	Pool *pool = self->pool;
	uint32_t seen = 0;
	char name[16];

	snprintf(name, sizeof(name), "infer-pool-%d", (int) self->thread);
	pthread_setname_np(pthread_self(), name);
	for (;;)
	{
		seen = job_await(pool, seen);
		if (atomic_load(&pool->quit))
			return NULL;
		job_work(pool, seen, self->thread);
	}
}

static void
job_announce(Pool *pool, uint32_t number)
{
	atomic_store(&pool->epoch, number);
	if (atomic_load(&pool->n_asleep) > 0)
		futex_wake(&pool->epoch, POOL_MAX_THREADS);
}

/* Stops helpers [0, n) of the pool. */
static void
helpers_stop(Pool *pool, int32_t n)
{
	atomic_store(&pool->quit, true);
	job_announce(pool, atomic_load(&pool->epoch) + 1);
	for (int32_t i = 0; i < n; i++)
		pthread_join(pool->helpers[i].handle, NULL);
}

/* Signals are the main thread's business: helpers are born with all of them blocked. */
static bool
helpers_start(Pool *pool, InferError *err)
{
	sigset_t all, before;
	int32_t n = 0;
	int error = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; n < pool->n_threads - 1; n++)
	{
		PoolThread *helper = &pool->helpers[n];

		*helper = (PoolThread){ .pool = pool, .thread = n + 1 };
		error = pthread_create(&helper->handle, NULL, helper_main, helper);
		if (error != 0)
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0)
		return true;
	helpers_stop(pool, n);
	return fail(err, INFER_OUT_OF_MEMORY,
				"could not start thread %d of %d\n%s.\nLower infer.threads or raise the limit on "
				"processes.",
				(int) n + 1, (int) pool->n_threads, strerror(error));
}

bool
pool_create(int32_t n_threads, Pool **out, InferError *err)
{
	Pool *pool;

	*out = NULL;
	if (n_threads < 1 || n_threads > POOL_MAX_THREADS)
		return fail(err, INFER_BAD_OPTION,
					"number of threads %d is out of range\nIt may be 1 .. %d.", (int) n_threads,
					POOL_MAX_THREADS);
	pool = aligned_alloc(CACHE_LINE_BYTES, sizeof(Pool));
	if (pool == NULL)
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for the thread pool");
	memset(pool, 0, sizeof(Pool));
	pool->n_threads = n_threads;
	pool->helpers = calloc((size_t) n_threads, sizeof(PoolThread));
	if (pool->helpers == NULL)
	{
		free(pool);
		return fail(err, INFER_OUT_OF_MEMORY, "out of memory for the thread pool");
	}
	if (!helpers_start(pool, err))
	{
		free(pool->helpers);
		free(pool);
		return false;
	}
	*out = pool;
	return true;
}

void
pool_destroy(Pool *pool)
{
	if (pool == NULL)
		return;
	helpers_stop(pool, pool->n_threads - 1);
	free(pool->helpers);
	free(pool);
}

int32_t
pool_thread_count(const Pool *pool)
{
	return pool->n_threads;
}

/* Waits until the helpers have finished what they claimed. */
static void
job_finish(Pool *pool, int32_t n_items)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *) &pool->n_done;

	if (spin_until(word, (uint32_t) n_items, true))
		return;
	atomic_store(&pool->caller_sleeps, true);
	for (;;)
	{
		int32_t n_done = atomic_load(&pool->n_done);

		if (n_done == n_items)
			break;
		futex_wait(&pool->n_done, (uint32_t) n_done);
	}
	atomic_store(&pool->caller_sleeps, false);
}

void
pool_run(Pool *pool, PoolJob job, void *context, int32_t n_items, int32_t chunk_items)
{
	uint32_t number;

	if (n_items <= 0)
		return;
	if (chunk_items < 1)
		chunk_items = 1;
	if (pool->n_threads == 1 || n_items <= chunk_items)
	{
		for (int32_t first = 0; first < n_items; first += chunk_items)
		{
			int32_t n_left = n_items - first;

			job(context, 0, first, chunk_items < n_left ? chunk_items : n_left);
			if (n_left <= chunk_items)
				return; /* first + chunk_items may not fit an int32 */
		}
		return;
	}

	number = atomic_load_explicit(&pool->epoch, memory_order_relaxed) + 1;
	atomic_store_explicit(&pool->claim, (uint64_t) number << 32 | CLAIM_CLOSED,
						  memory_order_relaxed);
	atomic_store_explicit(&pool->job, job, memory_order_release);
	atomic_store_explicit(&pool->context, context, memory_order_release);
	atomic_store_explicit(&pool->n_items, n_items, memory_order_release);
	atomic_store_explicit(&pool->chunk_items, chunk_items, memory_order_release);
	atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
	atomic_store_explicit(&pool->claim, (uint64_t) number << 32, memory_order_release);
	job_announce(pool, number);
	job_work(pool, number, 0);
	job_finish(pool, n_items);
}
