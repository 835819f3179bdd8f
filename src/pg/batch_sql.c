/*
 * infer_batch(prompts): all prompts of an array with many in flight, rows in the array's order.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "pg/call.h"
#include "pg/compat.h"
#include "utils/array.h"

INFER_FUNCTION(infer_batch);

#define N_BATCH_COLUMNS (1 + N_DETAIL_COLUMNS)

/* A prompt between its submission and its row. `own` holds call, payload and request. */
typedef struct BatchEntry
{
	MemoryContext own; /* NULL: the prompt was NULL */
	Call call;
	PgRequest *request;
} BatchEntry;

typedef struct Batch
{
	MemoryContext context;
	NullableDatum args[N_CALL_ARGS]; /* the subject changes, the rest stays */
	Datum *prompts;
	bool *nulls;
	int n_prompts;
	int n_submitted;
	int n_returned;
	int n_window;
	BatchEntry *ring; /* [n_window]; entry of prompt i is ring[i % n_window] */
} Batch;

/* Values of the arguments must live as long as the batch: they may be in the row's memory. */
static void
args_keep(Batch *batch, FunctionCallInfo fcinfo)
{
	call_args_collect(fcinfo, true, batch->args);
	for (int i = 0; i < N_CALL_ARGS; i++)
	{
		bool by_reference = i == CALL_SUBJECT || i == CALL_MODEL || i == CALL_SYSTEM ||
							i == CALL_STOP || i == CALL_ON_ERROR || i == CALL_OPTIONS;

		if (by_reference && !batch->args[i].isnull)
			batch->args[i].value = PointerGetDatum(PG_DETOAST_DATUM_COPY(batch->args[i].value));
	}
}

static Batch *
batch_open(MemoryContext context, FunctionCallInfo fcinfo)
{
	MemoryContext before = MemoryContextSwitchTo(context);
	Batch *batch = palloc0(sizeof(Batch));

	batch->context = context;
	args_keep(batch, fcinfo);
	if (call_has_request(batch->args))
		deconstruct_array(DatumGetArrayTypeP(batch->args[CALL_SUBJECT].value), TEXTOID, -1, false,
						  TYPALIGN_INT, &batch->prompts, &batch->nulls, &batch->n_prompts);
	batch->n_window = request_window();
	batch->ring = palloc0(sizeof(BatchEntry) * batch->n_window);
	MemoryContextSwitchTo(before);
	return batch;
}

/* Submits the next prompt. False: no slot for it now. */
static bool
batch_submit_one(Batch *batch)
{
	int i = batch->n_submitted;
	BatchEntry *entry = &batch->ring[i % batch->n_window];
	MemoryContext before;

	entry->own = NULL;
	if (!batch->nulls[i])
	{
		entry->own =
			AllocSetContextCreate(batch->context, "infer batch entry", ALLOCSET_SMALL_SIZES);
		before = MemoryContextSwitchTo(entry->own);
		batch->args[CALL_SUBJECT].value = batch->prompts[i];
		batch->args[CALL_SUBJECT].isnull = false;
		call_prepare(INFER_KIND_GENERATE, batch->args, &entry->call);
		entry->request = call_submit(entry->own, &entry->call,
									 batch->n_submitted > batch->n_returned ? REQUEST_TRY : 0);
		MemoryContextSwitchTo(before);
		if (entry->request == NULL)
		{
			MemoryContextDelete(entry->own);
			return false;
		}
	}
	batch->n_submitted++;
	return true;
}

static void
batch_fill_window(Batch *batch)
{
	while (batch->n_submitted < batch->n_prompts &&
		   batch->n_submitted - batch->n_returned < batch->n_window)
		if (!batch_submit_one(batch))
			break;
}

static bool
batch_next(Batch *batch, Datum *values, bool *nulls)
{
	BatchEntry *entry;

	if (batch->n_returned == batch->n_prompts)
		return false;
	batch_fill_window(batch);
	entry = &batch->ring[batch->n_returned % batch->n_window];
	values[0] = Int32GetDatum(batch->n_returned + 1);
	nulls[0] = false;
	if (entry->own == NULL)
		call_detail_null(values + 1, nulls + 1);
	else
	{
		/* whatever finishes first makes room for the next prompt */
		while (!request_poll(entry->request))
		{
			request_wait_any();
			batch_fill_window(batch);
		}
		call_detail(entry->request, values + 1, nulls + 1);
		MemoryContextDelete(entry->own);
	}
	batch->n_returned++;
	return true;
}

Datum
infer_batch(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Datum values[N_BATCH_COLUMNS];
	bool nulls[N_BATCH_COLUMNS];
	HeapTuple row;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext before;
		TupleDesc columns;

		funcctx = SRF_FIRSTCALL_INIT();
		before = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		funcctx->tuple_desc = BlessTupleDesc(columns);
		MemoryContextSwitchTo(before);
		funcctx->user_fctx = batch_open(funcctx->multi_call_memory_ctx, fcinfo);
	}
	funcctx = SRF_PERCALL_SETUP();
	if (!batch_next(funcctx->user_fctx, values, nulls))
		SRF_RETURN_DONE(funcctx);
	row = heap_form_tuple(funcctx->tuple_desc, values, nulls);
	SRF_RETURN_NEXT(funcctx, HeapTupleGetDatum(row));
}
