/*
 * errors.h: the one place where a failure of ours becomes an error of the server.
 */
#ifndef INFER_PG_ERRORS_H
#define INFER_PG_ERRORS_H

#include "shared/status.h"

/* ereport with the SQLSTATE of error->code, message, DETAIL and HINT. Returns only below ERROR. */
extern void infer_report(int elevel, const InferError *error);

/* "58000" and so on, in a buffer that the next call overwrites. */
extern const char *infer_code_sqlstate(uint32_t code);

/*
 * A soft error that was turned into a NULL: counted now, reported when the top-level statement
 * ends, in one WARNING with a count for each SQLSTATE. The last message is kept as an example.
 */
extern void infer_count_soft_error(const InferError *error);

/* Hooks that know where a top-level statement ends. In _PG_init. */
extern void errors_install_hooks(void);

#endif
