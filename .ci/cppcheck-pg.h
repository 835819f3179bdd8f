/* What cppcheck has to know of the server's macros; compiled by nobody. */
#define PG_MODULE_MAGIC
#define PG_FUNCTION_INFO_V1(name)
#define PG_FUNCTION_ARGS FunctionCallInfo fcinfo
#define PGDLLEXPORT
#define PGDLLIMPORT
#define pg_attribute_noreturn()
#define pg_attribute_printf(a, b)
#define ERROR				21
#define ereport(level, ...) ereport_call((level), (__VA_ARGS__))
#define elog(level, ...)	ereport_call((level), (__VA_ARGS__))
#define foreach(cell, list) for ((cell) = list_head(list); (cell) != 0; (cell) = lnext(list, cell))
#define PG_TRY()			if (1)
#define PG_CATCH()			else
#define PG_FINALLY()
#define PG_END_TRY()
