/*
 * server.h: the inside of serve/: one Server between the sockets, the shared region and the engine.
 *
 * Three threads. The intake thread (server_turn) owns the epoll set, every Connection and the list
 * of bindings that hangs on it. The step thread (server_step_loop) runs the engine. They meet in a
 * Binding: the tie of one slot to the connection that submitted it and to the engine's request. The
 * control thread (control_turn) sleeps in a read of the supervisor's socket and owns nothing: its
 * end is the process's end, and it answers pings as long as the two others get on.
 *
 *     intake    SUBMIT: take the slot, bind, engine_submit      CANCEL, DRAINED, EOF: tell the
 * engine step      EngineSink: piece and progress into the slot, finish = result, DONE, unbind
 *
 * Locking. Each Binding has a mutex. finish() takes it to clear `running` and `handle`; the intake
 * thread holds it around engine_cancel and engine_drained: so these are never called after
 * finish(). It is also held whenever a connection's descriptor is used from the step thread, and
 * EOF takes it to cut the binding from its connection before the descriptor is closed. The lock
 * order is binding, then the engine's queue; the engine calls a sink with none of its locks held.
 * engine_submit is called with no lock held, since it may call finish() at once.
 *
 * The region is hostile. Geometry is a private copy, every length is copied once and checked after
 * that, a payload that others could still change is copied before the engine sees it, and a slot is
 * moved only from the exact word last seen. The worst that a scribble can do is to spoil answers.
 */
#ifndef INFER_ENGINE_SERVER_H
#define INFER_ENGINE_SERVER_H

#include "engine/engine.h"
#include "shared/doorbell.h"
#include "shared/region.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Doorbells taken from a connection at once: fair to the others. */
#define SERVER_FRAMES_READ 64

/* How often the models table is compared while anything moves, and how many times more after a
 * change was asked for, since loads start late. */
#define SERVER_TICK_MS	   100
#define SERVER_TICKS_AFTER 10

/*
 * A thread that is in one turn or one step for longer hangs: pings are not answered any more and
 * the supervisor makes an end of it. Far above an honest step of a large model on a small machine.
 */
#define SERVER_STUCK_MS INT64_C(300000)

typedef struct Server Server;
typedef struct Connection Connection;

typedef struct Binding
{
	/* Config: constant after server_create */
	Server *server;
	uint32_t index; /* of the slot */
	InferSlot *slot;
	InferRing ring;
	pthread_mutex_t lock;

	/* under `lock` */
	Connection *connection; /* NULL: its session is gone, or nobody came yet */
	EngineRequest *handle;	/* NULL before engine_submit returned and after finish() */
	uint64_t word;			/* of the slot, as the engine left it: RUNNING, then DONE */
	bool running;			/* between taking the slot and finish() */

	/* the intake thread's: the list of its connection */
	struct Binding *previous;
	struct Binding *next;
	bool linked;
} Binding;

struct Connection
{
	int fd;
	uint64_t session; /* names it for the engine's fairness */
	bool greeted;	  /* HELLO was right */

	/* Frames as they come in, and the descriptor that came with one of them. */
	_Alignas(InferDoorbell) uint8_t bytes[SERVER_FRAMES_READ * sizeof(InferDoorbell)];
	size_t n_bytes;
	int carried_fd;	   /* -1: none */
	size_t carried_at; /* byte in `bytes` where its frame begins */

	Binding *bindings; /* what is bound to it, finished ones included until their slot is rebound */
	Connection *previous;
	Connection *next;
};

struct Server
{
	/* Config: constant after server_create */
	void *memory;
	InferRegion *region;   /* = memory */
	InferRegion *geometry; /* private copy of the header */
	Engine *engine;
	int listen_fd;
	int control_fd;
	int epoll_fd;
	int wake_fd; /* eventfd: server_stop, a reload */
	uid_t uid;	 /* who may connect */

	Binding *bindings; /* [n_slots] */
	char *payload;	   /* [prompt_bytes]: copy of a slot's prompt area */

	/* the intake thread's */
	Connection *connections;
	uint64_t n_sessions;
	bool accepting; /* false while descriptors have run out */
	bool ticking;
	int64_t next_tick_ms;
	int32_t n_ticks_left;
	bool models_shown;
	InferModelEntry models[INFER_MAX_MODELS]; /* as published, once shown */

	/* all */
	_Atomic int32_t n_running;
	_Atomic bool stopping;
	_Atomic bool reload_wanted;
	_Atomic int64_t intake_since_ms; /* begin of the turn it is in; 0: it waits */
	_Atomic int64_t step_since_ms;	 /* likewise of the step */
};

typedef struct ServerConfig
{
	void *memory; /* the region, mapped; stays the caller's */
	size_t region_bytes;
	int listen_fd;	/* these stay the caller's too; made non-blocking */
	int control_fd; /* -1: none (tests) */
} ServerConfig;

/* ---- serve.c ---- */

/* Checks the region, starts the engine on its settings, publishes engine fields, says READY. */
extern bool server_create(const ServerConfig *config, Server **out, InferError *err);

/* Both threads must have left. Closes connections, destroys the engine. */
extern void server_destroy(Server *server);

/* Any thread, also a sink: both loops return. */
extern void server_stop(Server *server);

/* Makes the intake thread look at what is wanted. Any thread. */
extern void server_wake(Server *server);

/* Steps until server_stop. */
extern void server_step_loop(Server *server);

extern int64_t server_clock_ms(void);

/* ---- intake.c, on the intake thread ---- */

/*
 * One round: waits up to timeout_ms (-1: until something happens) and serves all that came. False:
 * server_stop was called.
 */
extern bool server_turn(Server *server, int timeout_ms);

/* Cancels what is bound to it, frees its finished slots, closes it. */
extern void connection_close(Server *server, Connection *connection);

/* ---- submit.c, on the intake thread. False: malformed, the connection is to be closed. ---- */

/* payload_fd: -1 or the memfd that came along; stays the caller's. */
extern bool binding_submit(Server *server, Connection *connection, const InferDoorbell *bell,
						   int payload_fd);
extern bool binding_cancel(Server *server, Connection *connection, const InferDoorbell *bell);
extern bool binding_drained(Server *server, Connection *connection, const InferDoorbell *bell);

/* The connection is at EOF: cancel, or free the slot that holds an answer nobody will read. */
extern void binding_abandon(Binding *binding);

/* ---- answer.c ---- */

extern EngineSink answer_sink(Binding *binding);

/* The sink's finish, also for requests that the engine never saw. */
extern void answer_finish(Binding *binding, const InferResult *result);

/* ---- control.c ---- */

/* Waits for frames of the supervisor and serves them. False: it is gone, or talks nonsense. */
extern bool control_turn(Server *server);

extern bool control_send(Server *server, InferControlType type, uint32_t slot, uint64_t word);

/* A private, terminated copy of the settings in the region. */
extern void settings_read(const InferRegion *region, InferSettings *out);

/* Hands the settings on if the supervisor asked for that. On the intake thread. */
extern void settings_reload(Server *server);

/* ---- models.c, on the intake thread ---- */

/* Writes models and max_sequences into the region if they changed. */
extern void models_publish(Server *server);

/* Milliseconds until models_publish is due; -1: nothing moves. */
extern int models_timeout_ms(Server *server);

/* Asks for ticks while a load may begin or end. */
extern void models_expect_change(Server *server);

#endif
