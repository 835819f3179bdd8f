/* functions.c: which functions of the catalogue are ours, by symbol and library. */
#include "postgres.h"

#include "batch.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

extern PGDLLEXPORT Datum infer_stream(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum infer_generate(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum infer_generate_detail(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum infer_chat(PG_FUNCTION_ARGS);

static void
generate_prepare(const NullableDatum *args, int n_args, Call *call)
{
	NullableDatum spread[N_CALL_ARGS];

	call_args_spread(args, n_args, true, spread);
	call_prepare(INFER_KIND_GENERATE, spread, call);
}

static void
chat_prepare(const NullableDatum *args, int n_args, Call *call)
{
	NullableDatum spread[N_CALL_ARGS];

	call_args_spread(args, n_args, false, spread);
	call_prepare(INFER_KIND_CHAT, spread, call);
}

static Datum
text_answer(const Call *call, const PgRequest *r, Oid result_type, bool *isnull)
{
	return call_text(call, r, isnull);
}

static Datum
detail_answer(const Call *call, const PgRequest *r, Oid result_type, bool *isnull)
{
	TupleDesc columns = lookup_rowtype_tupdesc(result_type, -1);
	Datum values[N_DETAIL_COLUMNS];
	bool nulls[N_DETAIL_COLUMNS];
	HeapTuple row;

	if (columns->natts != N_DETAIL_COLUMNS)
		elog(ERROR, "infer: the row type of an answer has %d columns instead of %d", columns->natts,
			 N_DETAIL_COLUMNS);
	call_detail(r, values, nulls);
	row = heap_form_tuple(columns, values, nulls);
	ReleaseTupleDesc(columns);
	*isnull = false;
	return HeapTupleGetDatum(row);
}

/*
 * Every C function of ours that a plan node can run. What needs no step of the model is not worth a
 * place: its answer is there before another row could be pulled.
 */
/* clang-format off */
static const BatchFunction known_functions[] = {
	{ "infer_stream",          infer_stream,          FUNCTION_STREAM, NULL, NULL },
	{ "infer_generate",        infer_generate,        FUNCTION_BATCH, generate_prepare, text_answer },
	{ "infer_generate_detail", infer_generate_detail, FUNCTION_BATCH, generate_prepare, detail_answer },
	{ "infer_chat",            infer_chat,            FUNCTION_BATCH, chat_prepare,     text_answer },
};
/* clang-format on */

typedef struct RoleEntry
{
	Oid function; /* key */
	const BatchFunction *found;
} RoleEntry;

/* Answers of this session; pg_proc rows that change drop all of it. */
static HTAB *roles = NULL;
static bool roles_stale = false;

static void
roles_invalidate(Datum argument, int cache, uint32 hash)
{
	roles_stale = true;
}

static void
roles_prepare(void)
{
	HASHCTL control = { .keysize = sizeof(Oid), .entrysize = sizeof(RoleEntry) };
	static bool registered = false;

	if (!registered)
		CacheRegisterSyscacheCallback(PROCOID, roles_invalidate, (Datum) 0);
	registered = true;
	if (roles != NULL && roles_stale)
	{
		hash_destroy(roles);
		roles = NULL;
	}
	roles_stale = false;
	if (roles == NULL)
		roles = hash_create("infer functions", 32, &control, HASH_ELEM | HASH_BLOBS);
}

/*
 * The symbol is compared first, since resolving a function loads its library: only one that claims
 * our symbol is asked for its address, and that address is ours or not.
 */
static const BatchFunction *
function_look_up(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	const BatchFunction *found = NULL;
	Form_pg_proc proc;
	char *symbol;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prolang == ClanguageId && !proc->prosecdef &&
		heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL))
	{
		bool is_null;
		Datum prosrc = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &is_null);

		symbol = is_null ? pstrdup("") : TextDatumGetCString(prosrc);
		for (int i = 0; i < lengthof(known_functions); i++)
		{
			FmgrInfo info;

			if (strcmp(symbol, known_functions[i].symbol) != 0)
				continue;
			fmgr_info(function, &info);
			if (info.fn_addr == known_functions[i].address)
				found = &known_functions[i];
		}
		pfree(symbol);
	}
	ReleaseSysCache(tuple);
	return found;
}

const BatchFunction *
batch_function_find(Oid function)
{
	const BatchFunction *found;
	RoleEntry *entry;

	if (function < FirstNormalObjectId)
		return NULL;
	roles_prepare();
	entry = hash_search(roles, &function, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->found;
	found = function_look_up(function);
	if (!roles_stale) /* else the answer may be old already */
	{
		entry = hash_search(roles, &function, HASH_ENTER, NULL);
		entry->found = found;
	}
	return found;
}
