/*
 * shmem.h: what the postmaster makes before anyone else runs, and every process inherits:
 *
 *   the region     a sealed memfd, mapped shared (shared/region.h)
 *   the listener   a Unix socket below the data directory; open in the postmaster, so connects
 * queue up while the engine restarts InferState     the server's own shared memory, which the
 * engine never sees
 *
 * All three are made anew after a crash restart: an engine that outlived the crash holds dead
 * objects only.
 */
#ifndef INFER_PG_SHMEM_H
#define INFER_PG_SHMEM_H

#include "port/atomics.h"
#include "shared/region.h"
#include "storage/spin.h"

/* Relative to the data directory. Base backups skip names that begin with pgsql_tmp. */
#define INFER_SOCKET_DIRECTORY "pgsql_tmp_infer"
#define INFER_SOCKET_PATH	   INFER_SOCKET_DIRECTORY "/engine.sock"
#define INFER_LOCK_PATH		   INFER_SOCKET_DIRECTORY "/engine.lock"

typedef enum EngineStatus
{
	ENGINE_STARTING = 0, /* requests wait */
	ENGINE_READY,
	ENGINE_BACKOFF,	 /* died too often: requests fail at once, the supervisor tries again */
	ENGINE_DISABLED, /* the region or the listener could not be made */
	N_ENGINE_STATUSES
} EngineStatus;

typedef struct InferState
{
	pg_atomic_uint32 status;	 /* EngineStatus; supervisor */
	pg_atomic_uint32 n_restarts; /* engine starts after the first; supervisor */

	slock_t mutex; /* for what follows; supervisor writes */
	char last_exit[INFER_ERROR_TEXT_BYTES];
} InferState;

/* NULL when the library was not preloaded (or this is a single-user server). */
extern InferState *infer_state;

/* NULL likewise, and where status is DISABLED. */
extern InferRegion *infer_region;
extern InferRegion infer_geometry; /* private copy: what lengths and indexes are checked against */
extern int infer_region_fd;
extern int infer_listen_fd;

/* Requests memory and installs the startup hook. In _PG_init while preloading. */
extern void shmem_install_hooks(void);

/* Whether requests can be made; false: *err says why not and what to do. */
extern bool infer_available(InferError *err);

/* Makes a text that the engine wrote safe to show: ended, and valid in the server encoding. */
extern void infer_text_clean(char *text, size_t n_bytes);

extern const char *engine_status_name(uint32_t status);

/* Why the engine last ended, "" if it never did. `text` has INFER_ERROR_TEXT_BYTES. */
extern void infer_last_exit_read(char *text);
extern void infer_last_exit_write(const char *text);

#endif
