/* plan.c: the planner hook and its walks over a finished plan. */
#include "postgres.h"

#include "batch.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/planner.h"
#include "pg/settings.h"
#include "utils/syscache.h"

static planner_hook_type previous_planner_hook = NULL;

typedef void (*PlanVisit)(void *context, Plan **plan);

/* ---- children ---- */

static void
list_visit(List *plans, PlanVisit visit, void *context)
{
	ListCell *cell;

	foreach (cell, plans)
		visit(context, (Plan **) &lfirst(cell));
}

/* Every child of a node; bitmaps hold no call, and the custom nodes of others are closed to us. */
static void
children_visit(Plan *plan, PlanVisit visit, void *context)
{
	switch (nodeTag(plan))
	{
		case T_Append:
			list_visit(((Append *) plan)->appendplans, visit, context);
			break;
		case T_MergeAppend:
			list_visit(((MergeAppend *) plan)->mergeplans, visit, context);
			break;
		case T_SubqueryScan:
			visit(context, &((SubqueryScan *) plan)->subplan);
			break;
#if PG_VERSION_NUM < 140000
		case T_ModifyTable:
			list_visit(((ModifyTable *) plan)->plans, visit, context);
			break;
#endif
		case T_BitmapHeapScan:
			return;
		default:
			break;
	}
	if (plan->lefttree != NULL)
		visit(context, &plan->lefttree);
	if (plan->righttree != NULL)
		visit(context, &plan->righttree);
}

/* ---- rewriting, children first ---- */

/* A merge join goes back in its inner side; our node cannot, a Material above it can. */
static Plan *
material_make(PlanRewrite *rewrite, Plan *child)
{
	Material *material = makeNode(Material);
	ListCell *cell;

	plan_inherit(&material->plan, child);
	material->plan.plan_node_id = rewrite->next_node_id++;
	child->initPlan = NIL;
	material->plan.lefttree = child;
	foreach (cell, child->targetlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst(cell));

		entry->expr = (Expr *) column_var(OUTER_VAR, foreach_current_index(cell), entry->expr);
		material->plan.targetlist = lappend(material->plan.targetlist, entry);
	}
	return &material->plan;
}

static void
plan_rewrite(void *context, Plan **plan)
{
	PlanRewrite *rewrite = context;

	if (*plan == NULL)
		return;
	children_visit(*plan, plan_rewrite, context);
	if (IsA(*plan, MergeJoin) && plan_is_batch((*plan)->righttree) &&
		!((MergeJoin *) *plan)->skip_mark_restore)
		(*plan)->righttree = material_make(rewrite, (*plan)->righttree);
	*plan = stream_scan_rule(rewrite, *plan);
	if (setting_batch)
		*plan = batch_rule(rewrite, *plan);
}

static void
node_id_visit(void *context, Plan **plan)
{
	PlanRewrite *rewrite = context;

	if (*plan == NULL)
		return;
	rewrite->next_node_id = Max(rewrite->next_node_id, (*plan)->plan_node_id + 1);
	children_visit(*plan, node_id_visit, context);
	if (IsA(*plan, BitmapHeapScan) && (*plan)->lefttree != NULL)
		node_id_visit(context, &(*plan)->lefttree);
	else if (IsA(*plan, BitmapAnd))
		list_visit(((BitmapAnd *) *plan)->bitmapplans, node_id_visit, context);
	else if (IsA(*plan, BitmapOr))
		list_visit(((BitmapOr *) *plan)->bitmapplans, node_id_visit, context);
	else if (IsA(*plan, CustomScan))
		list_visit(((CustomScan *) *plan)->custom_plans, node_id_visit, context);
}

static void
statement_rewrite(PlannedStmt *statement, int cursor_options)
{
	PlanRewrite rewrite = { .statement = statement };

	node_id_visit(&rewrite, &statement->planTree);
	list_visit(statement->subplans, node_id_visit, &rewrite);
	plan_rewrite(&rewrite, &statement->planTree);
	list_visit(statement->subplans, plan_rewrite, &rewrite);
	if (rewrite.n_rewritten == 0)
		return;
	if ((cursor_options & CURSOR_OPT_SCROLL) != 0 && !ExecSupportsBackwardScan(statement->planTree))
		statement->planTree = material_make(&rewrite, statement->planTree);
	bounds_assign(statement);
}

/*
 * Is there anything of ours? A plan lists the functions outside the system's own that it depends
 * on, for the plan cache; most have none.
 */
static bool
statement_may_call(const PlannedStmt *statement)
{
	ListCell *cell;

	foreach (cell, statement->invalItems)
	{
		if (((PlanInvalItem *) lfirst(cell))->cacheId == PROCOID)
			return true;
	}
	foreach (cell, statement->rtable)
	{
		if (((RangeTblEntry *) lfirst(cell))->rtekind == RTE_FUNCTION)
			return true;
	}
	return false;
}

static PlannedStmt *
statement_plan(Query *query, const char *text, int cursor_options, ParamListInfo parameters)
{
	PlannedStmt *statement = previous_planner_hook != NULL
								 ? previous_planner_hook(query, text, cursor_options, parameters)
								 : standard_planner(query, text, cursor_options, parameters);

	if (statement_may_call(statement))
		statement_rewrite(statement, cursor_options);
	return statement;
}

void
plan_hook_install(void)
{
	stream_scan_register();
	batch_scan_register();
	previous_planner_hook = planner_hook;
	planner_hook = statement_plan;
}
