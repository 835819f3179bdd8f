/* plan.c: the planner hook and its walk over a finished plan. */
#include "postgres.h"

#include "batch.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"

static planner_hook_type previous_planner_hook = NULL;

/* Each is tried on every node, children first. */
static const PlanRule rules[] = {
	stream_scan_rule,
};

static void plan_list_rewrite(PlanRewrite *rewrite, List *plans);

static Plan *
plan_rewrite(PlanRewrite *rewrite, Plan *node)
{
	if (node == NULL)
		return NULL;
	node->lefttree = plan_rewrite(rewrite, node->lefttree);
	node->righttree = plan_rewrite(rewrite, node->righttree);
	switch (nodeTag(node))
	{
		case T_Append:
			plan_list_rewrite(rewrite, ((Append *) node)->appendplans);
			break;
		case T_MergeAppend:
			plan_list_rewrite(rewrite, ((MergeAppend *) node)->mergeplans);
			break;
		case T_SubqueryScan:
		{
			SubqueryScan *scan = (SubqueryScan *) node;

			scan->subplan = plan_rewrite(rewrite, scan->subplan);
			break;
		}
#if PG_VERSION_NUM < 140000
		case T_ModifyTable:
			plan_list_rewrite(rewrite, ((ModifyTable *) node)->plans);
			break;
#endif
		default: /* bitmaps hold no call, and the custom nodes of others are closed to us */
			break;
	}
	for (int i = 0; i < lengthof(rules); i++)
		node = rules[i](rewrite, node);
	return node;
}

static void
plan_list_rewrite(PlanRewrite *rewrite, List *plans)
{
	ListCell *cell;

	foreach (cell, plans)
		lfirst(cell) = plan_rewrite(rewrite, lfirst(cell));
}

/* ---- the first walk: is there anything of ours? ---- */

static bool
range_table_has_function(List *range_table)
{
	ListCell *cell;

	foreach (cell, range_table)
	{
		RangeTblEntry *entry = lfirst(cell);

		if (entry->rtekind == RTE_FUNCTION)
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

	if (range_table_has_function(statement->rtable))
	{
		PlanRewrite rewrite = { .statement = statement };

		statement->planTree = plan_rewrite(&rewrite, statement->planTree);
		plan_list_rewrite(&rewrite, statement->subplans);
	}
	return statement;
}

void
plan_hook_install(void)
{
	stream_scan_register();
	previous_planner_hook = planner_hook;
	planner_hook = statement_plan;
}
