/*
 * bounds.c: how far ahead an Infer Batch node may pull. Most parents read every row; a LIMIT, a
 * cursor or an EXISTS does not, and a prompt sent for a row that nobody reads is paid for nothing.
 *
 *     parent                                            what its child is told
 *     Limit                                             strict: count + offset
 *     Result, SubqueryScan, Append, Gather, our node    as the parent was told; with a filter: ramp
 *     ProjectSet, Unique, LockRows, WindowAgg,
 *       sorted Agg or Group, IncrementalSort, joins     ramp, if the parent was told anything
 *     Sort, Hash, hashed or plain Agg, SetOp,
 *       ModifyTable                                     nothing: they read all rows first
 *     inner of a semi, anti or unique join, EXISTS      ramp from one row
 *
 * The top of the statement has the cursor's bound, which counts only while the executor is run for
 * a number of rows (runs.c).
 */
#include "postgres.h"

#include "batch.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

typedef struct Bound
{
	BatchBound limit;
	BatchBound cursor;
	Node *count; /* of the Limit, or NULL: one row */
	Node *offset;
} Bound;

static const Bound no_bound = { BOUND_NONE, BOUND_NONE, NULL, NULL };

static void plan_bound(PlannedStmt *statement, Plan *plan, Bound bound);

static Bound
bound_ramp(Bound bound)
{
	if (bound.limit == BOUND_STRICT)
		bound.limit = BOUND_RAMP;
	if (bound.cursor == BOUND_STRICT)
		bound.cursor = BOUND_RAMP;
	return bound;
}

static Bound
bound_one_row(void)
{
	Bound bound = no_bound;

	bound.limit = BOUND_RAMP;
	return bound;
}

static Bound
bound_of_limit(const Limit *limit, Bound bound)
{
	if (limit->limitCount == NULL)
		return bound_ramp(bound);
	if (contain_volatile_functions(limit->limitCount) ||
		contain_volatile_functions(limit->limitOffset))
		return no_bound;
	bound.limit = limit->limitOption == LIMIT_OPTION_WITH_TIES ? BOUND_RAMP : BOUND_STRICT;
	bound.count = limit->limitCount;
	bound.offset = limit->limitOffset;
	if (bound.cursor == BOUND_STRICT)
		bound.cursor = limit->limitOffset == NULL ? BOUND_STRICT : BOUND_RAMP;
	return bound;
}

static Bound
bound_of_agg(const Agg *agg, Bound bound)
{
	return agg->aggstrategy == AGG_SORTED ? bound_ramp(bound) : no_bound;
}

static Bound
bound_of_inner(const Plan *plan)
{
	const Join *join = (const Join *) plan;
	bool stops_early =
		join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI || join->inner_unique;

	return IsA(plan, NestLoop) && stops_early ? bound_one_row() : no_bound;
}

/* What the (outer) child is told. */
static Bound
bound_of_child(const Plan *plan, Bound bound)
{
	switch (nodeTag(plan))
	{
		case T_Limit:
			return bound_of_limit((const Limit *) plan, bound);
		case T_Result:
		case T_SubqueryScan:
		case T_Append:
		case T_MergeAppend:
		case T_Gather:
		case T_GatherMerge:
		case T_Material:
		case T_CustomScan:
			return plan->qual == NIL ? bound : bound_ramp(bound);
		case T_Agg:
			return bound_of_agg((const Agg *) plan, bound);
		case T_ProjectSet:
		case T_Unique:
		case T_LockRows:
		case T_WindowAgg:
		case T_Group:
		case T_IncrementalSort:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			return bound_ramp(bound);
		default:
			return no_bound;
	}
}

/* Writes the bound into a node of ours. Its own filter makes it a ramp. */
static void
node_bound(CustomScan *node, Bound bound)
{
	List *members = linitial(node->custom_private);

	if (node->scan.plan.qual != NIL)
		bound = bound_ramp(bound);
	lfirst_int(list_nth_cell(members, BATCH_LIMIT_BOUND)) = bound.limit;
	lfirst_int(list_nth_cell(members, BATCH_CURSOR_BOUND)) = bound.cursor;
	if (bound.limit == BOUND_NONE)
		return;
	lfirst_int(list_nth_cell(members, BATCH_HAS_COUNT)) = bound.count != NULL;
	lfirst_int(list_nth_cell(members, BATCH_HAS_OFFSET)) = bound.offset != NULL;
	if (bound.count != NULL)
		node->custom_exprs = lappend(node->custom_exprs, copyObject(bound.count));
	if (bound.offset != NULL)
		node->custom_exprs = lappend(node->custom_exprs, copyObject(bound.offset));
}

static void
list_bound(PlannedStmt *statement, List *plans, Bound bound)
{
	ListCell *cell;

	foreach (cell, plans)
		plan_bound(statement, lfirst(cell), bound);
}

static void
plan_bound(PlannedStmt *statement, Plan *plan, Bound bound)
{
	Bound below;

	if (plan == NULL)
		return;
	if (plan_is_batch(plan))
		node_bound((CustomScan *) plan, bound);
	below = bound_of_child(plan, bound);
	switch (nodeTag(plan))
	{
		case T_Append:
			list_bound(statement, ((Append *) plan)->appendplans, below);
			break;
		case T_MergeAppend:
			list_bound(statement, ((MergeAppend *) plan)->mergeplans, below);
			break;
		case T_SubqueryScan:
			plan_bound(statement, ((SubqueryScan *) plan)->subplan, below);
			break;
		default:
			break;
	}
	plan_bound(statement, plan->lefttree, below);
	plan_bound(statement, plan->righttree, bound_of_inner(plan));
}

/* ---- sub-selects: all but CTEs and hashed ones may be left after a row ---- */

static bool
subplan_walker(Node *node, void *argument)
{
	PlannedStmt *statement = argument;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
	{
		const SubPlan *subplan = (SubPlan *) node;
		bool stops_early = subplan->subLinkType != CTE_SUBLINK && !subplan->useHashTable &&
						   subplan->subLinkType != ARRAY_SUBLINK;

		plan_bound(statement, list_nth(statement->subplans, subplan->plan_id - 1),
				   stops_early ? bound_one_row() : no_bound);
	}
	return expression_tree_walker(node, subplan_walker, argument);
}

static void
plan_subplans(PlannedStmt *statement, Plan *plan)
{
	List *children = NIL;
	ListCell *cell;

	if (plan == NULL)
		return;
	subplan_walker((Node *) plan->initPlan, statement);
	subplan_walker((Node *) plan->targetlist, statement);
	subplan_walker((Node *) plan->qual, statement);
	if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
		subplan_walker((Node *) ((Join *) plan)->joinqual, statement);
	if (IsA(plan, Result))
		subplan_walker(((Result *) plan)->resconstantqual, statement);
	if (IsA(plan, Append))
		children = ((Append *) plan)->appendplans;
	else if (IsA(plan, MergeAppend))
		children = ((MergeAppend *) plan)->mergeplans;
	else if (IsA(plan, SubqueryScan))
		children = list_make1(((SubqueryScan *) plan)->subplan);
	foreach (cell, children)
		plan_subplans(statement, lfirst(cell));
	plan_subplans(statement, plan->lefttree);
	plan_subplans(statement, plan->righttree);
}

void
bounds_assign(PlannedStmt *statement)
{
	Bound top = no_bound;
	ListCell *cell;

	top.cursor = BOUND_STRICT;
	plan_bound(statement, statement->planTree, top);
	plan_subplans(statement, statement->planTree);
	foreach (cell, statement->subplans)
		plan_subplans(statement, lfirst(cell));
}
