/* intake.c: the epoll loop: sessions come, ring and go; what a frame asks for is in submit.c. */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_READ 64

/* More than one descriptor in a message is malformed; room for a few so that they can be closed. */
#define DESCRIPTORS_READ 4

static void
server_accept_more(Server *server, bool on)
{
	struct epoll_event event = { .events = on ? EPOLLIN : 0, .data.ptr = &server->listen_fd };

	server->accepting = on;
	(void) epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listen_fd, &event);
}

static void
connection_drop_descriptor(Connection *connection)
{
	if (connection->carried_fd >= 0)
		close(connection->carried_fd);
	connection->carried_fd = -1;
}

void
connection_close(Server *server, Connection *connection)
{
	while (connection->bindings != NULL)
		binding_abandon(connection->bindings);
	connection_drop_descriptor(connection);
	close(connection->fd);
	if (connection->previous != NULL)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next != NULL)
		connection->next->previous = connection->previous;
	free(connection);
	infer_counter_add(&server->region->counters.connections_closed, 1);
	if (!server->accepting)
		server_accept_more(server, true);
}

static bool
connection_is_ours(const Server *server, int fd)
{
	struct ucred peer;
	socklen_t n_bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0 && peer.uid == server->uid;
}

static bool
connection_open(Server *server, int fd)
{
	Connection *connection = calloc(1, sizeof(*connection));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };

	if (connection == NULL)
		return false;
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
	{
		free(connection);
		return false;
	}
	connection->fd = fd;
	connection->carried_fd = -1;
	connection->session = ++server->n_sessions;
	connection->next = server->connections;
	if (connection->next != NULL)
		connection->next->previous = connection;
	server->connections = connection;
	infer_counter_add(&server->region->counters.connections_opened, 1);
	return true;
}

/*
 * Takes all who wait. Out of descriptors the listening socket is left alone until a connection
 * closes or the next tick, or its readiness would keep this loop spinning.
 */
static void
connections_accept(Server *server)
{
	for (;;)
	{
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
		{
			if (!connection_is_ours(server, fd) || !connection_open(server, fd))
				close(fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
		{
			server_accept_more(server, false);
			models_expect_change(server);
		}
		return;
	}
}

/* ---- frames ---- */

static bool
frame_serve(Server *server, Connection *connection, const InferDoorbell *bell, int payload_fd)
{
	if (!connection->greeted)
	{
		connection->greeted = bell->type == INFER_BELL_HELLO &&
							  bell->slot == INFER_LAYOUT_VERSION &&
							  bell->word == INFER_REGION_MAGIC;
		return connection->greeted;
	}
	switch (bell->type)
	{
		case INFER_BELL_SUBMIT:
			return binding_submit(server, connection, bell, payload_fd);
		case INFER_BELL_CANCEL:
			return binding_cancel(server, connection, bell);
		case INFER_BELL_DRAINED:
			return binding_drained(server, connection, bell);
		default:
			return false;
	}
}

/* Serves the whole frames that are there and keeps the beginning of the next one. */
static bool
frames_serve(Server *server, Connection *connection)
{
	size_t done = 0;

	while (connection->n_bytes - done >= sizeof(InferDoorbell))
	{
		bool carries = connection->carried_fd >= 0 && connection->carried_at == done;
		InferDoorbell bell;
		bool well_formed;

		memcpy(&bell, connection->bytes + done, sizeof(bell));
		well_formed = frame_serve(server, connection, &bell, carries ? connection->carried_fd : -1);
		if (carries)
			connection_drop_descriptor(connection);
		if (!well_formed)
			return false;
		done += sizeof(bell);
	}
	connection->n_bytes -= done;
	memmove(connection->bytes, connection->bytes + done, connection->n_bytes);
	if (connection->carried_fd >= 0)
		connection->carried_at -= done;
	return true;
}

/* Keeps one descriptor in *fd and closes others: false when there were any. */
static bool
descriptors_take(struct msghdr *message, int *fd)
{
	bool single = (message->msg_flags & MSG_CTRUNC) == 0;

	*fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
	{
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++)
		{
			int received;

			memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof(received));
			if (*fd < 0)
				*fd = received;
			else
			{
				close(received);
				single = false;
			}
		}
	}
	return single;
}

/*
 * The kernel ends a read behind the message that brought a descriptor, so the descriptor belongs to
 * the last frame of what was read, whole or begun.
 */
static bool
descriptor_assign(Connection *connection, int fd)
{
	if (fd < 0)
		return true;
	if (connection->carried_fd >= 0)
	{
		close(fd);
		return false;
	}
	connection->carried_fd = fd;
	connection->carried_at =
		(connection->n_bytes - 1) / sizeof(InferDoorbell) * sizeof(InferDoorbell);
	return true;
}

/* One read, level-triggered: what is left comes in the next round. False: EOF or malformed. */
static bool
connection_read(Server *server, Connection *connection)
{
	union
	{
		struct cmsghdr align;
		char bytes[CMSG_SPACE(DESCRIPTORS_READ * sizeof(int))];
	} ancillary;
	struct iovec into = { .iov_base = connection->bytes + connection->n_bytes,
						  .iov_len = sizeof(connection->bytes) - connection->n_bytes };
	struct msghdr message = { .msg_iov = &into,
							  .msg_iovlen = 1,
							  .msg_control = ancillary.bytes,
							  .msg_controllen = sizeof(ancillary.bytes) };
	ssize_t n = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	bool single;
	int fd;

	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
	single = descriptors_take(&message, &fd);
	if (n == 0 || !single)
	{
		if (fd >= 0)
			close(fd);
		return false;
	}
	connection->n_bytes += (size_t) n;
	return descriptor_assign(connection, fd) && frames_serve(server, connection);
}

/* ---- the loop ---- */

static void
wake_take(Server *server)
{
	uint64_t n;

	(void) !read(server->wake_fd, &n, sizeof(n));
	settings_reload(server);
}

static void
event_serve(Server *server, void *source)
{
	if (source == &server->wake_fd)
		wake_take(server);
	else if (source == &server->listen_fd)
		connections_accept(server);
	else if (!connection_read(server, source))
		connection_close(server, source);
}

bool
server_turn(Server *server, int timeout_ms)
{
	struct epoll_event events[EVENTS_READ];
	int models_ms = models_timeout_ms(server);
	int n;

	if (timeout_ms < 0 || (models_ms >= 0 && models_ms < timeout_ms))
		timeout_ms = models_ms;
	atomic_store_explicit(&server->intake_since_ms, 0, memory_order_relaxed);
	n = epoll_wait(server->epoll_fd, events, EVENTS_READ, timeout_ms);
	atomic_store_explicit(&server->intake_since_ms, server_clock_ms(), memory_order_relaxed);
	for (int i = 0; i < n; i++)
		event_serve(server, events[i].data.ptr);
	if (models_timeout_ms(server) == 0)
	{
		models_publish(server);
		if (!server->accepting)
			server_accept_more(server, true);
	}
	return !atomic_load_explicit(&server->stopping, memory_order_relaxed);
}
