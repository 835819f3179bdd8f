/*
 * batch_scan.c: pulls rows ahead, asks what their calls ask, returns rows in order.
 *
 *     child ──▶ pull ──▶ ring of rows, each with its answers in flight ──▶ head, when all are there
 *
 * One row is pulled at a time, with a look at the head in between: a slow child does not delay a
 * row that is ready, and the engine has work while the parent is busy with one. Rows wait as
 * minimal tuples; everything of a row lives in a memory context of its own.
 */
#include "postgres.h"

#include "batch_scan.h"

#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "pg/compat.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static void batch_scan_begin(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *batch_scan_exec(CustomScanState *node);
static void batch_scan_end(CustomScanState *node);
static void batch_scan_rescan(CustomScanState *node);

const CustomScanMethods batch_scan_methods = {
	.CustomName = "Infer Batch",
	.CreateCustomScanState = batch_scan_create_state,
};

static const CustomExecMethods batch_exec_methods = {
	.CustomName = "Infer Batch",
	.BeginCustomScan = batch_scan_begin,
	.ExecCustomScan = batch_scan_exec,
	.EndCustomScan = batch_scan_end,
	.ReScanCustomScan = batch_scan_rescan,
	.ExplainCustomScan = batch_scan_explain,
};

void
batch_scan_register(void)
{
	RegisterCustomScanMethods(&batch_scan_methods);
	executor_runs_install();
}

Node *
batch_scan_create_state(CustomScan *plan)
{
	BatchScan *scan = (BatchScan *) newNode(sizeof(BatchScan), T_CustomScanState);

	scan->css.methods = &batch_exec_methods;
	return (Node *) scan;
}

/* ---- begin ---- */

/* The check that the executor makes when it prepares a call itself. */
static void
privilege_check(Oid function)
{
#if PG_VERSION_NUM >= 160000
	AclResult result = object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE);
#else
	AclResult result = pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE);
#endif

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

static void
call_begin(BatchScan *scan, CallState *state, const FuncExpr *call, List *expressions)
{
	List *args = linitial(expressions);
	PlanState *parent = &scan->css.ss.ps;
	ListCell *cell;

	privilege_check(call->funcid);
	state->function = batch_function_find(call->funcid);
	if (state->function == NULL)
		elog(ERROR, "infer: function %u is not one of ours any more", call->funcid);
	state->function_id = call->funcid;
	state->result_type = call->funcresulttype;
	state->n_args = list_length(args);
	state->args = palloc(sizeof(ExprState *) * Max(state->n_args, 1));
	state->values = palloc0(sizeof(NullableDatum) * Max(state->n_args, 1));
	foreach (cell, args)
		state->args[foreach_current_index(cell)] = ExecInitExpr(lfirst(cell), parent);
	state->guard = ExecInitExpr(lsecond(expressions), parent);
	state->known = ExecInitExpr(lthird(expressions), parent);
	state->is_constant = !contain_var_clause((Node *) args);
}

static void
batch_scan_begin(CustomScanState *node, EState *estate, int eflags)
{
	BatchScan *scan = (BatchScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List *members = linitial(plan->custom_private);
	TupleDesc columns = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	int next;

	outerPlanState(node) = ExecInitNode(outerPlan(plan), estate, eflags);
	scan->n_columns = list_nth_int(members, BATCH_N_COLUMNS);
	scan->n_calls = list_nth_int(members, BATCH_N_CALLS);
	scan->limit_bound = list_nth_int(members, BATCH_LIMIT_BOUND);
	scan->cursor_bound = list_nth_int(members, BATCH_CURSOR_BOUND);
	scan->calls = palloc0(sizeof(CallState) * scan->n_calls);
	for (int i = 0; i < scan->n_calls; i++)
	{
		TargetEntry *entry = list_nth(plan->custom_scan_tlist, scan->n_columns + i);

		call_begin(scan, &scan->calls[i], castNode(FuncExpr, entry->expr),
				   list_nth(plan->custom_exprs, i));
	}
	next = scan->n_calls;
	if (list_nth_int(members, BATCH_HAS_COUNT))
		scan->count = ExecInitExpr(list_nth(plan->custom_exprs, next++), &node->ss.ps);
	if (list_nth_int(members, BATCH_HAS_OFFSET))
		scan->offset = ExecInitExpr(list_nth(plan->custom_exprs, next++), &node->ss.ps);
	scan->pull_context = CreateExprContext(estate);
	scan->pull_slot = ExecInitExtraTupleSlot(estate, columns, &TTSOpsVirtual);
	scan->row_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outerPlanState(node)),
											&TTSOpsMinimalTuple);
	scan->memory =
		AllocSetContextCreate(estate->es_query_cxt, "infer batch", ALLOCSET_DEFAULT_SIZES);
}

/* ---- how far ahead ---- */

static int64
limit_value(ExprState *expression, ExprContext *econtext)
{
	bool isnull;
	Datum value;

	if (expression == NULL)
		return 0;
	value = ExecEvalExprSwitchContext(expression, econtext, &isnull);
	return isnull ? -1 : Max(DatumGetInt64(value), 0);
}

/* count + offset, or -1 where there is no bound after all (LIMIT NULL). */
static void
limit_read(BatchScan *scan)
{
	ExprContext *econtext = scan->pull_context;
	int64 count = limit_value(scan->count, econtext);
	int64 offset = Max(limit_value(scan->offset, econtext), 0);

	if (scan->count == NULL)
		count = 1; /* EXISTS */
	scan->limit = count < 0 || count > PG_INT64_MAX - offset ? -1 : count + offset;
	scan->limit_known = true;
}

/* Rows that may be in the ring under one bound. */
static int64
bound_rows(BatchBound bound, int64 wanted, int64 n_emitted, int64 n_consumed)
{
	if (bound == BOUND_NONE || wanted < 0)
		return PG_INT64_MAX;
	if (bound == BOUND_STRICT)
		return Max(wanted - n_emitted, 1);
	return Max(Max(wanted, 1), n_consumed);
}

static int64
window_size(BatchScan *scan)
{
	int64 window = request_window();
	uint64 serial;
	uint64 run_count;

	if (scan->limit_bound != BOUND_NONE)
	{
		if (!scan->limit_known)
			limit_read(scan);
		window = Min(window,
					 bound_rows(scan->limit_bound, scan->limit, scan->n_emitted, scan->n_consumed));
	}
	if (scan->cursor_bound != BOUND_NONE)
	{
		run_count = executor_run_count(scan->css.ss.ps.state, &serial);
		if (serial != scan->run_serial)
		{
			scan->run_serial = serial;
			scan->n_in_run = 0;
		}
		/* The first run gets what it asks for; who comes again will come again. */
		if (run_count > 0 && run_count <= PG_INT32_MAX)
			window = Min(window, scan->n_emitted == scan->n_in_run
									 ? bound_rows(scan->cursor_bound, (int64) run_count,
												  scan->n_in_run, scan->n_consumed)
									 : Max((int64) run_count, scan->n_consumed));
	}
	scan->window_used = Max(scan->window_used, window);
	return window;
}

/* ---- pulling ---- */

static PulledRow *
ring_row(BatchScan *scan, int index)
{
	return &scan->ring[(scan->head + index) % scan->n_ring];
}

static void
ring_grow(BatchScan *scan)
{
	int n_ring = Max(16, scan->n_ring * 2);
	PulledRow *ring = MemoryContextAllocZero(scan->memory, sizeof(PulledRow) * n_ring);

	for (int i = 0; i < scan->n_rows; i++)
		ring[i] = *ring_row(scan, i);
	if (scan->ring != NULL)
		pfree(scan->ring);
	scan->ring = ring;
	scan->n_ring = n_ring;
	scan->head = 0;
}

/* The child's columns of a row into a slot of the scan's shape, answers NULL. */
static void
slot_fill(const BatchScan *scan, TupleTableSlot *from, TupleTableSlot *to)
{
	slot_getallattrs(from);
	ExecClearTuple(to);
	memcpy(to->tts_values, from->tts_values, scan->n_columns * sizeof(Datum));
	memcpy(to->tts_isnull, from->tts_isnull, scan->n_columns * sizeof(bool));
	memset(to->tts_isnull + scan->n_columns, true, scan->n_calls * sizeof(bool));
	ExecStoreVirtualTuple(to);
}

/* Evaluates the arguments of a call; false when the row does not ask it. */
static bool
call_evaluate(BatchScan *scan, CallState *call)
{
	ExprContext *econtext = scan->pull_context;
	bool isnull;

	if (call->guard != NULL)
	{
		Datum reached = ExecEvalExprSwitchContext(call->guard, econtext, &isnull);

		if (isnull || !DatumGetBool(reached))
			return false;
	}
	for (int i = 0; i < call->n_args; i++)
		call->values[i].value =
			ExecEvalExprSwitchContext(call->args[i], econtext, &call->values[i].isnull);
	return !call->values[0].isnull;
}

/* Asks the calls of a row that were not asked yet; false when there is no slot for one now. */
static bool
row_ask(BatchScan *scan, PulledRow *row)
{
	ExprContext *econtext = scan->pull_context;

	while (row->n_asked < scan->n_calls)
	{
		CallState *call = &scan->calls[row->n_asked];

		ResetExprContext(econtext);
		econtext->ecxt_scantuple = scan->pull_slot;
		if (call_evaluate(scan, call))
		{
			KnownAnswer known = { .type = call->result_type };
			Answer *answer;

			if (call->known != NULL)
				known.value = ExecEvalExprSwitchContext(call->known, econtext, &known.isnull);
			answer = answer_ask(scan->answers, call->function, call->values, call->n_args,
								call->known != NULL ? &known : NULL,
								answers_in_flight(scan->answers) == 0, call->is_constant);
			if (answer == NULL)
				return false;
			row->answers[row->n_asked] = answer;
		}
		row->n_asked++;
	}
	return true;
}

/* The last row of the ring may still have calls to ask; false: no room for them. */
static bool
last_row_ask(BatchScan *scan)
{
	PulledRow *row;

	if (scan->n_rows == 0)
		return true;
	row = ring_row(scan, scan->n_rows - 1);
	if (row->n_asked == scan->n_calls)
		return true;
	ExecStoreMinimalTuple(row->tuple, scan->row_slot, false);
	slot_fill(scan, scan->row_slot, scan->pull_slot);
	return row_ask(scan, row);
}

static bool
row_pull(BatchScan *scan)
{
	TupleTableSlot *slot = ExecProcNode(outerPlanState(scan));
	MemoryContext before;
	PulledRow *row;

	if (TupIsNull(slot))
	{
		scan->child_ended = true;
		return false;
	}
	if (scan->answers == NULL)
		scan->answers = answers_create(scan->memory);
	if (scan->n_rows == scan->n_ring)
		ring_grow(scan);
	row = ring_row(scan, scan->n_rows);
	row->own = AllocSetContextCreate(scan->memory, "infer batch row", ALLOCSET_SMALL_SIZES);
	before = MemoryContextSwitchTo(row->own);
	row->tuple = ExecCopySlotMinimalTuple(slot);
	row->answers = palloc0(sizeof(Answer *) * scan->n_calls);
	row->n_asked = 0;
	MemoryContextSwitchTo(before);
	scan->n_rows++;
	slot_fill(scan, slot, scan->pull_slot);
	row_ask(scan, row);
	return true;
}

/* ---- emitting ---- */

static void
row_free(BatchScan *scan, PulledRow *row)
{
	if (row->own == NULL)
		return;
	for (int i = 0; i < row->n_asked; i++)
		if (row->answers[i] != NULL)
			answer_release(row->answers[i]);
	MemoryContextDelete(row->own);
	row->own = NULL;
}

static bool
row_is_ready(const BatchScan *scan, const PulledRow *row)
{
	if (row->n_asked < scan->n_calls)
		return false;
	for (int i = 0; i < scan->n_calls; i++)
		if (row->answers[i] != NULL && !answer_is_ready(row->answers[i]))
			return false;
	return true;
}

/* Takes the head out of the ring into the scan slot. */
static void
head_take(BatchScan *scan, TupleTableSlot *slot)
{
	PulledRow *row = ring_row(scan, 0);
	MemoryContext before;

	scan->emitted = *row;
	row->own = NULL;
	scan->head = (scan->head + 1) % scan->n_ring;
	scan->n_rows--;
	scan->n_consumed++;
	row = &scan->emitted;
	ExecStoreMinimalTuple(row->tuple, scan->row_slot, false);
	slot_fill(scan, scan->row_slot, slot);
	before = MemoryContextSwitchTo(row->own);
	for (int i = 0; i < scan->n_calls; i++)
		if (row->answers[i] != NULL)
			slot->tts_values[scan->n_columns + i] =
				answer_value(row->answers[i], scan->calls[i].result_type,
							 &slot->tts_isnull[scan->n_columns + i]);
	MemoryContextSwitchTo(before);
}

/* The next row in order, its answers there, into the slot; false: no more. */
static bool
row_next(BatchScan *scan, TupleTableSlot *slot)
{
	row_free(scan, &scan->emitted);
	for (;;)
	{
		bool room;

		CHECK_FOR_INTERRUPTS();
		room = last_row_ask(scan) && !scan->child_ended && scan->n_rows < window_size(scan);
		if (room)
			room = row_pull(scan);
		if (scan->n_rows > 0 && row_is_ready(scan, ring_row(scan, 0)))
		{
			head_take(scan, slot);
			return true;
		}
		if (scan->n_rows == 0 && scan->child_ended)
			return false;
		if (!room)
			request_wait_any();
	}
}

static TupleTableSlot *
batch_scan_exec(CustomScanState *node)
{
	BatchScan *scan = (BatchScan *) node;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	while (row_next(scan, slot))
	{
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = slot;
		if (ExecQual(node->ss.ps.qual, econtext))
		{
			scan->n_emitted++;
			scan->n_in_run++;
			return projection != NULL ? ExecProject(projection) : slot;
		}
		InstrCountFiltered1(node, 1);
	}
	ExecClearTuple(slot);
	return projection != NULL ? ExecClearTuple(projection->pi_state.resultslot) : slot;
}

/* ---- the end, and again ---- */

void
batch_counts_add(AnswerCounts *to, const AnswerCounts *from)
{
	to->n_requests += from->n_requests;
	to->n_merged += from->n_merged;
	to->n_failed += from->n_failed;
	to->prompt_tokens += from->prompt_tokens;
	to->cached_tokens += from->cached_tokens;
	to->output_tokens += from->output_tokens;
	to->queue_us += from->queue_us;
	to->prefill_us += from->prefill_us;
	to->decode_us += from->decode_us;
	to->max_in_flight = Max(to->max_in_flight, from->max_in_flight);
}

/* Cancels what is in flight and forgets all rows. */
static void
rows_drop(BatchScan *scan)
{
	ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	ExecClearTuple(scan->pull_slot);
	ExecClearTuple(scan->row_slot);
	if (scan->answers != NULL)
		batch_counts_add(&scan->counts_before, answers_counts(scan->answers));
	MemoryContextReset(scan->memory);
	scan->answers = NULL;
	scan->ring = NULL;
	scan->n_ring = scan->head = scan->n_rows = 0;
	scan->emitted.own = NULL;
	scan->child_ended = false;
	scan->limit_known = false;
	scan->n_consumed = scan->n_emitted = scan->n_in_run = 0;
}

static void
batch_scan_rescan(CustomScanState *node)
{
	rows_drop((BatchScan *) node);
	if (outerPlanState(node)->chgParam == NULL)
		ExecReScan(outerPlanState(node));
}

static void
batch_scan_end(CustomScanState *node)
{
	BatchScan *scan = (BatchScan *) node;

	rows_drop(scan);
	FreeExprContext(scan->pull_context, true);
	ExecEndNode(outerPlanState(node));
}
