/* explain.c: what EXPLAIN tells of an Infer Batch node. */
#include "postgres.h"

#include "batch_scan.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#	include "commands/explain_format.h"
#endif
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

static void
calls_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	const BatchScan *scan = (const BatchScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	List *calls = NIL;

	for (int i = 0; i < scan->n_calls; i++)
	{
		TargetEntry *entry = list_nth(plan->custom_scan_tlist, scan->n_columns + i);

		calls =
			lappend(calls, deparse_expression((Node *) entry->expr, context,
											  list_length(es->rtable) > 1 || es->verbose, false));
	}
	ExplainPropertyList("Calls", calls, es);
}

static void
counts_explain(const BatchScan *scan, ExplainState *es)
{
	AnswerCounts counts = scan->counts_before;

	ExplainPropertyInteger("Requests", NULL, (int64) counts.n_requests, es);
	ExplainPropertyInteger("Merged", NULL, (int64) counts.n_merged, es);
	ExplainPropertyInteger("Failed", NULL, (int64) counts.n_failed, es);
	ExplainPropertyInteger("Max In Flight", NULL, counts.max_in_flight, es);
	ExplainPropertyInteger("Prompt Tokens", NULL, (int64) counts.prompt_tokens, es);
	ExplainPropertyInteger("Cached Tokens", NULL, (int64) counts.cached_tokens, es);
	ExplainPropertyInteger("Output Tokens", NULL, (int64) counts.output_tokens, es);
	if (!es->timing)
		return;
	ExplainPropertyFloat("Queue Time", "ms", (double) counts.queue_us / 1000, 3, es);
	ExplainPropertyFloat("Prefill Time", "ms", (double) counts.prefill_us / 1000, 3, es);
	ExplainPropertyFloat("Decode Time", "ms", (double) counts.decode_us / 1000, 3, es);
}

void
batch_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	BatchScan *scan = (BatchScan *) node;

	calls_explain(node, ancestors, es);
	if (!es->analyze)
		return;
	if (scan->answers != NULL)
	{
		AnswerCounts before = scan->counts_before;

		batch_counts_add(&scan->counts_before, answers_counts(scan->answers));
		counts_explain(scan, es);
		scan->counts_before = before;
	}
	else
		counts_explain(scan, es);
}
