/*
 * answers.h: the requests of one Infer Batch node. Equal deterministic ones share an answer while
 * any row of the window still needs it.
 *
 * Owner: a memory context; its reset cancels everything in flight, whatever ended the statement.
 */
#ifndef INFER_PG_BATCH_ANSWERS_H
#define INFER_PG_BATCH_ANSWERS_H

#include "batch.h"

typedef struct Answer Answer;
typedef struct Answers Answers;

typedef struct AnswerCounts
{
	uint64 n_requests;
	uint64 n_merged; /* calls that took the answer of an equal one */
	uint64 n_failed;
	uint64 prompt_tokens;
	uint64 cached_tokens;
	uint64 output_tokens;
	uint64 queue_us;
	uint64 prefill_us;
	uint64 decode_us;
	int max_in_flight;
} AnswerCounts;

/* What an equal call was answered already, for the same row. */
typedef struct KnownAnswer
{
	Datum value;
	bool isnull;
	Oid type;
} KnownAnswer;

extern Answers *answers_create(MemoryContext context);

/*
 * The answer to a call whose arguments are given (the first is not NULL). With may_wait it is
 * always there, and queued by itself when no slot is free; else NULL then. `keep`: if it can be
 * shared at all, it is until the end of the node. `known` (may be NULL) is the answer, without a
 * request, if the call is deterministic.
 */
extern Answer *answer_ask(Answers *answers, const BatchFunction *function,
						  const NullableDatum *args, int n_args, const KnownAnswer *known,
						  bool may_wait, bool keep);

extern bool answer_is_ready(Answer *answer);

/* Of one that is ready; in the current memory context. Raises what the scalar function raises. */
extern Datum answer_value(const Answer *answer, Oid result_type, bool *isnull);

extern void answer_release(Answer *answer);

extern int answers_in_flight(const Answers *answers);
extern const AnswerCounts *answers_counts(const Answers *answers);

#endif
