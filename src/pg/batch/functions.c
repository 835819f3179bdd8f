/* functions.c: which functions of the catalogue are ours, by symbol and library. */
#include "postgres.h"

#include "batch.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

extern PGDLLEXPORT Datum infer_stream(PG_FUNCTION_ARGS);

/* Every C function of ours that a plan node can run. */
static const struct
{
	const char *symbol;
	PGFunction address;
	FunctionRole role;
} known_functions[] = {
	{ "infer_stream", infer_stream, FUNCTION_STREAM },
};

typedef struct RoleEntry
{
	Oid function; /* key */
	FunctionRole role;
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
static FunctionRole
role_look_up(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	FunctionRole role = FUNCTION_FOREIGN;
	Form_pg_proc proc;
	char *symbol;

	if (!HeapTupleIsValid(tuple))
		return FUNCTION_FOREIGN;
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
				role = known_functions[i].role;
		}
		pfree(symbol);
	}
	ReleaseSysCache(tuple);
	return role;
}

FunctionRole
function_role(Oid function)
{
	RoleEntry *entry;
	FunctionRole role;

	if (function < FirstNormalObjectId)
		return FUNCTION_FOREIGN;
	roles_prepare();
	entry = hash_search(roles, &function, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->role;
	role = role_look_up(function);
	if (!roles_stale) /* else the answer may be old already */
	{
		entry = hash_search(roles, &function, HASH_ENTER, NULL);
		entry->role = role;
	}
	return role;
}
