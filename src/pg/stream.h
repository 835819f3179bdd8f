/*
 * stream.h: an answer piece by piece, each on its way to the client before the next is waited for.
 * Used by the function infer_stream and by the plan node that replaces its FunctionScan.
 *
 * A client that reads slowly holds up nobody but itself: before each wait the backend flushes what
 * it has, and waits for a writable socket with interrupts on. The engine's output meanwhile fills
 * the ring, then the sequence is paused and its pages go to others.
 */
#ifndef INFER_PG_STREAM_H
#define INFER_PG_STREAM_H

#include "fmgr.h"
#include "pg/call.h"

typedef struct Stream Stream;

#define N_STREAM_COLUMNS 4 /* seq, piece, finish_reason, output_tokens */

/*
 * Starts a stream. `args` in CallArg order. Lives in `context`, whose end cancels it. NULL when
 * there is no request: no rows then.
 */
extern Stream *stream_open(MemoryContext context, const NullableDatum *args);

/*
 * The next row, its values in the current memory context. The last row has a finish_reason and an
 * empty piece; after it false is returned. Raises when the answer cannot be finished, unless
 * on_error is 'null': then the last row's finish_reason is "error".
 */
extern bool stream_next(Stream *stream, Datum *values, bool *nulls);

/* Sends what the client has not got yet, waiting for it with interrupts on. */
extern void stream_flush_to_client(void);

#endif
