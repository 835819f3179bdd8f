/*
 * region: a hostile shared region and hostile sockets against the server loop, on a fake engine.
 *
 * The input is a script of operations, each a byte and what it takes: connect, frames (whole and in
 * parts), descriptors, good requests, cancels, EOF, steps, the supervisor's frames, and scribbles
 * anywhere in the region. Nothing may crash, hang, leak a descriptor or stay in flight when all
 * sessions are gone.
 */
#include "engine/serve/server.h"
#include "test/unit/fake_engine.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define N_SLOTS		 4
#define SLOT_BYTES	 16384
#define N_CLIENTS	 4
#define MAX_OPS		 200
#define MAX_SCRIBBLE 64

typedef struct Script
{
	const uint8_t *bytes;
	size_t n_left;
} Script;

typedef struct World
{
	void *memory;
	InferRegion geometry;
	struct sockaddr_un address;
	socklen_t address_bytes;
	int listen_fd;
	int control[2];
	int clients[N_CLIENTS];
	InferSlotRef refs[N_SLOTS]; /* what a client that behaves would know */
	Server *server;
} World;

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* ---- script ---- */

static void
take(Script *script, void *out, size_t n)
{
	size_t have = n < script->n_left ? n : script->n_left;

	memset(out, 0, n);
	memcpy(out, script->bytes, have);
	script->bytes += have;
	script->n_left -= have;
}

static uint8_t
take_byte(Script *script)
{
	uint8_t byte;

	take(script, &byte, 1);
	return byte;
}

static uint32_t
take_u32(Script *script)
{
	uint32_t n;

	take(script, &n, sizeof(n));
	return n;
}

/* ---- operations: client 0 .. N_CLIENTS - 1 has a socket or -1 ---- */

static void
op_connect(World *world, Script *script, int *client)
{
	InferDoorbell hello = { INFER_BELL_HELLO, INFER_LAYOUT_VERSION, INFER_REGION_MAGIC };

	if (*client >= 0)
		close(*client);
	*client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void) connect(*client, (struct sockaddr *) &world->address, world->address_bytes);
	if (take_byte(script) % 8 != 0)
		(void) send(*client, &hello, sizeof(hello), MSG_NOSIGNAL);
}

static void
op_bytes(World *world, Script *script, int *client)
{
	uint8_t bytes[MAX_SCRIBBLE];
	size_t n = take_byte(script) % sizeof(bytes) + 1;

	(void) world;
	take(script, bytes, n);
	(void) send(*client, bytes, n, MSG_NOSIGNAL);
}

/* Frames that come near to what is valid. */
static void
op_frame(World *world, Script *script, int *client)
{
	uint8_t choice = take_byte(script);
	InferSlotRef *ref = &world->refs[choice / 4 % N_SLOTS];
	InferDoorbell bell = { choice % 4 + 1u, ref->index, ref->word };

	if (choice >= 128)
		bell.word = infer_word_next(ref->word, (InferSlotState) (choice % 7));
	(void) send(*client, &bell, sizeof(bell), MSG_NOSIGNAL);
}

static void
op_submit(World *world, Script *script, int *client)
{
	uint32_t hint = take_byte(script);
	InferSlotRef ref;
	InferSlot *slot;
	InferDoorbell bell = { .type = INFER_BELL_SUBMIT };

	if (!infer_region_claim(world->memory, &world->geometry, hint, &ref))
		return;
	slot = infer_region_slot(world->memory, &world->geometry, ref.index);
	infer_request_init(&slot->request, (InferKind) (take_byte(script) % INFER_N_KINDS));
	slot->request.subject_bytes = take_byte(script) * 64u;
	slot->request.max_tokens = take_byte(script);
	slot->payload_in_memfd = take_byte(script) % 8 == 0;
	slot->backend_waiting = take_byte(script) % 2;
	if (infer_slot_move(slot, &ref.word, INFER_SLOT_SUBMITTED))
	{
		bell.slot = ref.index;
		bell.word = ref.word;
		(void) send(*client, &bell, sizeof(bell), MSG_NOSIGNAL);
	}
	world->refs[ref.index] = ref;
}

/* A legal or an illegal move by an owner, from the word as it is. */
static void
op_move(World *world, Script *script, int *client)
{
	uint8_t choice = take_byte(script);
	InferSlotRef *ref = &world->refs[choice % N_SLOTS];
	InferSlot *slot = infer_region_slot(world->memory, &world->geometry, ref->index);

	ref->word = atomic_load(&slot->word);
	if (infer_slot_move(slot, &ref->word, (InferSlotState) (choice / N_SLOTS % 8)) &&
		infer_word_state(ref->word) == INFER_SLOT_ABORTING)
	{
		InferDoorbell bell = { INFER_BELL_CANCEL, ref->index, ref->word };

		(void) send(*client, &bell, sizeof(bell), MSG_NOSIGNAL);
	}
}

static void
op_descriptor(World *world, Script *script, int *client)
{
	union
	{
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} ancillary;
	uint8_t choice = take_byte(script);
	InferSlotRef *ref = &world->refs[choice % N_SLOTS];
	InferDoorbell bell = { INFER_BELL_SUBMIT, ref->index, ref->word };
	struct iovec from = { &bell, choice % 16 == 0 ? 5 : sizeof(bell) };
	size_t n_fds = choice % 32 == 1 ? 3 : 1;
	struct msghdr message = { .msg_iov = &from,
							  .msg_iovlen = 1,
							  .msg_control = ancillary.bytes,
							  .msg_controllen = CMSG_SPACE(n_fds * sizeof(int)) };
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct cmsghdr *c;

	if (fd < 0)
		return;
	(void) !ftruncate(fd, take_byte(script) * 64);
	(void) fcntl(fd, F_ADD_SEALS, choice % 5 == 0 ? 0 : F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	memset(&ancillary, 0, sizeof(ancillary));
	c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	for (size_t i = 0; i < n_fds; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	(void) sendmsg(*client, &message, MSG_NOSIGNAL);
	close(fd);
}

static void
op_close(World *world, Script *script, int *client)
{
	(void) world;
	(void) script;
	if (*client >= 0)
		close(*client);
	*client = -1;
}

static void
op_step(World *world, Script *script, int *client)
{
	(void) client;
	for (int n = take_byte(script) % 8; n >= 0; n--)
		(void) engine_step(world->server->engine);
}

static void
op_scribble(World *world, Script *script, int *client)
{
	uint8_t bytes[MAX_SCRIBBLE];
	size_t n = take_byte(script) % sizeof(bytes) + 1;
	uint64_t at = take_u32(script) % (world->geometry.region_bytes - sizeof(bytes));

	(void) client;
	take(script, bytes, n);
	memcpy((char *) world->memory + at, bytes, n);
}

/* The slot's header is where scribbles matter most. */
static void
op_scribble_slot(World *world, Script *script, int *client)
{
	uint8_t bytes[16];
	size_t n = take_byte(script) % sizeof(bytes) + 1;
	uint32_t where = take_u32(script);
	InferSlot *slot = infer_region_slot(world->memory, &world->geometry, where % N_SLOTS);

	(void) client;
	take(script, bytes, n);
	memcpy((char *) slot + where / N_SLOTS % (sizeof(InferSlot) - sizeof(bytes)), bytes, n);
}

static void
op_control(World *world, Script *script, int *client)
{
	uint8_t choice = take_byte(script);
	InferDoorbell frame = { INFER_CONTROL_PING + choice % 4u, take_u32(script), 0 };

	(void) client;
	(void) send(world->control[0], &frame, choice == 255 ? 3 : sizeof(frame),
				MSG_NOSIGNAL | MSG_DONTWAIT);
	(void) control_turn(world->server);
}

static void (*const operations[])(World *, Script *, int *) = {
	op_connect, op_bytes, op_frame,	   op_submit,		 op_move,	 op_descriptor,
	op_close,	op_step,  op_scribble, op_scribble_slot, op_control,
};

#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- world ---- */

static bool
world_open(World *world)
{
	InferError err;
	ServerConfig config;

	memset(world, 0, sizeof(*world));
	for (int i = 0; i < N_CLIENTS; i++)
		world->clients[i] = -1;
	if (!infer_region_plan(N_SLOTS, SLOT_BYTES, &world->geometry, &err) ||
		(world->memory = aligned_alloc(4096, (size_t) world->geometry.region_bytes)) == NULL)
		return false;
	memset(world->memory, 0, (size_t) world->geometry.region_bytes);
	infer_region_format(world->memory, &world->geometry);
	world->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	world->address.sun_family = AF_UNIX;
	world->address_bytes = sizeof(world->address);
	if (bind(world->listen_fd, (struct sockaddr *) &world->address, sizeof(sa_family_t)) != 0 ||
		listen(world->listen_fd, 16) != 0 ||
		getsockname(world->listen_fd, (struct sockaddr *) &world->address, &world->address_bytes) !=
			0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, world->control) != 0)
		return false;
	config = (ServerConfig){ .memory = world->memory,
							 .region_bytes = (size_t) world->geometry.region_bytes,
							 .listen_fd = world->listen_fd,
							 .control_fd = world->control[1] };
	return server_create(&config, &world->server, &err);
}

static bool
world_turn(World *world)
{
	return server_turn(world->server, 0) && server_turn(world->server, 0);
}

static void
world_close(World *world)
{
	for (int i = 0; i < N_CLIENTS; i++)
		if (world->clients[i] >= 0)
			close(world->clients[i]);
	for (int i = 0; i < MAX_OPS && world->server->connections != NULL; i++)
		if (!server_turn(world->server, 0))
			break;
	while (world->server->connections != NULL)
		connection_close(world->server, world->server->connections);
	(void) engine_step(world->server->engine);
	if (atomic_load(&world->server->n_running) != 0)
		__builtin_trap();
	server_destroy(world->server);
	close(world->control[0]);
	close(world->control[1]);
	close(world->listen_fd);
	free(world->memory);
}

static int
descriptor_next(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	Script script = { data, n_bytes };
	World world;
	int first_free = descriptor_next();

	fake_model_state = INFER_MODEL_LOADING; /* one that is ready is told on stderr */
	if (!world_open(&world))
		__builtin_trap();
	for (int i = 0; i < MAX_OPS && script.n_left > 0; i++)
	{
		uint8_t op = take_byte(&script);

		operations[op % N_OPERATIONS](&world, &script,
									  &world.clients[op / N_OPERATIONS % N_CLIENTS]);
		if (!world_turn(&world))
			break;
	}
	world_close(&world);
	if (descriptor_next() != first_free)
		__builtin_trap();
	return 0;
}
