#include "postgres.h"

#include "pg/errors.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "pg/compat.h"
#include "tcop/utility.h"

#define ERRCODE_INFER_DEADLINE MAKE_SQLSTATE('I', 'N', '0', '0', '1')
#define ERRCODE_INFER_SCHEMA   MAKE_SQLSTATE('I', 'N', '0', '0', '2')

/* Class 57P is avoided on purpose: pools and drivers take it for a dead server. */
static const int sqlstates[INFER_N_CODES] = {
	[INFER_OK] = ERRCODE_SUCCESSFUL_COMPLETION,
	[INFER_INTERNAL] = ERRCODE_INTERNAL_ERROR,
	[INFER_BAD_OPTION] = ERRCODE_INVALID_PARAMETER_VALUE,
	[INFER_BAD_INPUT] = ERRCODE_INVALID_PARAMETER_VALUE,
	[INFER_UNKNOWN_MODEL] = ERRCODE_UNDEFINED_OBJECT,
	[INFER_MODEL_NOT_READY] = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	[INFER_BAD_MODEL] = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	[INFER_NO_ENGINE] = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
	[INFER_NO_PRIVILEGE] = ERRCODE_INSUFFICIENT_PRIVILEGE,
	[INFER_CANCELLED] = ERRCODE_QUERY_CANCELED,
	[INFER_BUDGET_SPENT] = ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
	[INFER_PROMPT_TOO_LONG] = ERRCODE_PROGRAM_LIMIT_EXCEEDED,
	[INFER_QUEUE_FULL] = ERRCODE_TOO_MANY_CONNECTIONS,
	[INFER_ENGINE_DIED] = ERRCODE_SYSTEM_ERROR,
	[INFER_DEADLINE] = ERRCODE_INFER_DEADLINE,
	[INFER_SCHEMA_INCOMPLETE] = ERRCODE_INFER_SCHEMA,
	[INFER_OUT_OF_KV] = ERRCODE_OUT_OF_MEMORY,
	[INFER_OUT_OF_MEMORY] = ERRCODE_OUT_OF_MEMORY,
	[INFER_NOT_REPRESENTABLE] = ERRCODE_UNTRANSLATABLE_CHARACTER,
	[INFER_IO] = ERRCODE_IO_ERROR,
	[INFER_LIMIT] = ERRCODE_PROGRAM_LIMIT_EXCEEDED,
	[INFER_TEMPLATE_RAISED] = ERRCODE_INVALID_PARAMETER_VALUE,
};

static ExecutorRun_hook_type previous_executor_run;
static ExecutorFinish_hook_type previous_executor_finish;
static ExecutorEnd_hook_type previous_executor_end;
static ProcessUtility_hook_type previous_process_utility;

/* Soft errors of the top-level statement that runs now. */
static struct
{
	uint64 counts[INFER_N_CODES];
	uint64 total;
	char example[INFER_ERROR_TEXT_BYTES];
} soft_errors;

/* How many executor runs and utility commands we are in; 0 means that no statement runs. */
static int nesting_depth;

static int
sqlstate_of(uint32_t code)
{
	return code < INFER_N_CODES ? sqlstates[code] : ERRCODE_INTERNAL_ERROR;
}

const char *
infer_code_sqlstate(uint32_t code)
{
	return unpack_sql_state(sqlstate_of(code));
}

void
infer_report(int elevel, const InferError *error)
{
	ereport(elevel, (errcode(sqlstate_of(error->code)), errmsg_internal("%s", error->message),
					 error->detail[0] != '\0' ? errdetail_internal("%s", error->detail) : 0,
					 error->hint[0] != '\0' ? errhint("%s", error->hint) : 0));
}

void
infer_count_soft_error(const InferError *error)
{
	soft_errors.counts[error->code < INFER_N_CODES ? error->code : INFER_INTERNAL]++;
	soft_errors.total++;
	strlcpy(soft_errors.example, error->message, sizeof(soft_errors.example));
}

static void
soft_errors_forget(void)
{
	memset(&soft_errors, 0, sizeof(soft_errors));
}

static void
soft_errors_report(void)
{
	uint64 total = soft_errors.total;
	char example[INFER_ERROR_TEXT_BYTES];
	StringInfoData counts;

	if (total == 0)
		return;
	initStringInfo(&counts);
	for (uint32_t code = 0; code < INFER_N_CODES; code++)
		if (soft_errors.counts[code] > 0)
			appendStringInfo(&counts, "%s" UINT64_FORMAT " of SQLSTATE %s",
							 counts.len > 0 ? ", " : "", soft_errors.counts[code],
							 infer_code_sqlstate(code));
	strlcpy(example, soft_errors.example, sizeof(example));
	/* first forget, then report: a client that is gone must not make us report twice */
	soft_errors_forget();
	ereport(WARNING, (errmsg_plural(UINT64_FORMAT " inference request failed and gave NULL: %s",
									UINT64_FORMAT " inference requests failed and gave NULL: %s",
									(unsigned long) total, total, counts.data),
					  errdetail_internal("The last one: %s.", example)));
	pfree(counts.data);
}

static void
statement_end(void)
{
	if (nesting_depth == 0)
		soft_errors_report();
}

static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count
#if PG_VERSION_NUM < 180000
			 ,
			 bool once
#endif
)
{
	nesting_depth++;
	PG_TRY();
	{
		if (previous_executor_run)
			previous_executor_run(INFER_EXECUTOR_RUN_ARGS(query, direction, count, once));
		else
			standard_ExecutorRun(INFER_EXECUTOR_RUN_ARGS(query, direction, count, once));
	}
	PG_FINALLY();
	{
		nesting_depth--;
	}
	PG_END_TRY();
}

static void
executor_finish(QueryDesc *query)
{
	nesting_depth++;
	PG_TRY();
	{
		if (previous_executor_finish)
			previous_executor_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		nesting_depth--;
	}
	PG_END_TRY();
}

static void
executor_end(QueryDesc *query)
{
	if (previous_executor_end)
		previous_executor_end(query);
	else
		standard_ExecutorEnd(query);
	statement_end();
}

static void
process_utility(PlannedStmt *statement, const char *query,
#if PG_VERSION_NUM >= 140000
				bool read_only_tree,
#endif
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *destination, QueryCompletion *completion)
{
	ProcessUtility_hook_type next =
		previous_process_utility ? previous_process_utility : standard_ProcessUtility;

	nesting_depth++;
	PG_TRY();
	{
		next(statement, query,
#if PG_VERSION_NUM >= 140000
			 read_only_tree,
#endif
			 context, params, environment, destination, completion);
	}
	PG_FINALLY();
	{
		nesting_depth--;
	}
	PG_END_TRY();
	statement_end();
}

/* A statement that raised says so itself. */
static void
transaction_end(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_ABORT)
		soft_errors_forget();
}

void
errors_install_hooks(void)
{
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	previous_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	previous_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(transaction_end, NULL);
}
