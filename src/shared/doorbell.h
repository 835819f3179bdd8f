/*
 * doorbell.h: what travels on the Unix stream socket between one backend and the engine.
 *
 * Backend to engine: InferDoorbell frames of 16 bytes. SUBMIT may carry one descriptor
 * (SCM_RIGHTS): a sealed memfd with a payload too large for the slot. Engine to backend: single
 * bytes without meaning ("look at your slots"), sent only to a backend that says it sleeps. EOF is
 * the message that the other side is gone, made by the kernel, at once.
 *
 * The first frame of a connection is HELLO: slot = layout version, word = magic. The engine closes
 * the connection on anything malformed.
 */
#ifndef INFER_SHARED_DOORBELL_H
#define INFER_SHARED_DOORBELL_H

#include <stdint.h>

typedef enum InferDoorbellType
{
	INFER_BELL_HELLO = 1,
	INFER_BELL_SUBMIT,	/* slot, word as after SUBMITTED */
	INFER_BELL_CANCEL,	/* slot, word as after ABORTING */
	INFER_BELL_DRAINED, /* slot: its ring has room again */
	INFER_N_BELLS
} InferDoorbellType;

typedef struct InferDoorbell
{
	uint32_t type;
	uint32_t slot;
	uint64_t word;
} InferDoorbell;

_Static_assert(sizeof(InferDoorbell) == 16, "InferDoorbell is wire format");

/*
 * Supervisor and engine talk on a socketpair (the control socket) in the same frames:
 *   supervisor: PING (slot = serial), RELOAD (settings in the region changed)
 *   engine:     PONG (slot = serial), READY (intake works; word = epoch)
 */
typedef enum InferControlType
{
	INFER_CONTROL_PING = 101,
	INFER_CONTROL_PONG,
	INFER_CONTROL_RELOAD,
	INFER_CONTROL_READY
} InferControlType;

/* Fixed descriptor numbers of the engine program after exec. */
#define INFER_FD_CONTROL 3
#define INFER_FD_REGION	 4
#define INFER_FD_LISTEN	 5
#define INFER_FD_LOCK	 6

#endif
