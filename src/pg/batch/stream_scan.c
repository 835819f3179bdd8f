/*
 * "Infer Stream": a set-returning function of ours in FROM, whose rows go up as soon as they are
 * there. A Function Scan would first collect them all.
 *
 * The function runs value-per-call, as in a target list: it flushes what is ready to the client and
 * waits by itself (stream.c). Rows are kept in a tuplestore as they pass, because a Function Scan
 * promises that too: a rescan without a new argument reads the same rows again and does not run the
 * model again, and cursors may go backward.
 */
#include "postgres.h"

#include "batch.h"

#include "access/htup_details.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "parser/parsetree.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/tuplestore.h"

typedef struct StreamScan
{
	CustomScanState css;

	/* Config */
	Index range_index;	 /* of the function in the range table, for EvalPlanQual */
	bool has_ordinality; /* the last column counts the rows */
	Bitmapset *params;	 /* PARAM_EXEC ids that the call depends on */
	TupleDesc row_type;	 /* of the function */

	/* State */
	SetExprState *call;
	ExprContext *call_context;
	MemoryContext argument_context; /* arguments live as long as the call goes on */
	Tuplestorestate *rows;			/* all that came so far */
	TupleTableSlot *stored_row;
	int64 n_rows;
	bool call_ended;
} StreamScan;

static Node *stream_scan_create_state(CustomScan *plan);
static void stream_scan_begin(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *stream_scan_exec(CustomScanState *node);
static void stream_scan_end(CustomScanState *node);
static void stream_scan_rescan(CustomScanState *node);
static void stream_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomScanMethods stream_scan_methods = {
	.CustomName = "Infer Stream",
	.CreateCustomScanState = stream_scan_create_state,
};

static const CustomExecMethods stream_exec_methods = {
	.CustomName = "Infer Stream",
	.BeginCustomScan = stream_scan_begin,
	.ExecCustomScan = stream_scan_exec,
	.EndCustomScan = stream_scan_end,
	.ReScanCustomScan = stream_scan_rescan,
	.ExplainCustomScan = stream_scan_explain,
};

/* ---- plan: custom_private = ((range index, has ordinality), (param ids)) ---- */

typedef struct VarContext
{
	Index range_index;
	List *scan_tlist;
	List *column_names;
} VarContext;

/* The whole row of a function is a record of its columns, under the names of the FROM item. */
static Node *
row_make(const VarContext *context)
{
	RowExpr *row = makeNode(RowExpr);
	ListCell *cell;

	foreach (cell, context->scan_tlist)
	{
		Var *column = (Var *) copyObject(((TargetEntry *) lfirst(cell))->expr);

		column->varattno = foreach_current_index(cell) + 1;
		column->varno = INDEX_VAR;
		row->args = lappend(row->args, column);
	}
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->colnames = copyObject(context->column_names);
	row->location = -1;
	return (Node *) row;
}

static Node *
var_translate(Node *node, void *argument)
{
	const VarContext *context = argument;
	Var *var;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var) || ((Var *) node)->varno != context->range_index)
		return expression_tree_mutator(node, var_translate, argument);
	if (((Var *) node)->varattno == 0)
		return row_make(context);
	var = copyObject((Var *) node);
	var->varno = INDEX_VAR;
	return (Node *) var;
}

static List *
scan_tlist_make(Index range_index, TupleDesc row_type, bool has_ordinality)
{
	List *tlist = NIL;
	int n_columns = row_type->natts + (has_ordinality ? 1 : 0);

	for (int i = 0; i < n_columns; i++)
	{
		bool is_ordinality = i == row_type->natts;
		Form_pg_attribute column = is_ordinality ? NULL : TupleDescAttr(row_type, i);
		Var *var = is_ordinality ? makeVar(range_index, i + 1, INT8OID, -1, InvalidOid, 0)
								 : makeVar(range_index, i + 1, column->atttypid, column->atttypmod,
										   column->attcollation, 0);

		tlist = lappend(tlist, makeTargetEntry((Expr *) var, i + 1, NULL, false));
	}
	return tlist;
}

static List *
param_list(const Bitmapset *params)
{
	List *ids = NIL;
	int id = -1;

	while ((id = bms_next_member(params, id)) >= 0)
		ids = lappend_int(ids, id);
	return ids;
}

/* The call when the scan is one of a single function of ours that returns rows of a known type. */
static FuncExpr *
stream_call(const FunctionScan *scan, TupleDesc *row_type)
{
	RangeTblFunction *function = linitial(scan->functions);
	FuncExpr *call = (FuncExpr *) function->funcexpr;
	Oid type;

	if (list_length(scan->functions) != 1 || !IsA(call, FuncExpr) ||
		function_role(call->funcid) != FUNCTION_STREAM ||
		get_expr_result_type((Node *) call, &type, row_type) != TYPEFUNC_COMPOSITE ||
		function->funccolcount != (*row_type)->natts)
		return NULL;
	return call;
}

Plan *
stream_scan_rule(PlanRewrite *rewrite, Plan *node)
{
	FunctionScan *scan = (FunctionScan *) node;
	RangeTblEntry *entry;
	VarContext context;
	CustomScan *custom;
	TupleDesc row_type;
	FuncExpr *call;

	if (!IsA(node, FunctionScan) || (call = stream_call(scan, &row_type)) == NULL)
		return node;
	entry = rt_fetch(scan->scan.scanrelid, rewrite->statement->rtable);
	context.range_index = scan->scan.scanrelid;
	context.scan_tlist = scan_tlist_make(scan->scan.scanrelid, row_type, scan->funcordinality);
	context.column_names = entry->eref->colnames;

	custom = makeNode(CustomScan);
	plan_inherit(&custom->scan.plan, node);
	custom->scan.plan.targetlist = (List *) var_translate((Node *) node->targetlist, &context);
	custom->scan.plan.qual = (List *) var_translate((Node *) node->qual, &context);
	custom->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
	custom->custom_scan_tlist = context.scan_tlist;
	custom->custom_relids = bms_make_singleton(scan->scan.scanrelid);
	custom->custom_exprs = list_make1(call);
	custom->custom_private =
		list_make2(list_make2_int(scan->scan.scanrelid, scan->funcordinality),
				   param_list(linitial_node(RangeTblFunction, scan->functions)->funcparams));
	custom->methods = &stream_scan_methods;
	rewrite->n_rewritten++;
	return &custom->scan.plan;
}

void
stream_scan_register(void)
{
	RegisterCustomScanMethods(&stream_scan_methods);
}

/* ---- execution ---- */

static Node *
stream_scan_create_state(CustomScan *plan)
{
	StreamScan *scan = (StreamScan *) newNode(sizeof(StreamScan), T_CustomScanState);

	scan->css.methods = &stream_exec_methods;
	return (Node *) scan;
}

/* Initialising the call checks the caller's EXECUTE privilege, as a Function Scan would. */
static void
stream_scan_begin(CustomScanState *node, EState *estate, int eflags)
{
	StreamScan *scan = (StreamScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List *place = linitial(plan->custom_private);
	FuncExpr *call = linitial(plan->custom_exprs);
	ListCell *cell;
	Oid type;

	scan->range_index = linitial_int(place);
	scan->has_ordinality = lsecond_int(place) != 0;
	foreach (cell, (List *) lsecond(plan->custom_private))
		scan->params = bms_add_member(scan->params, lfirst_int(cell));
	if (get_expr_result_type((Node *) call, &type, &scan->row_type) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "function %u does not return rows", call->funcid);

	/* A context of its own: a rescan resets the node's, and the call may go on behind it. */
	scan->call_context = CreateExprContext(estate);
	scan->call = ExecInitFunctionResultSet((Expr *) call, scan->call_context, &node->ss.ps);
	scan->stored_row = ExecInitExtraTupleSlot(
		estate, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsMinimalTuple);
	scan->argument_context =
		AllocSetContextCreate(CurrentMemoryContext, "infer stream arguments", ALLOCSET_SMALL_SIZES);
}

/* The next row of the function into the scan slot; false at its end. */
static bool
stream_call_next(StreamScan *scan, TupleTableSlot *slot)
{
	ExprContext *econtext = scan->call_context;
	MemoryContext old;
	HeapTupleData tuple;
	ExprDoneCond done;
	bool is_null;
	Datum row;

	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	row = ExecMakeFunctionResultSet(scan->call, econtext, scan->argument_context, &is_null, &done);
	MemoryContextSwitchTo(old);
	ExecClearTuple(slot);
	if (done == ExprEndResult)
		return false;
	if (done == ExprSingleResult) /* no set function in spite of its declaration */
		elog(ERROR, "function did not return a set");

	if (is_null)
		memset(slot->tts_isnull, true, scan->row_type->natts * sizeof(bool));
	else
	{
		HeapTupleHeader header = DatumGetHeapTupleHeader(row);

		if (HeapTupleHeaderGetNatts(header) != scan->row_type->natts)
			elog(ERROR, "function returned a row of %d columns instead of %d",
				 (int) HeapTupleHeaderGetNatts(header), scan->row_type->natts);
		tuple.t_len = HeapTupleHeaderGetDatumLength(header);
		ItemPointerSetInvalid(&tuple.t_self);
		tuple.t_tableOid = InvalidOid;
		tuple.t_data = header;
		heap_deform_tuple(&tuple, scan->row_type, slot->tts_values, slot->tts_isnull);
	}
	scan->n_rows++;
	if (scan->has_ordinality)
	{
		slot->tts_values[scan->row_type->natts] = Int64GetDatum(scan->n_rows);
		slot->tts_isnull[scan->row_type->natts] = false;
	}
	ExecStoreVirtualTuple(slot);
	return true;
}

/* The scan slot is virtual, as the node's expressions are compiled for that; the values stay where
 * the store has them. */
static bool
stream_store_next(StreamScan *scan, TupleTableSlot *slot, bool forward)
{
	TupleTableSlot *stored = scan->stored_row;
	int n_columns = slot->tts_tupleDescriptor->natts;

	if (!tuplestore_gettupleslot(scan->rows, forward, false, stored))
		return false;
	slot_getallattrs(stored);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, stored->tts_values, n_columns * sizeof(Datum));
	memcpy(slot->tts_isnull, stored->tts_isnull, n_columns * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	return true;
}

/*
 * The next row in the direction of the executor: out of the store, else from the call, through the
 * store. A reader that turns round at the end of the store has its last row in hand already.
 */
static bool
stream_row_next(StreamScan *scan, TupleTableSlot *slot, bool forward)
{
	if (!forward && tuplestore_ateof(scan->rows) && !scan->call_ended &&
		!tuplestore_advance(scan->rows, false))
		return false;
	if (stream_store_next(scan, slot, forward))
		return true;
	if (!forward || scan->call_ended)
		return false;
	if (!stream_call_next(scan, slot))
	{
		scan->call_ended = true;
		return false;
	}
	tuplestore_puttupleslot(scan->rows, slot); /* being at the end, the reader moves behind it */
	return true;
}

/*
 * While a concurrent update is rechecked, the row is the one that was joined then: it travels in
 * the row mark. True when that is the case; *found says whether there is one.
 */
static bool
stream_row_recheck(StreamScan *scan, TupleTableSlot *slot, bool *found)
{
	EPQState *recheck = scan->css.ss.ps.state->es_epq_active;
	int index = (int) scan->range_index - 1;

	if (recheck == NULL || recheck->relsubs_rowmark[index] == NULL)
		return false;
	*found =
		!recheck->relsubs_done[index] && EvalPlanQualFetchRowMark(recheck, scan->range_index, slot);
	recheck->relsubs_done[index] = true;
	return true;
}

static bool
stream_scan_fetch(StreamScan *scan, TupleTableSlot *slot)
{
	EState *estate = scan->css.ss.ps.state;
	bool found;

	if (stream_row_recheck(scan, slot, &found))
		return found;
	if (scan->rows == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

		scan->rows = tuplestore_begin_heap(true, false, work_mem);
		MemoryContextSwitchTo(old);
	}
	return stream_row_next(scan, slot, ScanDirectionIsForward(estate->es_direction));
}

static TupleTableSlot *
stream_scan_exec(CustomScanState *node)
{
	StreamScan *scan = (StreamScan *) node;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (!stream_scan_fetch(scan, slot))
			break;
		econtext->ecxt_scantuple = slot;
		if (ExecQual(node->ss.ps.qual, econtext))
			return projection != NULL ? ExecProject(projection) : slot;
		InstrCountFiltered1(node, 1);
	}
	ExecClearTuple(slot);
	return projection != NULL ? ExecClearTuple(projection->pi_state.resultslot) : slot;
}

/* Ends the call, which gives up its request, and forgets its rows. */
static void
stream_call_drop(StreamScan *scan)
{
	ReScanExprContext(scan->call_context);
	MemoryContextReset(scan->argument_context);
	ExecClearTuple(scan->stored_row); /* it points into the store */
	if (scan->rows != NULL)
		tuplestore_end(scan->rows);
	scan->rows = NULL;
	scan->n_rows = 0;
	scan->call_ended = false;
}

static void
stream_scan_rescan(CustomScanState *node)
{
	StreamScan *scan = (StreamScan *) node;

	if (bms_overlap(node->ss.ps.chgParam, scan->params))
		stream_call_drop(scan);
	else if (scan->rows != NULL)
		tuplestore_rescan(scan->rows);
}

static void
stream_scan_end(CustomScanState *node)
{
	StreamScan *scan = (StreamScan *) node;

	stream_call_drop(scan);
	FreeExprContext(scan->call_context, true);
}

static void
stream_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List *context;
	char *call;

	if (!es->verbose)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	call = deparse_expression(linitial(plan->custom_exprs), context, es->verbose, false);
	ExplainPropertyText("Function Call", call, es);
}
