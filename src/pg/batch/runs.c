/*
 * runs.c: how many rows the executor is run for. A cursor's FETCH 5 is a run for five rows, and the
 * count is not in the EState: a stack beside the runs keeps it.
 */
#include "postgres.h"

#include "batch_scan.h"

#include "executor/executor.h"
#include "pg/compat.h"

typedef struct ExecutorRunEntry
{
	const EState *estate;
	uint64 count;
	uint64 serial;
	struct ExecutorRunEntry *outer;
} ExecutorRunEntry;

static ExecutorRunEntry *innermost = NULL;
static uint64 last_serial = 0;
static ExecutorRun_hook_type previous_run_hook = NULL;

#if PG_VERSION_NUM >= 180000
static void
run_note(QueryDesc *query, ScanDirection direction, uint64 count)
#else
static void
run_note(QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once)
#endif
{
	ExecutorRunEntry entry = { query->estate, count, ++last_serial, innermost };

	innermost = &entry;
	PG_TRY();
	{
		if (previous_run_hook != NULL)
			previous_run_hook(INFER_EXECUTOR_RUN_ARGS(query, direction, count, execute_once));
		else
			standard_ExecutorRun(INFER_EXECUTOR_RUN_ARGS(query, direction, count, execute_once));
	}
	PG_FINALLY();
	{
		innermost = entry.outer;
	}
	PG_END_TRY();
}

void
executor_runs_install(void)
{
	previous_run_hook = ExecutorRun_hook;
	ExecutorRun_hook = run_note;
}

uint64
executor_run_count(const EState *estate, uint64 *serial)
{
	for (const ExecutorRunEntry *entry = innermost; entry != NULL; entry = entry->outer)
		if (entry->estate == estate)
		{
			*serial = entry->serial;
			return entry->count;
		}
	*serial = 0;
	return 0;
}
