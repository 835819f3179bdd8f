/*
 * call.h: from the arguments of a SQL function to a request, and from its result to SQL values.
 * The scalar functions, infer_batch, jobs, streams and the batch node all go this way, so that
 * they agree on defaults, NULLs and errors.
 */
#ifndef INFER_PG_CALL_H
#define INFER_PG_CALL_H

#include "fmgr.h"
#include "pg/request.h"

/* Order of the arguments of infer_generate and its kin. infer_chat has no `system`. */
typedef enum CallArg
{
	CALL_SUBJECT,
	CALL_MODEL,
	CALL_SYSTEM,
	CALL_MAX_TOKENS,
	CALL_TEMPERATURE,
	CALL_TOP_P,
	CALL_TOP_K,
	CALL_SEED,
	CALL_STOP,
	CALL_ON_ERROR,
	CALL_OPTIONS,
	N_CALL_ARGS
} CallArg;

typedef struct Call
{
	InferRequest request;
	char *payload;	  /* in the context that was current at call_prepare */
	InferError error; /* soft: the request cannot be made */
	bool null_on_error;
} Call;

/* Columns of infer_generate_detail; infer_batch puts `ord` before them. */
#define N_DETAIL_COLUMNS 14

/* The one predicate for "is there a request": a NULL subject is answered NULL without one. */
static inline bool
call_has_request(const NullableDatum *args)
{
	return !args[CALL_SUBJECT].isnull;
}

/*
 * Arguments of a C function in CallArg order; those it does not have are NULL. `has_system` is
 * false for infer_chat.
 */
extern void call_args_collect(FunctionCallInfo fcinfo, bool has_system, NullableDatum *args);
extern void call_args_spread(const NullableDatum *from, int n_from, bool has_system,
							 NullableDatum *args);

/* Resolves arguments, options and settings. Raises for bad ones. Needs call_has_request(args). */
extern void call_prepare(InferKind kind, const NullableDatum *args, Call *call);

/* The short form, for kinds without sampling: subject is text, or jsonb for RENDER. */
extern void call_prepare_plain(InferKind kind, NullableDatum subject, NullableDatum model,
							   Call *call);

/* request_submit for a prepared call; `call` must stay until the request is done. */
extern PgRequest *call_submit(MemoryContext context, const Call *call, int flags);

/*
 * What becomes of an error: raised, or, if soft and null_on_error, counted for the statement's
 * WARNING. Returns only in the latter case.
 */
extern void call_soften(const Call *call, const InferError *error);

/* The answer of a request that is done, as text in the server encoding. */
extern Datum call_text(const Call *call, const PgRequest *r, bool *isnull);

/*
 * Whether the request has one right answer, so that equal ones may share it. Those with a
 * temperature and no seed have not.
 */
extern bool call_is_deterministic(const Call *call);

/* The detail columns. Soft errors are in them, hard ones raise. */
extern void call_detail(const PgRequest *r, Datum *values, bool *nulls);

/* All NULL but sqlstate and so on: the row of a NULL prompt. */
extern void call_detail_null(Datum *values, bool *nulls);

/* UTF-8 of the engine to a text of ours; false: not valid, or not representable here. */
extern bool call_text_from_utf8(const char *bytes, int n_bytes, text **out, InferError *err);

#endif
