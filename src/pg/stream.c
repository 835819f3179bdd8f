#include "postgres.h"

#include "pg/stream.h"

#include "funcapi.h"
#include "libpq/libpq-be.h"
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/errors.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"

INFER_FUNCTION(infer_stream);

struct Stream
{
	Call call;
	PgRequest *request;
	StringInfoData piece;
	int32 n_rows;
	bool finished;
};

Stream *
stream_open(MemoryContext context, const NullableDatum *args)
{
	MemoryContext before;
	Stream *stream;

	if (!call_has_request(args))
		return NULL;
	before = MemoryContextSwitchTo(context);
	stream = palloc0(sizeof(Stream));
	call_prepare(INFER_KIND_GENERATE, args, &stream->call);
	stream->call.request.flags |= INFER_FLAG_STREAM;
	initStringInfo(&stream->piece);
	stream->request = call_submit(context, &stream->call, REQUEST_STREAM);
	MemoryContextSwitchTo(before);
	return stream;
}

void
stream_flush_to_client(void)
{
	if (whereToSendOutput != DestRemote || MyProcPort == NULL)
		return;
	while (pq_flush_if_writable() == 0 && pq_is_send_pending())
	{
		WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_WRITEABLE | WL_EXIT_ON_PM_DEATH,
						  MyProcPort->sock, 0, PG_WAIT_CLIENT);
		ResetLatch(MyLatch);
		/* A session that is terminated would try to say so, and wait for this client for ever. */
		if (ProcDiePending && pq_is_send_pending() && INTERRUPTS_CAN_BE_PROCESSED())
			whereToSendOutput = DestNone;
		CHECK_FOR_INTERRUPTS();
	}
}

static void
row_fill(Stream *stream, Datum *values, bool *nulls, Datum piece, const char *finish_reason,
		 int32 output_tokens)
{
	values[0] = Int32GetDatum(++stream->n_rows);
	values[1] = piece;
	values[2] = finish_reason != NULL ? CStringGetTextDatum(finish_reason) : (Datum) 0;
	values[3] = Int32GetDatum(output_tokens);
	memset(nulls, false, N_STREAM_COLUMNS * sizeof(*nulls));
	nulls[2] = finish_reason == NULL;
}

static void
last_row_fill(Stream *stream, const InferError *error, Datum *values, bool *nulls)
{
	const InferResult *result = request_result(stream->request);
	uint32 finish = result->finish;

	if (error->code != INFER_OK)
	{
		call_soften(&stream->call, error);
		finish = INFER_FINISH_ERROR;
	}
	stream->finished = true;
	row_fill(stream, values, nulls, CStringGetTextDatum(""), infer_finish_name(finish),
			 result->output_tokens);
}

bool
stream_next(Stream *stream, Datum *values, bool *nulls)
{
	InferError error;
	uint32 output_tokens;
	text *piece;

	if (stream->finished)
		return false;
	stream_flush_to_client();
	if (!request_next_piece(stream->request, &stream->piece, &output_tokens))
	{
		error = request_result(stream->request)->error;
		last_row_fill(stream, &error, values, nulls);
	}
	else if (call_text_from_utf8(stream->piece.data, stream->piece.len, &piece, &error))
		row_fill(stream, values, nulls, PointerGetDatum(piece), NULL, (int32) output_tokens);
	else
	{
		request_cancel(stream->request, &error);
		last_row_fill(stream, &error, values, nulls);
	}
	return true;
}

Datum
infer_stream(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum values[N_STREAM_COLUMNS];
	bool nulls[N_STREAM_COLUMNS];
	HeapTuple row;

	if (SRF_IS_FIRSTCALL())
	{
		NullableDatum args[N_CALL_ARGS];
		MemoryContext before;
		TupleDesc columns;

		funcctx = SRF_FIRSTCALL_INIT();
		before = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		funcctx->tuple_desc = BlessTupleDesc(columns);
		MemoryContextSwitchTo(before);
		call_args_collect(fcinfo, true, args);
		funcctx->user_fctx = stream_open(funcctx->multi_call_memory_ctx, args);
	}
	funcctx = SRF_PERCALL_SETUP();
	if (funcctx->user_fctx == NULL || !stream_next(funcctx->user_fctx, values, nulls))
		SRF_RETURN_DONE(funcctx);
	row = heap_form_tuple(funcctx->tuple_desc, values, nulls);
	SRF_RETURN_NEXT(funcctx, HeapTupleGetDatum(row));
}
