/*
 * serve_rig.h: a private region with a server on it, on the fake engine. The tests play the
 * backends and the supervisor, in one process.
 */
#ifndef INFER_TEST_SERVE_RIG_H
#define INFER_TEST_SERVE_RIG_H

#include "engine/serve/server.h"
#include "fake_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define N_SLOTS	   16
#define SLOT_BYTES 16384

/* A private region with a server on it; the tests play the backends. */
typedef struct Rig
{
	void *memory;
	InferRegion geometry;
	InferRegion *region;
	int listen_fd;
	int control_fd; /* the supervisor's end */
	int engine_control_fd;
	struct sockaddr_un address;
	socklen_t address_bytes;
	Server *server;
} Rig;

/* ---- rig ---- */

static inline Rig *
rig_create(void)
{
	Rig *rig = calloc(1, sizeof(*rig));
	InferError err;
	int pair[2];

	assert_true(infer_region_plan(N_SLOTS, SLOT_BYTES, &rig->geometry, &err));
	rig->memory = aligned_alloc(4096, (size_t) rig->geometry.region_bytes);
	memset(rig->memory, 0, (size_t) rig->geometry.region_bytes);
	infer_region_format(rig->memory, &rig->geometry);
	rig->region = rig->memory;

	/* bound to its family only: the kernel picks an abstract name */
	rig->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rig->address.sun_family = AF_UNIX;
	assert_int_equal(bind(rig->listen_fd, (struct sockaddr *) &rig->address, sizeof(sa_family_t)),
					 0);
	assert_int_equal(listen(rig->listen_fd, 64), 0);
	rig->address_bytes = sizeof(rig->address);
	getsockname(rig->listen_fd, (struct sockaddr *) &rig->address, &rig->address_bytes);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	rig->control_fd = pair[0];
	rig->engine_control_fd = pair[1];
	return rig;
}

static inline bool
rig_start(Rig *rig, InferError *err)
{
	ServerConfig config = { .memory = rig->memory,
							.region_bytes = (size_t) rig->geometry.region_bytes,
							.listen_fd = rig->listen_fd,
							.control_fd = rig->engine_control_fd };

	return server_create(&config, &rig->server, err);
}

static inline int
rig_setup(void **state)
{
	Rig *rig = rig_create();
	InferError err;

	assert_true(rig_start(rig, &err));
	*state = rig;
	return 0;
}

static inline int
rig_teardown(void **state)
{
	Rig *rig = *state;

	if (rig->server != NULL)
		server_destroy(rig->server);
	close(rig->listen_fd);
	if (rig->control_fd >= 0)
		close(rig->control_fd);
	close(rig->engine_control_fd);
	free(rig->memory);
	free(rig);
	return 0;
}

/* Rounds until nothing is left to serve: all traffic here is synchronous. */
static inline bool
rig_settle(Rig *rig)
{
	for (int i = 0; i < 8; i++)
		if (!server_turn(rig->server, 0))
			return false;
	return true;
}

static inline void
rig_step(Rig *rig, int n)
{
	for (int i = 0; i < n; i++)
		(void) engine_step(rig->server->engine);
}

static inline InferSlot *
slot_at(Rig *rig, uint32_t index)
{
	return infer_region_slot(rig->memory, &rig->geometry, index);
}

static inline InferSlotState
slot_state(Rig *rig, uint32_t index)
{
	return infer_word_state(atomic_load_explicit(&slot_at(rig, index)->word, memory_order_acquire));
}

/* ---- a backend ---- */

static inline void
bell_send(int fd, uint32_t type, uint32_t slot, uint64_t word)
{
	InferDoorbell bell = { type, slot, word };

	assert_int_equal(send(fd, &bell, sizeof(bell), MSG_NOSIGNAL), sizeof(bell));
}

static inline int
backend_connect(Rig *rig)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *) &rig->address, rig->address_bytes), 0);
	return fd;
}

static inline int
backend_hello(Rig *rig)
{
	int fd = backend_connect(rig);

	bell_send(fd, INFER_BELL_HELLO, INFER_LAYOUT_VERSION, INFER_REGION_MAGIC);
	return fd;
}

static inline InferSlotRef
slot_claim(Rig *rig, InferKind kind, const char *subject, int32_t max_tokens)
{
	InferSlotRef ref;
	InferSlot *slot;

	assert_true(infer_region_claim(rig->memory, &rig->geometry, 0, &ref));
	slot = slot_at(rig, ref.index);
	infer_request_init(&slot->request, kind);
	slot->request.subject_bytes = strlen(subject);
	slot->request.max_tokens = max_tokens;
	if (strlen(subject) <= rig->geometry.prompt_bytes)
		memcpy(infer_region_prompt(rig->memory, &rig->geometry, ref.index), subject,
			   strlen(subject));
	return ref;
}

static inline void
slot_submit(Rig *rig, int fd, InferSlotRef *ref)
{
	assert_true(infer_slot_move(slot_at(rig, ref->index), &ref->word, INFER_SLOT_SUBMITTED));
	bell_send(fd, INFER_BELL_SUBMIT, ref->index, ref->word);
}

/* As the owner does when the slot runs: the word it has not seen yet is one further. */
static inline bool
slot_cancel(Rig *rig, InferSlotRef *ref)
{
	ref->word = infer_word_next(ref->word, INFER_SLOT_RUNNING);
	return infer_slot_move(slot_at(rig, ref->index), &ref->word, INFER_SLOT_ABORTING);
}

static inline InferSlotRef
submitted(Rig *rig, int fd, InferKind kind, const char *subject, int32_t max_tokens)
{
	InferSlotRef ref = slot_claim(rig, kind, subject, max_tokens);

	slot_submit(rig, fd, &ref);
	return ref;
}

/* Takes all pieces that wait; returns the bytes. */
static inline size_t
ring_read(Rig *rig, uint32_t index, char *out, size_t room)
{
	InferRing ring = infer_region_ring(rig->memory, &rig->geometry, index);
	InferPiece piece;
	bool damaged;
	size_t n = 0;

	while (infer_ring_peek(&ring, &piece, &damaged))
	{
		assert_true(n + piece.n_bytes <= room);
		infer_ring_take(&ring, &piece, out + n);
		n += piece.n_bytes;
	}
	assert_false(damaged);
	return n;
}

static inline bool
is_closed(int fd)
{
	char byte;
	ssize_t n;

	do
		n = recv(fd, &byte, 1, MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

static inline int
bells_received(int fd)
{
	char bytes[64];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	return n > 0 ? (int) n : 0;
}

static inline uint32_t
result_code(Rig *rig, uint32_t index)
{
	assert_int_equal(slot_state(rig, index), INFER_SLOT_DONE);
	return slot_at(rig, index)->result.error.code;
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

#endif
