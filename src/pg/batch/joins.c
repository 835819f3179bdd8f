/*
 * joins.c: what would cut a pipeline into pieces. A node that is started anew for each outer row,
 * or once for each partition, has one row in flight at its end; these rules put one node where
 * there were many, above what repeats.
 *
 * In all of them an expression of the old node is rebuilt in terms of what lies below the new one.
 * A call is the same FuncExpr, by address, wherever it is referred to: it stays one call.
 */
#include "postgres.h"

#include "batch.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

/* ---- volatile, apart from our calls ---- */

static bool
is_volatile_of_others(Oid function, void *context)
{
	return func_volatile(function) == PROVOLATILE_VOLATILE &&
		   function_role(function) != FUNCTION_BATCH;
}

/* What may not be evaluated twice, or fewer times. A SubPlan may hold anything. */
static bool
volatile_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, NextValueExpr) ||
		check_functions_in_node(node, is_volatile_of_others, context))
		return true;
	return expression_tree_walker(node, volatile_walker, context);
}

/* ---- one expression in the terms of another node ---- */

typedef struct RebuildContext
{
	Index varno;	   /* Vars of this one, which are columns of a node that goes, */
	List *expressions; /* are these */
	List *nest_params; /* NestLoopParam: Params of the inner side are Vars of the outer */
} RebuildContext;

static Node *
rebuild(Node *node, void *argument)
{
	const RebuildContext *context = argument;
	ListCell *cell;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == context->varno)
		return list_nth(context->expressions, ((Var *) node)->varattno - 1);
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
	{
		foreach (cell, context->nest_params)
		{
			NestLoopParam *param = lfirst(cell);

			if (param->paramno == ((Param *) node)->paramid)
				return (Node *) copyObject(param->paramval);
		}
	}
	return expression_tree_mutator(node, rebuild, argument);
}

static List *
entry_expressions(const List *tlist)
{
	List *expressions = NIL;
	ListCell *cell;

	foreach (cell, tlist)
		expressions = lappend(expressions, ((TargetEntry *) lfirst(cell))->expr);
	return expressions;
}

List *
columns_replace(List *expressions, Index varno, List *targetlist)
{
	RebuildContext context = { varno, entry_expressions(targetlist), NIL };

	return (List *) rebuild((Node *) expressions, &context);
}

/* Columns of a node of ours as its own expressions name them: the child's, then the calls. */
static List *
scan_expressions(const CustomScan *batch, List *columns, List *calls)
{
	List *expressions = list_copy(columns);
	ListCell *cell;

	Assert(list_length(columns) == list_nth_int(linitial(batch->custom_private), BATCH_N_COLUMNS));
	foreach (cell, calls)
		expressions = lappend(expressions, ((BatchCall *) lfirst(cell))->call);
	return expressions;
}

/* The calls of a node of ours, rebuilt over `columns`, which stand for its child's. */
static List *
calls_rebuild(const CustomScan *batch, List *columns, List *nest_params)
{
	RebuildContext context = { INDEX_VAR, columns, nest_params };
	int n_columns = list_nth_int(linitial(batch->custom_private), BATCH_N_COLUMNS);
	int n_calls = list_nth_int(linitial(batch->custom_private), BATCH_N_CALLS);
	List *calls = NIL;

	for (int i = 0; i < n_calls; i++)
	{
		TargetEntry *entry = list_nth(batch->custom_scan_tlist, n_columns + i);
		List *expressions = list_nth(batch->custom_exprs, i);
		BatchCall *call = palloc0(sizeof(*call));

		call->call = (FuncExpr *) copyObject(entry->expr);
		call->call->args = (List *) rebuild(linitial(expressions), &context);
		call->guard = (Expr *) rebuild(lsecond(expressions), &context);
		call->known = (Expr *) rebuild(lthird(expressions), &context);
		calls = lappend(calls, call);
	}
	return calls;
}

/* Plain columns 1 .. n of a child, under the names that they have there. */
static List *
columns_named(Index varno, const Plan *child)
{
	List *columns = NIL;
	ListCell *cell;

	foreach (cell, child->targetlist)
		columns = lappend(columns, column_var(varno, foreach_current_index(cell),
											  ((TargetEntry *) lfirst(cell))->expr));
	return columns;
}

static List *
entries_of(List *expressions)
{
	List *tlist = NIL;
	ListCell *cell;

	foreach (cell, expressions)
		tlist = lappend(tlist, makeTargetEntry(copyObject(lfirst(cell)),
											   foreach_current_index(cell) + 1, NULL, false));
	return tlist;
}

/* ---- rule: a sub-select of one expression, for each row ----
 *
 *     P: (SubPlan over Result: gen($0))     P: gen(a)
 *        with $0 = a
 */

static Node *
inline_mutator(Node *node, void *argument)
{
	PlanRewrite *rewrite = argument;

	if (node == NULL)
		return NULL;
	if (IsA(node, SubPlan))
	{
		const SubPlan *subplan = (SubPlan *) node;
		Plan *plan = list_nth(rewrite->statement->subplans, subplan->plan_id - 1);
		bool is_plain = subplan->subLinkType == EXPR_SUBLINK && IsA(plan, Result) &&
						plan->lefttree == NULL && plan->initPlan == NIL &&
						((Result *) plan)->resconstantqual == NULL &&
						list_length(plan->targetlist) == 1 && subplan->setParam == NIL;
		List *params = NIL;
		ListCell *cell;

		foreach (cell, subplan->args)
		{
			NestLoopParam *param = makeNode(NestLoopParam);

			is_plain = is_plain && IsA(lfirst(cell), Var);
			param->paramno = list_nth_int(subplan->parParam, foreach_current_index(cell));
			param->paramval = lfirst(cell);
			params = lappend(params, param);
		}
		if (is_plain && calls_exist((Node *) plan->targetlist))
		{
			RebuildContext context = { 0, NIL, params };

			return rebuild((Node *) linitial_node(TargetEntry, plan->targetlist)->expr, &context);
		}
		return node;
	}
	return expression_tree_mutator(node, inline_mutator, argument);
}

static bool
subplan_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, SubPlan) || expression_tree_walker(node, subplan_walker, context);
}

Plan *
sub_select_rule(PlanRewrite *rewrite, Plan *node)
{
	if (subplan_walker((Node *) node->targetlist, NULL))
		node->targetlist = (List *) inline_mutator((Node *) node->targetlist, rewrite);
	if (subplan_walker((Node *) node->qual, NULL))
		node->qual = (List *) inline_mutator((Node *) node->qual, rewrite);
	return node;
}

/* ---- rule: a call for each outer row ----
 *
 *     Nested Loop: a, upper($i)                 Infer Batch: a, upper($2)       $2 = gen(a)
 *     -> O: a                                   -> O: a
 *     -> Result: $i = gen($0), with $0 = a
 *
 * The inner side is a Result without child or a Function Scan of one plain call, or a sub-select of
 * one with a filter: one row, or none.
 */

/* Column `var` of a function that returns rows, of the one call. */
static Expr *
field_of(Expr *call, const Var *var)
{
	FieldSelect *field = makeNode(FieldSelect);

	field->arg = call;
	field->fieldnum = var->varattno;
	field->resulttype = var->vartype;
	field->resulttypmod = var->vartypmod;
	field->resultcollid = var->varcollid;
	return (Expr *) field;
}

/* A function scan of one plain call: its columns are the call, or fields of the row it returns. */
static bool
function_expressions(const FunctionScan *scan, List *nest_params, List **expressions)
{
	const RangeTblFunction *function = linitial(scan->functions);
	RebuildContext params = { 0, NIL, nest_params };
	Expr *call;
	ListCell *cell;

	if (list_length(scan->functions) != 1 || scan->funcordinality ||
		!IsA(function->funcexpr, FuncExpr) || ((FuncExpr *) function->funcexpr)->funcretset)
		return false;
	call = (Expr *) rebuild(function->funcexpr, &params);
	foreach (cell, scan->scan.plan.targetlist)
	{
		const Var *column = (const Var *) ((TargetEntry *) lfirst(cell))->expr;
		Oid type = exprType((Node *) call);

		if (!IsA(column, Var) || column->varattno < 1)
			return false;
		*expressions =
			lappend(*expressions,
					type == RECORDOID || type_is_rowtype(type) ? field_of(call, column) : call);
	}
	return true;
}

/*
 * What the columns of such an inner side are made of, in the outer side's terms, and the clauses on
 * them; false: it is another one. What a clause and a column share is one expression, by address.
 */
static bool
single_row_expressions(const Plan *inner, List *nest_params, List **expressions, List **quals)
{
	RebuildContext context = { 0, NIL, nest_params };

	if (inner->initPlan != NIL)
		return false;
	if (IsA(inner, SubqueryScan))
	{
		const SubqueryScan *scan = (const SubqueryScan *) inner;

		context.varno = scan->scan.scanrelid;
		if (IsA(scan->subplan, SubqueryScan) ||
			!single_row_expressions(scan->subplan, nest_params, &context.expressions, quals))
			return false;
		*expressions = (List *) rebuild((Node *) entry_expressions(inner->targetlist), &context);
		*quals = (List *) rebuild((Node *) inner->qual, &context);
		return true;
	}
	if (inner->qual != NIL)
		return false;
	if (IsA(inner, FunctionScan))
		return function_expressions((const FunctionScan *) inner, nest_params, expressions);
	if (!IsA(inner, Result) || inner->lefttree != NULL ||
		((const Result *) inner)->resconstantqual != NULL)
		return false;
	*expressions = (List *) rebuild((Node *) entry_expressions(inner->targetlist), &context);
	return true;
}

Plan *
single_row_rule(PlanRewrite *rewrite, Plan *node)
{
	NestLoop *loop = (NestLoop *) node;
	RebuildContext inner = { INNER_VAR, NIL, NIL };
	List *calls = NIL;
	List *quals = NIL;
	Plan *batch;

	if (!IsA(node, NestLoop) ||
		!(loop->join.jointype == JOIN_INNER || loop->join.jointype == JOIN_LEFT) ||
		!single_row_expressions(node->righttree, loop->nestParams, &inner.expressions, &quals) ||
		(loop->join.jointype == JOIN_LEFT && (loop->join.joinqual != NIL || quals != NIL)) ||
		volatile_walker((Node *) inner.expressions, NULL))
		return node;
	calls_collect((Node *) inner.expressions, false, &calls);
	if (calls == NIL)
		return node;
	quals = list_concat(
		quals,
		(List *) rebuild((Node *) list_concat_copy(loop->join.joinqual, node->qual), &inner));
	node->lefttree->initPlan = list_concat(node->initPlan, node->lefttree->initPlan);
	batch = &batch_node_make(rewrite, node->lefttree, columns_named(OUTER_VAR, node->lefttree),
							 calls, (List *) rebuild((Node *) node->targetlist, &inner), quals)
				 ->scan.plan;
	/* of the join, whose inner side may have parameters that the outer does not know */
	batch->extParam = bms_union(batch->extParam, node->extParam);
	batch->allParam = bms_union(batch->allParam, node->allParam);
	return batch;
}

/* ---- rule: a pipeline for each outer row ----
 *
 *     Nested Loop: a, $g                        Infer Batch: a, $3              $3 = gen(b)
 *     -> O: a                                   -> Nested Loop: a, b
 *     -> Infer Batch: $g = gen(b)                  -> O: a
 *        -> P: b, with b.x = $0                    -> P: b, with b.x = $0
 *
 * Inner joins only. Clauses of the join that read no answer stay in it, unless the node filters:
 * its clauses came first, and they may be what guards the others.
 */

static bool
reads_columns_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && list_member_ptr((List *) context, node))
		return true;
	return expression_tree_walker(node, reads_columns_walker, context);
}

/* Clauses that read no answer, which stay; the others go to *moved. */
static List *
clauses_part(List *clauses, List *calls, List **moved)
{
	List *functions = NIL;
	List *kept = NIL;
	ListCell *cell;

	foreach (cell, calls)
		functions = lappend(functions, ((BatchCall *) lfirst(cell))->call);
	foreach (cell, clauses)
	{
		if (*moved == NIL && !reads_columns_walker(lfirst(cell), functions))
			kept = lappend(kept, lfirst(cell));
		else
			*moved = lappend(*moved, lfirst(cell));
	}
	return kept;
}

Plan *
inner_pipeline_rule(PlanRewrite *rewrite, Plan *node)
{
	NestLoop *loop = (NestLoop *) node;
	CustomScan *batch = (CustomScan *) node->righttree;
	RebuildContext scan = { INDEX_VAR, NIL, NIL };
	RebuildContext inner = { INNER_VAR, NIL, NIL };
	List *inner_columns, *columns, *calls, *quals;
	List *moved;
	List *targetlist;

	if (!IsA(node, NestLoop) || loop->join.jointype != JOIN_INNER ||
		!plan_is_batch(node->righttree) || batch->scan.plan.initPlan != NIL ||
		volatile_walker((Node *) batch->scan.plan.targetlist, NULL))
		return node;
	inner_columns = columns_named(INNER_VAR, batch->scan.plan.lefttree);
	columns = list_concat(columns_named(OUTER_VAR, node->lefttree), inner_columns);
	calls = calls_rebuild(batch, inner_columns, loop->nestParams);
	scan.expressions = scan_expressions(batch, inner_columns, calls);
	scan.nest_params = loop->nestParams;
	inner.expressions =
		(List *) rebuild((Node *) entry_expressions(batch->scan.plan.targetlist), &scan);
	moved = (List *) rebuild((Node *) batch->scan.plan.qual, &scan);
	quals = (List *) rebuild((Node *) list_concat_copy(loop->join.joinqual, node->qual), &inner);
	targetlist = (List *) rebuild((Node *) node->targetlist, &inner);
	if (moved == NIL)
		quals = clauses_part(quals, calls, &moved);
	else
	{
		moved = list_concat(moved, quals);
		quals = NIL;
	}
	loop->join.joinqual = quals;
	loop->join.inner_unique = loop->join.inner_unique && moved == NIL;
	node->qual = NIL;
	node->targetlist = entries_of(columns);
	node->righttree = batch->scan.plan.lefttree;
	/* what was below may be a node of ours too; its columns stay where they are */
	node = inner_pipeline_rule(rewrite, node);
	return &batch_node_make(rewrite, node, columns, calls, targetlist, moved)->scan.plan;
}

/* ---- rule: a pipeline for each partition ----
 *
 *     Append                                    Infer Batch: gen(a)
 *     -> Infer Batch: gen(a)                    -> Append
 *        -> P1: a                                  -> P1: a
 *     -> Infer Batch: gen(a)                       -> P2: a
 *        -> P2: a
 */

static bool
columns_match(const Plan *a, const Plan *b)
{
	ListCell *x, *y;

	if (list_length(a->targetlist) != list_length(b->targetlist))
		return false;
	forboth (x, a->targetlist, y, b->targetlist)
	{
		const Node *first = (const Node *) ((TargetEntry *) lfirst(x))->expr;
		const Node *second = (const Node *) ((TargetEntry *) lfirst(y))->expr;

		if (exprType(first) != exprType(second) || exprTypmod(first) != exprTypmod(second) ||
			exprCollation(first) != exprCollation(second))
			return false;
	}
	return true;
}

static bool
nodes_match(const CustomScan *a, const CustomScan *b)
{
	return equal(a->custom_scan_tlist, b->custom_scan_tlist) &&
		   equal(a->custom_exprs, b->custom_exprs) && equal(a->custom_private, b->custom_private) &&
		   equal(a->scan.plan.qual, b->scan.plan.qual) &&
		   equal(entry_expressions(a->scan.plan.targetlist),
				 entry_expressions(b->scan.plan.targetlist)) &&
		   columns_match(a->scan.plan.lefttree, b->scan.plan.lefttree);
}

Plan *
append_rule(PlanRewrite *rewrite, Plan *node)
{
	Append *append = (Append *) node;
	CustomScan *batch;
	List *labels = node->targetlist;
	ListCell *cell, *label;

	if (!IsA(node, Append) || append->appendplans == NIL ||
		!plan_is_batch(linitial(append->appendplans)))
		return node;
	batch = linitial(append->appendplans);
	foreach (cell, append->appendplans)
	{
		Plan *child = lfirst(cell);

		if (!plan_is_batch(child) || child->initPlan != NIL ||
			list_length(child->targetlist) != list_length(labels) ||
			!nodes_match(batch, (CustomScan *) child))
			return node;
	}
	foreach (cell, append->appendplans)
		lfirst(cell) = ((Plan *) lfirst(cell))->lefttree;
	node->targetlist = entries_of(columns_named(OUTER_VAR, linitial(append->appendplans)));
	plan_inherit(&batch->scan.plan, node);
	batch->scan.plan.plan_node_id = rewrite->next_node_id++;
	node->initPlan = NIL;
	/* a partition's own list knows nothing of junk and sort columns */
	forboth (cell, batch->scan.plan.targetlist, label, labels)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst(label));

		entry->expr = ((TargetEntry *) lfirst(cell))->expr;
		lfirst(cell) = entry;
	}
	batch->scan.plan.lefttree = append_rule(rewrite, node);
	return &batch->scan.plan;
}

/* ---- rule: rows that OFFSET skips ----
 *
 *     Limit                                     Infer Batch: gen(a)
 *     -> Infer Batch: gen(a)                    -> Limit
 *        -> P: a                                   -> P: a
 *
 * Not where the node filters, and not where something else in its list would no longer be
 * evaluated for the rows that are skipped.
 */
Plan *
limit_rule(PlanRewrite *rewrite, Plan *node)
{
	Plan *batch = node->lefttree;

	if (!IsA(node, Limit) || !plan_is_batch(batch) || batch->qual != NIL ||
		((Limit *) node)->limitOption == LIMIT_OPTION_WITH_TIES ||
		volatile_walker((Node *) batch->targetlist, NULL))
		return node;
	node->lefttree = batch->lefttree;
	node->targetlist = entries_of(columns_named(OUTER_VAR, node->lefttree));
	batch->plan_rows = node->plan_rows;
	batch->startup_cost = node->startup_cost;
	batch->total_cost = node->total_cost;
	batch->initPlan = list_concat(node->initPlan, batch->initPlan);
	batch->extParam = bms_union(batch->extParam, node->extParam);
	batch->allParam = bms_union(batch->allParam, node->allParam);
	node->initPlan = NIL;
	batch->lefttree = limit_rule(rewrite, node);
	return batch;
}
