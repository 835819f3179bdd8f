/*
 * The scalar functions: one call, one request, one value.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "pg/call.h"
#include "pg/compat.h"

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

Datum
infer_generate(PG_FUNCTION_ARGS)
{
	NullableDatum args[N_CALL_ARGS];
	Call call;

	call_args_collect(fcinfo, true, args);
	if (!call_has_request(args))
		PG_RETURN_NULL();
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
	call_prepare(INFER_KIND_GENERATE, args, &call);
	r = call_submit(CurrentMemoryContext, &call, 0);
	request_wait(r);
	call_detail(r, values, nulls);
	request_free(r);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
