#include "postgres.h"

#include "pg/connection.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/shmem.h"
#include "storage/fd.h"
#include "storage/latch.h"

/* How soon a client that went away is noticed while we wait for its answer. */
#define CLIENT_CHECK_US INT64CONST(100000)

#define N_EVENTS		3
#define SOCKET_POSITION 2

static int engine_fd = -1;
static WaitEventSet *wait_set; /* of this engine_fd: epoll forgets a descriptor that was closed */
static bool waits_for_write;

bool
connection_is_open(void)
{
	return engine_fd >= 0;
}

static bool
would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS;
}

ConnectionOutcome
connection_open(InferError *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = INFER_SOCKET_PATH };

	if (engine_fd >= 0)
		return CONNECTION_OK;
	if (!AcquireExternalFD())
	{
		fail(err, INFER_NO_ENGINE, "too many open files to connect to the inference engine");
		return CONNECTION_FAILED;
	}
	engine_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (engine_fd < 0)
	{
		ReleaseExternalFD();
		fail(err, INFER_NO_ENGINE, "could not create a socket for the inference engine: %s",
			 strerror(errno));
		return CONNECTION_FAILED;
	}
	if (connect(engine_fd, (struct sockaddr *) &address, sizeof(address)) != 0)
	{
		bool again = would_block();

		fail(err, INFER_NO_ENGINE, "could not connect to the inference engine: %s",
			 strerror(errno));
		connection_close();
		return again ? CONNECTION_AGAIN : CONNECTION_FAILED;
	}
	return connection_ring(INFER_BELL_HELLO, INFER_LAYOUT_VERSION, INFER_REGION_MAGIC, -1);
}

ConnectionOutcome
connection_ring(InferDoorbellType type, uint32_t slot, uint64_t word, int fd)
{
	InferDoorbell frame = { (uint32_t) type, slot, word };
	struct iovec part = { &frame, sizeof(frame) };
	union
	{
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (engine_fd < 0)
		return CONNECTION_LOST;
	if (fd >= 0)
	{
		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		n = sendmsg(engine_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	else
		n = send(engine_fd, &frame, sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n == (ssize_t) sizeof(frame))
		return CONNECTION_OK;
	/* a part of a frame cannot be: the kernel takes so few bytes whole or not at all */
	return n < 0 && would_block() ? CONNECTION_AGAIN : CONNECTION_LOST;
}

static ConnectionOutcome
bells_take(void)
{
	char bytes[256];
	ssize_t n;

	do
		n = recv(engine_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (n == (ssize_t) sizeof(bytes));
	return n > 0 || (n < 0 && would_block()) ? CONNECTION_OK : CONNECTION_LOST;
}

static void
client_check(void)
{
	static int64 checked_at_us;
	int64 now_us = infer_monotonic_us();

	if (now_us - checked_at_us < CLIENT_CHECK_US)
		return;
	checked_at_us = now_us;
	if (MyProcPort != NULL && !infer_client_is_connected())
	{
		ClientConnectionLost = true;
		InterruptPending = true;
	}
}

static uint32
wait_event_id(void)
{
	static uint32 id;

	if (id == 0)
		id = infer_wait_event("InferResult");
	return id;
}

static void
wait_set_prepare(bool want_write)
{
	if (wait_set == NULL)
	{
		WaitEventSet *set = infer_create_session_wait_set(N_EVENTS);

		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
		AddWaitEventToSet(set, WL_SOCKET_READABLE, engine_fd, NULL, NULL);
		wait_set = set;
		waits_for_write = false;
	}
	if (waits_for_write != want_write)
	{
		ModifyWaitEvent(wait_set, SOCKET_POSITION,
						WL_SOCKET_READABLE | (want_write ? WL_SOCKET_WRITEABLE : 0), NULL);
		waits_for_write = want_write;
	}
}

/* Without a socket there is the latch: the supervisor's sweep sets it. */
static void
latch_wait(long timeout_ms)
{
	WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout_ms,
			  wait_event_id());
	ResetLatch(MyLatch);
}

ConnectionOutcome
connection_wait(long timeout_ms, bool want_write)
{
	ConnectionOutcome outcome = CONNECTION_OK;
	WaitEvent events[N_EVENTS];
	int n_events;

	if (engine_fd < 0)
		latch_wait(timeout_ms);
	else
	{
		wait_set_prepare(want_write);
		n_events = WaitEventSetWait(wait_set, timeout_ms, events, N_EVENTS, wait_event_id());
		for (int i = 0; i < n_events; i++)
		{
			if (events[i].events & WL_LATCH_SET)
				ResetLatch(MyLatch);
			if (events[i].events & WL_SOCKET_READABLE)
				outcome = bells_take();
		}
	}
	client_check();
	CHECK_FOR_INTERRUPTS();
	return outcome;
}

void
connection_close(void)
{
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = NULL;
	if (engine_fd >= 0)
	{
		close(engine_fd);
		ReleaseExternalFD();
	}
	engine_fd = -1;
}
