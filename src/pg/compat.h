/*
 * compat.h: what differs between server versions 13 to 18, and nothing else. Include after
 * postgres.h.
 */
#ifndef INFER_PG_COMPAT_H
#define INFER_PG_COMPAT_H

#include <time.h>

#include "fmgr.h"
#include "libpq/libpq.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/* PG_FUNCTION_INFO_V1 for a library whose symbols are hidden: up to version 15 it exports only the
 * function's record. */
#define INFER_FUNCTION(name)                                                                       \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS);                                               \
	PG_FUNCTION_INFO_V1(name)

#if PG_VERSION_NUM >= 170000
#	define infer_my_procno() ((uint32) MyProcNumber)
#else
#	define infer_my_procno() ((uint32) MyProc->pgprocno)
#endif

/* A set that lives as long as the session. */
#if PG_VERSION_NUM >= 170000
#	define infer_create_session_wait_set(n_events) CreateWaitEventSet(NULL, n_events)
#else
#	define infer_create_session_wait_set(n_events) CreateWaitEventSet(TopMemoryContext, n_events)
#endif

/* Names in pg_stat_activity.wait_event where the version allows them. */
#if PG_VERSION_NUM >= 170000
#	define infer_wait_event(name) WaitEventExtensionNew(name)
#else
#	define infer_wait_event(name) PG_WAIT_EXTENSION
#endif

/* Whether the client is still there; version 13 cannot tell. */
#if PG_VERSION_NUM >= 140000
#	define infer_client_is_connected() pq_check_connection()
#else
#	define infer_client_is_connected() true
#endif

#if PG_VERSION_NUM >= 150000
#	define infer_reserve_settings(prefix) MarkGUCPrefixReserved(prefix)
#else
#	define infer_reserve_settings(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

#if PG_VERSION_NUM >= 180000
#	define INFER_EXECUTOR_RUN_ARGS(query, direction, count, once) query, direction, count
#else
#	define INFER_EXECUTOR_RUN_ARGS(query, direction, count, once) query, direction, count, once
#endif

/* The clock that deadlines in the region are told by. */
static inline int64
infer_monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
