/* batch_node.c: builds the plan node of Infer Batch. */
#include "postgres.h"

#include "batch.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

void
plan_inherit(Plan *plan, const Plan *from)
{
	plan->startup_cost = from->startup_cost;
	plan->total_cost = from->total_cost;
	plan->plan_rows = from->plan_rows;
	plan->plan_width = from->plan_width;
	plan->parallel_safe = from->parallel_safe;
	plan->plan_node_id = from->plan_node_id;
	plan->initPlan = from->initPlan;
	plan->extParam = bms_copy(from->extParam);
	plan->allParam = bms_copy(from->allParam);
}

typedef struct TranslateContext
{
	Index varno;
	List *columns; /* expressions that become columns, by equal() */
	List *calls;   /* BatchCall: become the columns behind, by address */
} TranslateContext;

Var *
column_var(Index varno, int index, const Expr *expression)
{
	const Node *node = (const Node *) expression;

	return makeVar(varno, (AttrNumber) (index + 1), exprType(node), exprTypmod(node),
				   exprCollation(node), 0);
}

/* Columns are told apart by number: what else a Var carries differs with how it came about. */
static bool
is_same_column(const Node *a, const Node *b)
{
	const Var *x = (const Var *) a;
	const Var *y = (const Var *) b;

	if (!IsA(a, Var) || !IsA(b, Var))
		return equal(a, b);
	return x->varno == y->varno && x->varattno == y->varattno && x->varlevelsup == y->varlevelsup;
}

static Node *
translate(Node *node, void *argument)
{
	TranslateContext *context = argument;
	ListCell *cell;

	if (node == NULL)
		return NULL;
	foreach (cell, context->calls)
	{
		const BatchCall *call = lfirst(cell);

		if ((Node *) call->call == node)
			return (Node *) column_var(context->varno,
									   list_length(context->columns) + foreach_current_index(cell),
									   (Expr *) node);
	}
	if (IsA(node, Var) || IsA(node, Aggref) || IsA(node, WindowFunc) || IsA(node, GroupingFunc))
	{
		foreach (cell, context->columns)
		{
			if (is_same_column(lfirst(cell), node))
				return (Node *) column_var(context->varno, foreach_current_index(cell),
										   (Expr *) node);
		}
		elog(ERROR, "infer: an expression is missing below an Infer Batch node");
	}
	return expression_tree_mutator(node, translate, argument);
}

/* Columns of the scan tuple: the child's, then the calls themselves, for EXPLAIN to print. */
static List *
scan_tlist_make(List *columns, List *calls)
{
	TranslateContext below = { OUTER_VAR, columns, NIL };
	List *tlist = NIL;
	ListCell *cell;
	AttrNumber resno = 1;

	foreach (cell, columns)
	{
		Var *var = column_var(OUTER_VAR, foreach_current_index(cell), lfirst(cell));

		tlist = lappend(tlist, makeTargetEntry((Expr *) var, resno++, NULL, false));
	}
	foreach (cell, calls)
	{
		Node *call = translate((Node *) ((BatchCall *) lfirst(cell))->call, &below);

		tlist = lappend(tlist, makeTargetEntry((Expr *) call, resno++, NULL, false));
	}
	return tlist;
}

static List *
call_expressions(List *columns, List *calls)
{
	TranslateContext scan = { INDEX_VAR, columns, NIL };
	List *expressions = NIL;
	ListCell *cell;

	foreach (cell, calls)
	{
		const BatchCall *call = lfirst(cell);

		expressions = lappend(expressions, list_make3(translate((Node *) call->call->args, &scan),
													  translate((Node *) call->guard, &scan),
													  translate((Node *) call->known, &scan)));
	}
	return expressions;
}

static List *
private_make(int n_columns, int n_calls)
{
	List *members = list_make2_int(n_columns, n_calls);

	while (list_length(members) < BATCH_N_PRIVATE)
		members = lappend_int(members, 0);
	return list_make1(members);
}

CustomScan *
batch_node_make(PlanRewrite *rewrite, Plan *child, List *columns, List *calls, List *targetlist,
				List *qual)
{
	TranslateContext scan = { INDEX_VAR, columns, calls };
	CustomScan *node = makeNode(CustomScan);

	plan_inherit(&node->scan.plan, child);
	node->scan.plan.plan_node_id = rewrite->next_node_id++;
	child->initPlan = NIL; /* they belong to the top of what was one node */
#if PG_VERSION_NUM >= 140000
	child->async_capable = false;
#endif
	node->scan.plan.lefttree = child;
	node->scan.plan.targetlist = (List *) translate((Node *) targetlist, &scan);
	node->scan.plan.qual = (List *) translate((Node *) qual, &scan);
	node->custom_scan_tlist = scan_tlist_make(columns, calls);
	node->custom_exprs = call_expressions(columns, calls);
	node->custom_private = private_make(list_length(columns), list_length(calls));
	node->methods = &batch_scan_methods;
	rewrite->n_rewritten++;
	return node;
}

bool
plan_is_batch(const Plan *plan)
{
	return plan != NULL && IsA(plan, CustomScan) &&
		   ((const CustomScan *) plan)->methods == &batch_scan_methods;
}
