/*
 * batch.h: plan nodes of our own, put into finished plans.
 *
 * planner_hook lets the server plan as always, then rewrites the PlannedStmt: one place, the final
 * shape, for every kind of statement, and the plan cache keeps the result. A statement without a
 * function of ours is found by one look at its dependencies and handed on untouched.
 *
 * Infer Stream (stream_scan.c) stands in the place of a Function Scan of infer_stream.
 *
 * Infer Batch (batch_scan.c) pulls rows of its child ahead, sends the prompts of their calls, and
 * returns the rows in order as answers come. Where a node P computes a call, rules.c splits it:
 *
 *     P                                     Infer Batch
 *       targetlist  upper(gen(a || b))        targetlist  upper($3)         $3: the call's answer
 *       qual        c > 0 AND gen(c) = 'y'    -> P'
 *                                                  targetlist  a, b         all that is above needs
 *
 * Everything but the calls is evaluated where and when it was before: in the new node, as rows
 * leave it.
 *
 *     plan.c        the hook, the walks, the order of the rules
 *     functions.c   which functions are ours
 *     calls.c       the calls of an expression, and under what condition each is evaluated
 *     rules.c       target list, qual, arguments of aggregates and the like
 *     joins.c       nested loops, sub-selects, Append: what would cut a pipeline into pieces
 *     bounds.c      how far ahead a node may pull: LIMIT, cursors, EXISTS
 *     batch_scan.c  execution;  explain.c  EXPLAIN
 */
#ifndef INFER_PG_BATCH_H
#define INFER_PG_BATCH_H

#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "pg/call.h"

/* What a rewrite rule knows of the statement. */
typedef struct PlanRewrite
{
	PlannedStmt *statement;
	int next_node_id;
	int n_rewritten; /* nodes replaced or put in so far */
} PlanRewrite;

/* The plan that shall stand in the node's place: the node itself where the rule does not apply. */
typedef Plan *(*PlanRule)(PlanRewrite *rewrite, Plan *node);

/* In _PG_init. */
extern void plan_hook_install(void);

/* Number, costs, parameters and initPlans of a node that takes the place of `from` or stands on it.
 */
extern void plan_inherit(Plan *plan, const Plan *from);

/* ---- functions.c: which functions are ours ---- */

typedef enum FunctionRole
{
	FUNCTION_FOREIGN = 0,
	FUNCTION_STREAM, /* set-returning, a row as soon as it is there */
	FUNCTION_BATCH	 /* one request, one value */
} FunctionRole;

typedef struct BatchFunction
{
	const char *symbol;
	PGFunction address;
	FunctionRole role;

	/* FUNCTION_BATCH: argument values into a request, as the scalar function does it. Called only
	 * when the first is not NULL. */
	void (*prepare)(const NullableDatum *args, int n_args, Call *call);

	/* The request's answer as a value of result_type; raises what the scalar function raises. */
	Datum (*answer)(const Call *call, const PgRequest *r, Oid result_type, bool *isnull);
} BatchFunction;

/*
 * By C symbol and library, never by name: so it survives SET SCHEMA, renames and aliases. Functions
 * that are SECURITY DEFINER or have SET clauses are foreign, since those run through a wrapper.
 * NULL: not ours.
 */
extern const BatchFunction *batch_function_find(Oid function);

static inline FunctionRole
function_role(Oid function)
{
	const BatchFunction *found = batch_function_find(function);

	return found == NULL ? FUNCTION_FOREIGN : found->role;
}

/* ---- calls.c ---- */

/* A call that a node can take over, and when it is evaluated at all. */
typedef struct BatchCall
{
	FuncExpr *call; /* in the expression: found again by its address */
	Expr *guard;	/* boolean, over the same columns; NULL: always */
	Expr *known;	/* column with the answer of an equal call below, for calls that are
					 * deterministic; NULL: none */
} BatchCall;

/* Whether a call of ours stands anywhere in the expression, whoever evaluates it. */
extern bool calls_exist(Node *expression);

/*
 * Appends the calls that can be taken now to the list of BatchCall. Those whose arguments or guards
 * hold another call are left for the next round, those that no node can take are left for good.
 * Aggregates and window functions are closed, unless `inside_aggregates`: then they are all that is
 * looked into.
 */
extern void calls_collect(Node *expression, bool inside_aggregates, List **calls);

/* ---- batch_node.c ---- */

/*
 * An Infer Batch over `child`, whose target list holds `columns` (expressions as they stand in the
 * target list and qual given here). In the new node columns become Var(INDEX_VAR, i), and calls the
 * columns behind them.
 */
extern CustomScan *batch_node_make(PlanRewrite *rewrite, Plan *child, List *columns, List *calls,
								   List *targetlist, List *qual);
extern bool plan_is_batch(const Plan *plan);

/* Var of column `index` (from 0) with the type of the expression. */
extern Var *column_var(Index varno, int index, const Expr *expression);

/* custom_private of an Infer Batch is a list of one integer list, with these members. */
typedef enum BatchPrivate
{
	BATCH_N_COLUMNS, /* of the child */
	BATCH_N_CALLS,
	BATCH_LIMIT_BOUND,	/* BatchBound from a LIMIT or EXISTS above */
	BATCH_CURSOR_BOUND, /* BatchBound while the executor is run for a number of rows */
	BATCH_HAS_COUNT,	/* custom_exprs end with the LIMIT's count, */
	BATCH_HAS_OFFSET,	/* and its offset */
	BATCH_N_PRIVATE
} BatchPrivate;

/* How far a node may pull ahead of what was asked for. */
typedef enum BatchBound
{
	BOUND_NONE,	  /* the whole window: every row will be read */
	BOUND_STRICT, /* not one row more than the count */
	BOUND_RAMP	  /* some rows are dropped above: as many as were read so far, at least the count */
} BatchBound;

/* custom_exprs: for each call a list of (argument list, guard or NULL, known or NULL), then count
 * and offset. */

/* ---- rules.c, joins.c, bounds.c ---- */

extern Plan *batch_rule(PlanRewrite *rewrite, Plan *node);
/* The expressions with each Var of `varno` replaced by the target list's entry of its number. */
extern List *columns_replace(List *expressions, Index varno, List *targetlist);

extern Plan *sub_select_rule(PlanRewrite *rewrite, Plan *node);
extern Plan *single_row_rule(PlanRewrite *rewrite, Plan *node);
extern Plan *inner_pipeline_rule(PlanRewrite *rewrite, Plan *node);
extern Plan *append_rule(PlanRewrite *rewrite, Plan *node);
extern Plan *limit_rule(PlanRewrite *rewrite, Plan *node);
extern void bounds_assign(PlannedStmt *statement);

/* ---- batch_scan.c, explain.c ---- */

extern void batch_scan_register(void);
extern Node *batch_scan_create_state(CustomScan *plan);
extern const CustomScanMethods batch_scan_methods;

/* ---- stream_scan.c ---- */

extern Plan *stream_scan_rule(PlanRewrite *rewrite, Plan *node);
extern void stream_scan_register(void);

#endif
