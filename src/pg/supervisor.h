/*
 * supervisor.h: the background worker that owns the engine, as its child program: starts it,
 * passes its log lines on, watches it, starts it again, and sweeps the slots of a dead one. It is
 * never in the way of a request.
 *
 * A background worker that dies of a signal takes the whole server through a crash restart, so this
 * one stays tiny: no model, no buffers. Its child may die of anything.
 */
#ifndef INFER_PG_SUPERVISOR_H
#define INFER_PG_SUPERVISOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "shared/status.h"

/* Registers the worker. In _PG_init while preloading. */
extern void supervisor_register(void);

extern PGDLLEXPORT void infer_supervisor_main(Datum argument);

/* ---- supervisor_child.c: the child program ---- */

typedef struct EngineChild
{
	pid_t pid;		/* 0: none */
	int control_fd; /* our end of the control socket */
	int stderr_fd;	/* its error output */
} EngineChild;

/* Path of the program: beside our own library. Static buffer. */
extern const char *engine_program_path(void);

/*
 * Starts the engine. `lock_fd` is held by it from then on, and closed here. False: nothing was
 * started.
 */
extern bool engine_child_start(EngineChild *child, int lock_fd, InferError *err);

extern void engine_child_close(EngineChild *child);

#endif
