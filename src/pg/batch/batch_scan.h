/* batch_scan.h: the state of an Infer Batch node, for its execution and for EXPLAIN. */
#ifndef INFER_PG_BATCH_SCAN_H
#define INFER_PG_BATCH_SCAN_H

#include "answers.h"
#include "nodes/execnodes.h"

/* A call of the node, ready to be evaluated for a row. */
typedef struct CallState
{
	const BatchFunction *function;
	Oid function_id;
	Oid result_type;
	int n_args;
	ExprState **args;	   /* [n_args] over the scan tuple */
	ExprState *guard;	   /* NULL: always */
	ExprState *known;	   /* the answer of an equal call below, or NULL */
	bool is_constant;	   /* no column in its arguments: one answer serves all rows */
	NullableDatum *values; /* [n_args] of the row in hand */
} CallState;

/* A row that was pulled and waits for its answers. */
typedef struct PulledRow
{
	MemoryContext own;
	MinimalTuple tuple;
	Answer **answers; /* [n_calls] NULL: the call's value is NULL, or not asked yet */
	int n_asked;	  /* calls that were looked at */
} PulledRow;

typedef struct BatchScan
{
	CustomScanState css;

	/* Config */
	int n_columns; /* of the child */
	int n_calls;
	CallState *calls;
	BatchBound limit_bound;
	BatchBound cursor_bound;
	ExprState *count; /* of the LIMIT above, or NULL */
	ExprState *offset;

	/* State */
	ExprContext *pull_context; /* evaluates arguments and guards */
	TupleTableSlot *pull_slot; /* the child's columns, answers NULL */
	TupleTableSlot *row_slot;  /* reads a PulledRow */
	MemoryContext memory;	   /* rows and answers: its reset cancels all that is in flight */
	Answers *answers;
	PulledRow *ring; /* [n_ring] */
	int n_ring;
	int head;
	int n_rows; /* in the ring */
	bool child_ended;
	bool limit_known;
	int64 limit;	   /* rows that the LIMIT above wants, or -1 */
	int64 n_consumed;  /* rows that left the ring */
	int64 n_emitted;   /* of these, rows that went up */
	uint64 run_serial; /* of the executor run that n_in_run belongs to */
	int64 n_in_run;
	PulledRow emitted;			/* the row that went up last: its values may still be read */
	int64 window_used;			/* the largest window of this execution */
	AnswerCounts counts_before; /* of executions that a rescan ended */
} BatchScan;

extern void batch_scan_explain(CustomScanState *node, List *ancestors, struct ExplainState *es);

extern void batch_counts_add(AnswerCounts *to, const AnswerCounts *from);

/* ---- runs.c: how many rows the executor is run for ---- */

extern void executor_runs_install(void);

/* Rows that the innermost run of this statement was asked for, 0: all; *serial tells runs apart. */
extern uint64 executor_run_count(const EState *estate, uint64 *serial);

#endif
