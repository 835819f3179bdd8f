/*
 * request.h: the backend's side of a request: claims a slot, submits, waits, drains, cancels, and
 * sends it again when the engine died under it (shared/slot.h tells the protocol).
 *
 * A session may have many requests in flight. None of these functions raises an error of ours: a
 * request that could not be made is one that is done with an error in its result. They do process
 * interrupts while waiting, so any of them that waits may not return.
 *
 *     PgRequest *r = request_submit(context, &request, payload, 0);
 *     while (!request_poll(r))
 *         request_wait_any();
 *     ... request_result(r), request_output(r) ...
 *     request_free(r);
 *
 * Owner: the memory context. Its reset or deletion cancels what is still in flight, and so does the
 * end of the resource owner that was current at submit; both cover every kind of abort. The engine
 * then frees sequence and pages at its next step.
 */
#ifndef INFER_PG_REQUEST_H
#define INFER_PG_REQUEST_H

#include "lib/stringinfo.h"
#include "shared/request.h"

typedef struct PgRequest PgRequest;

#define REQUEST_STREAM 0x1 /* pieces are taken one by one, with request_next_piece */
#define REQUEST_DETACH 0x2 /* lives until freed or the session ends, across transactions */
#define REQUEST_TRY	   0x4 /* NULL instead of queueing here when no slot is free for this session */

/*
 * `payload` must stay until the request is done: it is what is sent again. Its size is
 * infer_request_payload_bytes(request), and infer_request_check() has passed.
 */
extern PgRequest *request_submit(MemoryContext context, const InferRequest *request,
								 const char *payload, int flags);

/* A request that is done before it began, with this error: callers then treat all alike. */
extern PgRequest *request_refused(MemoryContext context, const InferError *error);

/* Drains what has come; true when the request is done. Never waits. */
extern bool request_poll(PgRequest *r);

/* Sleeps until any request of this session that is not a stream may have moved on. */
extern void request_wait_any(void);

/* Polls and waits until r is done. */
extern void request_wait(PgRequest *r);

/* STREAM: waits for the next piece (UTF-8, put into *piece). False: done, see the result. */
extern bool request_next_piece(PgRequest *r, StringInfo piece, uint32 *output_tokens);

/* Valid when done. Texts are valid in the server encoding. */
extern const InferResult *request_result(const PgRequest *r);

/* Valid when done and not a stream: UTF-8 as the engine sent it, not validated yet. */
extern const char *request_output(const PgRequest *r, int *n_bytes);

/* Ends it now, with this error in its result. */
extern void request_cancel(PgRequest *r, const InferError *error);

/* Cancels if in flight. */
extern void request_free(PgRequest *r);

/* Whether it has as many in flight as infer.max_session_requests allows. */
extern bool request_session_is_full(void);

/* How many a query of this session may keep in flight: infer.prefetch or what suits the engine. */
extern int request_window(void);

/* In _PG_init. */
extern void request_install_callbacks(void);

#endif
