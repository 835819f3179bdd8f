/*
 * calls.c: the calls of an expression, and under what condition each is evaluated.
 *
 * An expression is evaluated lazily: the arm of a CASE that is not taken costs nothing. A node that
 * sends prompts before it evaluates the expression has to know as much, so each call carries a
 * guard: what must be true of the row for the call to be reached.
 *
 *     CASE WHEN a THEN gen(x) WHEN b THEN gen(y) END    gen(y): CASE WHEN a THEN false WHEN b THEN
 * true COALESCE(a, gen(x))                               a IS NULL a AND gen(x) = 'yes' a IS NOT
 * FALSE a OR gen(x) = 'yes'                               a IS NOT TRUE count(gen(x)) FILTER (WHERE
 * a)                    a
 *
 * A guard that is volatile cannot be evaluated twice: the call stays where it is. Since calls are
 * volatile themselves, this also leaves a guarded call for the round after its guard's.
 */
#include "postgres.h"

#include "batch.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"

typedef struct CollectContext
{
	bool inside_aggregates;
	bool in_aggregate;
	List *guards;	   /* Expr: all must be true */
	List *test_params; /* ids of the Params that a SubPlan sets for its test */
	List **calls;
} CollectContext;

static bool collect_walker(Node *node, CollectContext *context);

static bool
exist_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && function_role(((FuncExpr *) node)->funcid) == FUNCTION_BATCH)
		return true;
	return expression_tree_walker(node, exist_walker, context);
}

bool
calls_exist(Node *expression)
{
	return exist_walker(expression, NULL);
}

/* Values that exist only while the expression around them is evaluated. */
static bool
needs_surroundings(Node *node, void *argument)
{
	const CollectContext *context = argument;

	if (node == NULL)
		return false;
	if (IsA(node, CaseTestExpr) || IsA(node, CoerceToDomainValue) || IsA(node, SubPlan))
		return true;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC &&
		list_member_int(context->test_params, ((Param *) node)->paramid))
		return true;
	return expression_tree_walker(node, needs_surroundings, argument);
}

static void
call_take(FuncExpr *call, CollectContext *context)
{
	Expr *guard = context->guards == NIL ? NULL : make_ands_explicit(context->guards);
	BatchCall *taken;

	if (needs_surroundings((Node *) call->args, context) ||
		needs_surroundings((Node *) guard, context) || contain_volatile_functions((Node *) guard))
		return;
	taken = palloc0(sizeof(*taken));
	taken->call = call;
	taken->guard = copyObject(guard);
	*context->calls = lappend(*context->calls, taken);
}

/* Walks a node that is evaluated only if `guard` is true. */
static void
collect_guarded(Node *node, Expr *guard, CollectContext *context)
{
	List *before = context->guards;

	context->guards = lappend(list_copy(before), guard);
	collect_walker(node, context);
	context->guards = before;
}

/* The CASE, cut after arm `last`, giving `value` for that arm, and `other` for all else. */
static Expr *
case_test(const CaseExpr *original, int last, bool value, bool other)
{
	CaseExpr *test = copyObject(unconstify(CaseExpr *, original));

	test->casetype = BOOLOID;
	test->casecollid = InvalidOid;
	test->args = list_truncate(test->args, last + 1);
	for (int i = 0; i <= last; i++)
		list_nth_node(CaseWhen, test->args, i)->result =
			(Expr *) makeBoolConst(i == last ? value : false, false);
	test->defresult = (Expr *) makeBoolConst(other, false);
	return (Expr *) test;
}

static void
case_collect(const CaseExpr *expr, CollectContext *context)
{
	int n_arms = list_length(expr->args);

	collect_walker((Node *) expr->arg, context);
	for (int i = 0; i < n_arms; i++)
	{
		CaseWhen *arm = list_nth_node(CaseWhen, expr->args, i);

		if (i == 0)
			collect_walker((Node *) arm->expr, context);
		else
			collect_guarded((Node *) arm->expr, case_test(expr, i - 1, false, true), context);
		collect_guarded((Node *) arm->result, case_test(expr, i, true, false), context);
	}
	if (expr->defresult != NULL)
		collect_guarded((Node *) expr->defresult, case_test(expr, n_arms - 1, false, true),
						context);
}

static Expr *
null_test(Expr *argument, NullTestType type)
{
	NullTest *test = makeNode(NullTest);

	test->arg = argument;
	test->nulltesttype = type;
	test->location = -1;
	return (Expr *) test;
}

static Expr *
bool_test(Expr *argument, BoolTestType type)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = argument;
	test->booltesttype = type;
	test->location = -1;
	return (Expr *) test;
}

/* Arguments that are evaluated in turn, each only if `guard_of` holds for all before it. */
static void
sequence_collect(List *args, Expr *(*guard_of)(Expr *), CollectContext *context)
{
	List *before = context->guards;
	ListCell *cell;

	foreach (cell, args)
	{
		Expr *arg = lfirst(cell);

		collect_walker((Node *) arg, context);
		context->guards = lappend(list_copy(context->guards), guard_of(arg));
	}
	context->guards = before;
}

static Expr *
guard_null(Expr *arg)
{
	/* NOT (row IS NOT NULL) is not row IS NULL: COALESCE looks at the value as a whole */
	NullTest *test = (NullTest *) null_test(arg, IS_NULL);

	test->argisrow = false;
	return (Expr *) test;
}

static Expr *
guard_not_false(Expr *arg)
{
	return bool_test(arg, IS_NOT_FALSE);
}

static Expr *
guard_not_true(Expr *arg)
{
	return bool_test(arg, IS_NOT_TRUE);
}

static void
aggregate_collect(List *args, Expr *filter, CollectContext *context)
{
	List *before = context->guards;

	/* an aggregate takes in every row, whatever stands around it */
	context->guards = NIL;
	context->in_aggregate = true;
	collect_walker((Node *) filter, context);
	if (filter != NULL)
		collect_guarded((Node *) args, filter, context);
	else
		collect_walker((Node *) args, context);
	context->in_aggregate = false;
	context->guards = before;
}

static void
subplan_collect(const SubPlan *subplan, CollectContext *context)
{
	List *before = context->test_params;

	collect_walker((Node *) subplan->args, context);
	context->test_params = list_concat_copy(before, subplan->paramIds);
	collect_walker(subplan->testexpr, context);
	context->test_params = before;
}

/* Nodes whose parts are not all evaluated, or not here. True when it was one. */
static bool
special_collect(Node *node, CollectContext *context)
{
	switch (nodeTag(node))
	{
		case T_Aggref:
			if (context->inside_aggregates)
				aggregate_collect(((Aggref *) node)->args, ((Aggref *) node)->aggfilter, context);
			return true;
		case T_WindowFunc:
			if (context->inside_aggregates)
				aggregate_collect(((WindowFunc *) node)->args, ((WindowFunc *) node)->aggfilter,
								  context);
			return true;
		case T_GroupingFunc:
			return true;
		case T_CaseExpr:
			case_collect((CaseExpr *) node, context);
			return true;
		case T_CoalesceExpr:
			sequence_collect(((CoalesceExpr *) node)->args, guard_null, context);
			return true;
		case T_BoolExpr:
			if (((BoolExpr *) node)->boolop == NOT_EXPR)
				return false;
			sequence_collect(((BoolExpr *) node)->args,
							 ((BoolExpr *) node)->boolop == AND_EXPR ? guard_not_false
																	 : guard_not_true,
							 context);
			return true;
		case T_SubPlan:
			subplan_collect((SubPlan *) node, context);
			return true;
		case T_ArrayCoerceExpr: /* the element expression runs once an element */
			collect_walker((Node *) ((ArrayCoerceExpr *) node)->arg, context);
			return true;
		default:
			return false;
	}
}

static bool
collect_walker(Node *node, CollectContext *context)
{
	if (node == NULL || special_collect(node, context))
		return false;
	if (IsA(node, FuncExpr) && function_role(((FuncExpr *) node)->funcid) == FUNCTION_BATCH &&
		!calls_exist((Node *) ((FuncExpr *) node)->args) &&
		(context->in_aggregate || !context->inside_aggregates))
	{
		call_take((FuncExpr *) node, context);
		return false;
	}
	return expression_tree_walker(node, collect_walker, context);
}

void
calls_collect(Node *expression, bool inside_aggregates, List **calls)
{
	CollectContext context = { .inside_aggregates = inside_aggregates, .calls = calls };

	collect_walker(expression, &context);
}
