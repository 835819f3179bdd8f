/*
 * pool.h: the engine's threads. The thread that calls pool_run is one of them, so a pool of 1 has
 * no helper at all.
 *
 * pool_run hands out the items 0 .. n_items - 1 of one job to all threads and returns when all are
 * done. Items are claimed in ascending order in chunks from one atomic counter, so a thread that
 * the kernel has put aside for a PostgreSQL backend delays at most its own chunk. Helpers spin for
 * a few tens of microseconds after a job and then sleep on a futex: an idle engine uses no CPU.
 *
 * A job may not call pool_run. Which thread computes an item never changes its result.
 */
#ifndef INFER_ENGINE_POOL_H
#define INFER_ENGINE_POOL_H

#include "shared/status.h"

#include <stdint.h>

typedef struct Pool Pool;

/* thread is 0 .. n_threads - 1: picks the caller's scratch. Items [first, first + n). */
typedef void (*PoolJob)(void *context, int32_t thread, int32_t first, int32_t n);

extern bool pool_create(int32_t n_threads, Pool **out, InferError *err);
extern void pool_destroy(Pool *pool);
extern int32_t pool_thread_count(const Pool *pool);

/* chunk_items >= 1: what one claim takes. */
extern void pool_run(Pool *pool, PoolJob job, void *context, int32_t n_items, int32_t chunk_items);

#endif
