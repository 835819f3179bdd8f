/*
 * batch.h: plan nodes of our own, put into finished plans.
 *
 * planner_hook lets the server plan as always, then rewrites the PlannedStmt: one place, the final
 * shape, for every kind of statement, and the plan cache keeps the result. A statement without a
 * function of ours is found by one walk and handed on untouched.
 *
 *     Function Scan on infer_stream s                 Custom Scan (Infer Stream)
 *       targetlist  Var(s, n) ...          ──▶          targetlist        Var(INDEX_VAR, n) ...
 *       qual        over Var(s, n)                      qual              over Var(INDEX_VAR, n)
 *       functions   (FuncExpr)                          custom_scan_tlist Var(s, n) for each column
 *                                                       custom_exprs      (FuncExpr)
 *
 * plan.c holds the hook and the walks; each rewrite rule is one function of the file that executes
 * its node.
 */
#ifndef INFER_PG_BATCH_H
#define INFER_PG_BATCH_H

#include "nodes/plannodes.h"

/* What a rewrite rule knows of the statement. */
typedef struct PlanRewrite
{
	PlannedStmt *statement;
	int n_rewritten; /* nodes replaced so far */
} PlanRewrite;

/* The plan that shall stand in the node's place: the node itself where the rule does not apply. */
typedef Plan *(*PlanRule)(PlanRewrite *rewrite, Plan *node);

/* In _PG_init. */
extern void plan_hook_install(void);

/* ---- functions.c: which functions are ours ---- */

typedef enum FunctionRole
{
	FUNCTION_FOREIGN = 0,
	FUNCTION_STREAM /* set-returning, a row as soon as it is there */
} FunctionRole;

/*
 * By C symbol and library, never by name: so it survives SET SCHEMA, renames and aliases. Functions
 * that are SECURITY DEFINER or have SET clauses are foreign, since those run through a wrapper.
 */
extern FunctionRole function_role(Oid function);

/* ---- stream_scan.c ---- */

extern Plan *stream_scan_rule(PlanRewrite *rewrite, Plan *node);
extern void stream_scan_register(void);

#endif
