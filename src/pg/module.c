/*
 * The library's entry: what it defines, reserves and registers when the server loads it.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "pg/batch/batch.h"
#include "pg/errors.h"
#include "pg/guc.h"
#include "pg/request.h"
#include "pg/shmem.h"
#include "pg/supervisor.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	guc_define();
	errors_install_hooks();
	request_install_callbacks();
	plan_hook_install();

	/* loaded by a function call, by pg_upgrade or without a postmaster: nothing is started, and
	 * infer_available() says why */
	if (!process_shared_preload_libraries_in_progress || !IsPostmasterEnvironment ||
		IsBinaryUpgrade)
		return;
	shmem_install_hooks();
	supervisor_register();
}
