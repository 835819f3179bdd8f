/*
 * rules.c: splits a node that computes calls. The rules are tried until none applies, so that
 * calls whose arguments hold calls become a stack of nodes, each with its pipeline full.
 */
#include "postgres.h"

#include "batch.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

/* ---- what is split ---- */

/* Nodes that can compute any target list: what they hand up may be cut down to plain columns. */
static bool
node_projects(const Plan *node)
{
	switch (nodeTag(node))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
#if PG_VERSION_NUM >= 140000
		case T_TidRangeScan:
#endif
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_TableFuncScan:
		case T_CteScan:
		case T_NamedTuplestoreScan:
		case T_WorkTableScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Agg:
		case T_Group:
		case T_WindowAgg:
		case T_Gather:
		case T_GatherMerge:
			return true;
		case T_ForeignScan: /* an UPDATE that runs over there has no rows to pull */
			return ((const ForeignScan *) node)->operation == CMD_SELECT;
		case T_Result: /* PL/pgSQL's simple expressions demand a bare Result */
			return node->lefttree != NULL;
		case T_CustomScan: /* those of others are closed to us */
			return plan_is_batch(node);
		default:
			return false;
	}
}

static bool
columns_walker(Node *node, void *argument)
{
	List **columns = argument;

	if (node == NULL)
		return false;
	if (IsA(node, Var) || IsA(node, Aggref) || IsA(node, WindowFunc) || IsA(node, GroupingFunc))
	{
		*columns = list_append_unique(*columns, node);
		return false;
	}
	return expression_tree_walker(node, columns_walker, argument);
}

/* The columns that the target list and the clauses are made of. */
static List *
columns_of(List *targetlist, List *qual)
{
	List *columns = NIL;

	columns_walker((Node *) targetlist, &columns);
	columns_walker((Node *) qual, &columns);
	return columns;
}

static List *
columns_tlist(List *columns)
{
	List *tlist = NIL;
	ListCell *cell;

	foreach (cell, columns)
		tlist = lappend(tlist, makeTargetEntry(copyObject(lfirst(cell)),
											   foreach_current_index(cell) + 1, NULL, false));
	return tlist;
}

/*
 * Calls that a node of ours below has asked already, for the rows that passed its filter: equal
 * arguments (given in that node's own terms), and asked of every row. Their answers are columns of
 * its scan; whether one may be taken (only if the call is deterministic) is known when it runs.
 */
static void
calls_know(const CustomScan *below, const BatchCall *call, List *args, Var **known)
{
	int n_columns = list_nth_int(linitial(below->custom_private), BATCH_N_COLUMNS);
	int n_calls = list_nth_int(linitial(below->custom_private), BATCH_N_CALLS);

	for (int k = 0; k < n_calls && *known == NULL; k++)
	{
		const TargetEntry *entry = list_nth(below->custom_scan_tlist, n_columns + k);
		const List *expressions = list_nth(below->custom_exprs, k);

		if (((const FuncExpr *) entry->expr)->funcid == call->call->funcid &&
			lsecond(expressions) == NULL && equal(linitial(expressions), args))
			*known = column_var(INDEX_VAR, n_columns + k, entry->expr);
	}
}

/* The node computes plain columns, a new one above it the target list and the clauses given. */
static Plan *
node_split(PlanRewrite *rewrite, Plan *node, List *calls, List *qual)
{
	List *targetlist = node->targetlist;
	List *columns = columns_of(targetlist, qual);
	ListCell *cell;

	foreach (cell, calls)
	{
		BatchCall *call = lfirst(cell);
		Var *known = NULL;

		if (!plan_is_batch(node))
			break;
		calls_know((const CustomScan *) node, call, call->call->args, &known);
		call->known = (Expr *) known;
		columns_walker((Node *) known, &columns);
	}

	node->targetlist = columns_tlist(columns);
	return &batch_node_make(rewrite, node, columns, calls, targetlist, qual)->scan.plan;
}

/* ---- rule: target list ----
 *
 *     P: gen(a) || b                Infer Batch: $3 || $2      $3 = gen($1)
 *                                   -> P: a, b
 */
static Plan *
target_list_rule(PlanRewrite *rewrite, Plan *node)
{
	List *calls = NIL;

	calls_collect((Node *) node->targetlist, false, &calls);
	return calls == NIL ? node : node_split(rewrite, node, calls, NIL);
}

/* ---- rule: qual ----
 *
 *     P: qual  c1 AND gen(a) = 'y' AND c2      Infer Batch: qual  $2 = 'y' AND c2
 *                                              -> P: qual  c1
 *
 * Clauses are ordered by security level and cost: those behind the first with a call move up with
 * it, in order, so that a leaky function never runs before the clause that guards it.
 */

/* Cuts the list at the first clause with a call that can be taken; *moved gets it and the rest. */
static List *
qual_cut(List *clauses, List **moved, List **calls)
{
	ListCell *cell;

	foreach (cell, clauses)
	{
		int index = foreach_current_index(cell);

		calls_collect(lfirst(cell), false, calls);
		if (*calls != NIL)
		{
			*moved = list_copy_tail(clauses, index);
			return list_truncate(list_copy(clauses), index);
		}
	}
	return clauses;
}

static Plan *
qual_rule(PlanRewrite *rewrite, Plan *node)
{
	List *calls = NIL;
	List *moved = NIL;
	List *kept = qual_cut(node->qual, &moved, &calls);

	if (calls == NIL)
		return node;
	node->qual = kept;
	return node_split(rewrite, node, calls, moved);
}

/* Conditions of an inner join filter the same rows wherever they stand. */
static Plan *
join_qual_rule(PlanRewrite *rewrite, Plan *node)
{
	List *calls = NIL;
	List *moved = NIL;
	Join *join = (Join *) node;

	if (!(IsA(node, NestLoop) || IsA(node, MergeJoin) || IsA(node, HashJoin)) ||
		join->jointype != JOIN_INNER)
		return node;
	join->joinqual = qual_cut(join->joinqual, &moved, &calls);
	if (calls == NIL)
		return node;
	/* a join that may stop at the first match would stop at one that the clause rejects */
	join->inner_unique = false;
	moved = list_concat(moved, node->qual);
	node->qual = NIL;
	return node_split(rewrite, node, calls, moved);
}

/* ---- rule: below ----
 *
 *     Agg: max(gen(a))              Agg: max($2)
 *     -> child: a                   -> Infer Batch: $1, gen($1)
 *                                      -> child: a
 *
 * Arguments of aggregates and window functions, and everything that a ProjectSet computes.
 */

typedef struct ReplaceContext
{
	List *calls;
	int n_columns;
} ReplaceContext;

static Node *
calls_replace(Node *node, void *argument)
{
	const ReplaceContext *context = argument;
	ListCell *cell;

	if (node == NULL)
		return NULL;
	foreach (cell, context->calls)
	{
		if ((Node *) ((BatchCall *) lfirst(cell))->call == node)
			return (Node *) column_var(OUTER_VAR, context->n_columns + foreach_current_index(cell),
									   (Expr *) node);
	}
	return expression_tree_mutator(node, calls_replace, argument);
}

/* The child's columns as the parent's expressions name them. */
static List *
outer_columns(const Plan *child)
{
	List *columns = NIL;
	ListCell *cell;

	foreach (cell, child->targetlist)
		columns = lappend(columns, column_var(OUTER_VAR, foreach_current_index(cell),
											  ((TargetEntry *) lfirst(cell))->expr));
	return columns;
}

/* All child columns under their labels, then the calls. */
static List *
identity_tlist(const Plan *child, List *columns, List *calls)
{
	List *tlist = NIL;
	ListCell *cell;

	foreach (cell, child->targetlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst(cell));

		entry->expr = list_nth(columns, foreach_current_index(cell));
		tlist = lappend(tlist, entry);
	}
	foreach (cell, calls)
		tlist = lappend(tlist, makeTargetEntry((Expr *) ((BatchCall *) lfirst(cell))->call,
											   (AttrNumber) (list_length(tlist) + 1), NULL, true));
	return tlist;
}

/* Looks the calls up in a child of ours; what is found becomes one more column of it. */
static void
calls_know_outer(Plan *child, List *calls)
{
	ListCell *cell;

	foreach (cell, calls)
	{
		BatchCall *call = lfirst(cell);
		Var *known = NULL;

		calls_know((const CustomScan *) child, call,
				   columns_replace(call->call->args, OUTER_VAR, child->targetlist), &known);
		if (known == NULL)
			continue;
		child->targetlist =
			lappend(child->targetlist,
					makeTargetEntry((Expr *) known,
									(AttrNumber) (list_length(child->targetlist) + 1), NULL, true));
		call->known =
			(Expr *) column_var(OUTER_VAR, list_length(child->targetlist) - 1, (Expr *) known);
	}
}

static bool
below_rule(PlanRewrite *rewrite, Plan *node)
{
	bool is_set = IsA(node, ProjectSet);
	Plan *child = node->lefttree;
	ReplaceContext replace = { NIL, 0 };
	CustomScan *batch;
	List *columns;

	if (!(is_set || IsA(node, Agg) || IsA(node, WindowAgg)) || child == NULL)
		return false;
	calls_collect((Node *) node->targetlist, !is_set, &replace.calls);
	if (IsA(node, Agg))
		calls_collect((Node *) node->qual, true, &replace.calls);
	if (replace.calls == NIL)
		return false;
	if (plan_is_batch(child))
		calls_know_outer(child, replace.calls);
	replace.n_columns = list_length(child->targetlist);
	columns = outer_columns(child);
	batch = batch_node_make(rewrite, child, columns, replace.calls,
							identity_tlist(child, columns, replace.calls), NIL);
	node->lefttree = batch_rule(rewrite, &batch->scan.plan);
	node->targetlist = (List *) calls_replace((Node *) node->targetlist, &replace);
	node->qual = (List *) calls_replace((Node *) node->qual, &replace);
	return true;
}

/* ---- all of them, until nothing changes ---- */

Plan *
batch_rule(PlanRewrite *rewrite, Plan *node)
{
	static const PlanRule above[] = { inner_pipeline_rule, single_row_rule, join_qual_rule,
									  qual_rule, target_list_rule };

	node = sub_select_rule(rewrite, node);
	node = append_rule(rewrite, node);
	node = limit_rule(rewrite, node);
	while (below_rule(rewrite, node))
		;
	if (!node_projects(node))
		return node;
	for (;;)
	{
		Plan *before = node;

		for (int i = 0; i < lengthof(above) && node == before; i++)
			node = above[i](rewrite, node);
		if (node == before)
			return node;
	}
}
