/*
 * The scalar functions: one call, one request, one value.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "pg/call.h"
#include "pg/compat.h"
#include "pg/settings.h"

#define ROW_BY_ROW_CALLS 32 /* of one statement, before it is told */

INFER_FUNCTION(infer_generate);
INFER_FUNCTION(infer_generate_detail);
INFER_FUNCTION(infer_chat);
INFER_FUNCTION(infer_render);

static Datum
text_answer(FunctionCallInfo fcinfo, const Call *call)
{
	PgRequest *r = call_submit(CurrentMemoryContext, call, 0);
	bool isnull;
	Datum answer;

	request_wait(r);
	answer = call_text(call, r, &isnull);
	request_free(r);
	if (isnull)
		PG_RETURN_NULL();
	return answer;
}

/*
 * Calls that no Infer Batch node took over come here one by one. Most statements have one or two;
 * one with many is told, once, how to ask for them together. Statements are told apart by when
 * they began, as the client sees them: the loops of a function belong to the call of the function.
 */
static void
row_by_row_note(void)
{
	static TimestampTz statement = 0;
	static int n_calls = 0;
	TimestampTz now = GetCurrentStatementStartTimestamp();

	if (now != statement)
		n_calls = 0;
	statement = now;
	n_calls++;
	if (n_calls != ROW_BY_ROW_CALLS || !setting_batch)
		return;
	ereport(
		NOTICE,
		(errmsg("this statement asks the model row by row"),
		 errdetail("It has made %d calls so far, each after the answer to the one before.",
				   n_calls),
		 errhint("Write the call into a query over the rows (SELECT, WHERE, UPDATE, INSERT ... "
				 "SELECT), not into RETURNING, a list of VALUES, an ON CONFLICT or MERGE "
				 "action or a PL/pgSQL expression: then all rows are in the engine together.")));
}

Datum
infer_generate(PG_FUNCTION_ARGS)
{
	NullableDatum args[N_CALL_ARGS];
	Call call;

	call_args_collect(fcinfo, true, args);
	if (!call_has_request(args))
		PG_RETURN_NULL();
	row_by_row_note();
	call_prepare(INFER_KIND_GENERATE, args, &call);
	return text_answer(fcinfo, &call);
}

Datum
infer_chat(PG_FUNCTION_ARGS)
{
	NullableDatum args[N_CALL_ARGS];
	Call call;

	call_args_collect(fcinfo, false, args);
	if (!call_has_request(args))
		PG_RETURN_NULL();
	row_by_row_note();
	call_prepare(INFER_KIND_CHAT, args, &call);
	return text_answer(fcinfo, &call);
}

Datum
infer_render(PG_FUNCTION_ARGS)
{
	NullableDatum messages = fcinfo->args[0];
	Call call;

	if (messages.isnull)
		PG_RETURN_NULL();
	call_prepare_plain(INFER_KIND_RENDER, messages, fcinfo->args[1], &call);
	return text_answer(fcinfo, &call);
}

Datum
infer_generate_detail(PG_FUNCTION_ARGS)
{
	NullableDatum args[N_CALL_ARGS];
	Datum values[N_DETAIL_COLUMNS];
	bool nulls[N_DETAIL_COLUMNS];
	TupleDesc columns;
	PgRequest *r;
	Call call;

	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	call_args_collect(fcinfo, true, args);
	if (!call_has_request(args))
		PG_RETURN_NULL();
	row_by_row_note();
	call_prepare(INFER_KIND_GENERATE, args, &call);
	r = call_submit(CurrentMemoryContext, &call, 0);
	request_wait(r);
	call_detail(r, values, nulls);
	request_free(r);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
