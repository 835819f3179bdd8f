/*
 * status.h: how a failure travels, in both programs.
 *
 * A function that can fail returns bool and takes an InferError last. On failure it calls fail()
 * once, at the place that knows what is wrong, and everybody above passes false on untouched:
 *
 *     if (n_tensors > GGUF_MAX_TENSORS)
 *         return fail(err, INFER_BAD_MODEL,
 *                     "model file \"%s\" is damaged\n"
 *                     "It claims %" PRIu64 " tensors.\n"
 *                     "Download the file again.", path, n_tensors);
 *
 * The format holds up to three parts, divided by newlines: message (what and where, lower case, no
 * full stop), DETAIL (the numbers, a sentence) and HINT (what to do, a sentence). A newline inside
 * an argument does not divide. Long parts are cut at a character boundary.
 *
 * An InferError is plain data without pointers: it lies in the shared region as it is. `err` may
 * not be NULL. Nothing here allocates; any thread may call it on its own InferError.
 */
#ifndef INFER_SHARED_STATUS_H
#define INFER_SHARED_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Values are part of the region's layout: append, never renumber. The SQLSTATE of each is in the
 * one table of src/pg/errors.c; here only what it means.
 */
typedef enum InferCode
{
	INFER_OK = 0,
	INFER_INTERNAL,			 /* our own promise broken: a bug                              XX000 */
	INFER_BAD_OPTION,		 /* an option is unknown or out of range                       22023 */
	INFER_BAD_INPUT,		 /* messages, template input or JSON that cannot be used       22023 */
	INFER_UNKNOWN_MODEL,	 /* no model of that name                                      42704 */
	INFER_MODEL_NOT_READY,	 /* known, but it failed to load or has not in load_timeout    55000 */
	INFER_BAD_MODEL,		 /* file damaged or of a kind that we do not run               55000 */
	INFER_NO_ENGINE,		 /* library not preloaded, engine disabled or in back-off      55000 */
	INFER_NO_PRIVILEGE,		 /*                                                            42501 */
	INFER_CANCELLED,		 /* by the user, or the session is gone                        57014 */
	INFER_BUDGET_SPENT,		 /* token limit of role or statement                           53400 */
	INFER_PROMPT_TOO_LONG,	 /* prompt + 1 token do not fit the context                    54000 */
	INFER_QUEUE_FULL,		 /* queue bound or slots exhausted                             53300 */
	INFER_ENGINE_DIED,		 /* engine restarted while the request was in flight           58000 */
	INFER_DEADLINE,			 /* infer.timeout passed                                       IN001 */
	INFER_SCHEMA_INCOMPLETE, /* JSON cut by max_tokens                                     IN002 */
	INFER_OUT_OF_KV,		 /* would not fit the KV cache even alone                      53200 */
	INFER_OUT_OF_MEMORY,	 /*                                                            53200 */
	INFER_NOT_REPRESENTABLE, /* answer has no form in the server encoding                  22P05 */
	INFER_IO,				 /* file cannot be opened or read                              58030 */
	INFER_LIMIT,			 /* template, grammar or regex ran out of its step budget      54000 */
	INFER_TEMPLATE_RAISED,	 /* the chat template itself refused: raise_exception          22023 */
	INFER_N_CODES
} InferCode;

#define INFER_ERROR_TEXT_BYTES 320

typedef struct InferError
{
	uint32_t code; /* InferCode */
	char message[INFER_ERROR_TEXT_BYTES];
	char detail[INFER_ERROR_TEXT_BYTES];
	char hint[INFER_ERROR_TEXT_BYTES];
} InferError;

_Static_assert(sizeof(InferError) == 4 + 3 * INFER_ERROR_TEXT_BYTES, "InferError is region layout");

/* Fills *err and returns false. The format's parts are divided by '\n' as told above. */
extern bool fail(InferError *err, InferCode code, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

/* Puts a prefix such as "model \"chat\": " before the message of a failure on its way up. */
extern bool fail_prefix(InferError *err, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));

/*
 * Compilers and analyzers see at the call that it is false, and so can follow what only a success
 * sets.
 */
static inline bool
infer_always_false(bool failed)
{
	(void) failed;
	return false;
}

#define fail(...)		 infer_always_false(fail(__VA_ARGS__))
#define fail_prefix(...) infer_always_false(fail_prefix(__VA_ARGS__))

extern void infer_error_clear(InferError *err);

/* "INFER_BAD_MODEL" for logs and tests; never NULL. */
extern const char *infer_code_name(uint32_t code);

/* True for the codes that on_error => 'null' turns into a NULL (design.md §4). */
extern bool infer_code_is_soft(uint32_t code);

#endif
