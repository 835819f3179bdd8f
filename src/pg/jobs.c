/*
 * Requests that a session starts now and asks about later: infer_submit, infer_result,
 * infer_cancel. They run on across statements and transactions, and end with the session.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "pg/call.h"
#include "pg/compat.h"
#include "pg/errors.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

INFER_FUNCTION(infer_submit);
INFER_FUNCTION(infer_result);
INFER_FUNCTION(infer_cancel);

typedef struct Job
{
	int64 id; /* hash key */
	MemoryContext own;
	Call *call;
	PgRequest *request;
} Job;

static HTAB *jobs;
static int64 last_id;

static void
jobs_init(void)
{
	HASHCTL layout = { .keysize = sizeof(int64), .entrysize = sizeof(Job) };

	if (jobs == NULL)
		jobs = hash_create("infer jobs", 64, &layout, HASH_ELEM | HASH_BLOBS);
}

static Job *
job_find(int64 id)
{
	jobs_init();
	return hash_search(jobs, &id, HASH_FIND, NULL);
}

static void
job_forget(Job *job)
{
	MemoryContextDelete(job->own);
	hash_search(jobs, &job->id, HASH_REMOVE, NULL);
}

pg_attribute_noreturn() static void unknown_job(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("request " INT64_FORMAT " does not exist", id),
			 errdetail("It was not submitted in this session, or its result was already taken.")));
}

static void
full_check(void)
{
	InferError error;

	if (!request_session_is_full())
		return;
	fail(&error, INFER_QUEUE_FULL,
		 "too many requests of this session are in flight\n\n"
		 "Take results with infer_result, or raise infer.max_session_requests.");
	infer_report(ERROR, &error);
}

Datum
infer_submit(PG_FUNCTION_ARGS)
{
	NullableDatum args[N_CALL_ARGS];
	MemoryContext before;
	MemoryContext own;
	PgRequest *request;
	Call *call;
	Job *job;

	call_args_collect(fcinfo, true, args);
	if (!call_has_request(args))
		PG_RETURN_NULL();
	jobs_init();

	/* until all is well it belongs to this call, so that an error takes it along */
	own = AllocSetContextCreate(CurrentMemoryContext, "infer job", ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(own);
	call = palloc(sizeof(Call));
	call_prepare(INFER_KIND_GENERATE, args, call);
	full_check();
	request = call_submit(own, call, REQUEST_DETACH);
	MemoryContextSwitchTo(before);

	last_id++;
	job = hash_search(jobs, &last_id, HASH_ENTER, NULL);
	job->own = own;
	job->call = call;
	job->request = request;
	MemoryContextSetParent(own, TopMemoryContext);
	PG_RETURN_INT64(last_id);
}

Datum
infer_result(PG_FUNCTION_ARGS)
{
	Datum values[N_DETAIL_COLUMNS];
	bool nulls[N_DETAIL_COLUMNS];
	TupleDesc columns;
	bool wait = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	HeapTuple row;
	Job *job;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	job = job_find(PG_GETARG_INT64(0));
	if (job == NULL)
		unknown_job(PG_GETARG_INT64(0));

	if (wait)
		request_wait(job->request);
	else if (!request_poll(job->request))
		PG_RETURN_NULL();
	if (!infer_code_is_soft(request_result(job->request)->error.code) &&
		request_result(job->request)->error.code != INFER_OK)
	{
		InferError error = request_result(job->request)->error;

		job_forget(job);
		infer_report(ERROR, &error);
	}
	call_detail(job->request, values, nulls);
	row = heap_form_tuple(BlessTupleDesc(columns), values, nulls);
	job_forget(job);
	PG_RETURN_DATUM(HeapTupleGetDatum(row));
}

Datum
infer_cancel(PG_FUNCTION_ARGS)
{
	bool was_running;
	Job *job;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	job = job_find(PG_GETARG_INT64(0));
	if (job == NULL)
		PG_RETURN_BOOL(false);
	was_running = !request_poll(job->request);
	job_forget(job);
	PG_RETURN_BOOL(was_running);
}
