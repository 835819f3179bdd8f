/*
 * connection.h: this session's socket to the engine. It carries doorbells out and wake-ups in, and
 * its EOF is the news that the engine is gone.
 */
#ifndef INFER_PG_CONNECTION_H
#define INFER_PG_CONNECTION_H

#include "shared/doorbell.h"
#include "shared/status.h"

typedef enum ConnectionOutcome
{
	CONNECTION_OK,
	CONNECTION_AGAIN, /* not now: the backlog or the socket's buffer is full */
	CONNECTION_LOST,  /* EOF or broken: the caller calls connection_close */
	CONNECTION_FAILED /* cannot be made, *err says why */
} ConnectionOutcome;

extern bool connection_is_open(void);

/* Connects if need be. While the engine restarts this succeeds: the backlog keeps us. */
extern ConnectionOutcome connection_open(InferError *err);

/* Sends one frame, with a descriptor if fd >= 0. Never waits, allocates nothing, raises nothing. */
extern ConnectionOutcome connection_ring(InferDoorbellType type, uint32_t slot, uint64_t word,
										 int fd);

/*
 * Sleeps until the engine rings, the latch is set, or timeout_ms passed; also until frames can be
 * sent when want_write. Takes wake-up bytes off the socket, resets the latch, processes interrupts.
 */
extern ConnectionOutcome connection_wait(long timeout_ms, bool want_write);

/* Allocates nothing, raises nothing. */
extern void connection_close(void);

#endif
