/*
 * Questions to the tokenizer, answered by the engine without a model step.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "pg/call.h"
#include "pg/compat.h"
#include "pg/errors.h"
#include "utils/array.h"

INFER_FUNCTION(infer_count_tokens);
INFER_FUNCTION(infer_tokenize);

/* Waits for the answer; NULL when a soft error was turned into one. */
static PgRequest *
tokens_request(InferKind kind, FunctionCallInfo fcinfo)
{
	PgRequest *r;
	Call call;

	call_prepare_plain(kind, fcinfo->args[0], fcinfo->args[1], &call);
	r = call_submit(CurrentMemoryContext, &call, 0);
	request_wait(r);
	if (request_result(r)->error.code != INFER_OK)
	{
		call_soften(&call, &request_result(r)->error);
		request_free(r);
		return NULL;
	}
	return r;
}

Datum
infer_count_tokens(PG_FUNCTION_ARGS)
{
	PgRequest *r;
	int32 n_tokens;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	r = tokens_request(INFER_KIND_COUNT_TOKENS, fcinfo);
	if (r == NULL)
		PG_RETURN_NULL();
	n_tokens = request_result(r)->output_tokens;
	request_free(r);
	PG_RETURN_INT32(n_tokens);
}

Datum
infer_tokenize(PG_FUNCTION_ARGS)
{
	ArrayType *array;
	PgRequest *r;
	const char *bytes;
	Datum *ids;
	int n_bytes;
	int n_ids;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	r = tokens_request(INFER_KIND_TOKENIZE, fcinfo);
	if (r == NULL)
		PG_RETURN_NULL();
	bytes = request_output(r, &n_bytes);
	n_ids = n_bytes / (int) sizeof(int32);
	ids = palloc(Max(n_ids, 1) * sizeof(Datum));
	for (int i = 0; i < n_ids; i++)
	{
		int32 id;

		memcpy(&id, bytes + i * sizeof(id), sizeof(id));
		ids[i] = Int32GetDatum(id);
	}
	array = construct_array(ids, n_ids, INT4OID, sizeof(int32), true, TYPALIGN_INT);
	request_free(r);
	PG_RETURN_ARRAYTYPE_P(array);
}
