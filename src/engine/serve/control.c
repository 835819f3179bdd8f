/* control.c: the supervisor's frames: pings are answered, settings taken anew. */
#include "server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* The control socket carries a frame a second at most: one that does not fit means nobody reads. */
bool
control_send(Server *server, InferControlType type, uint32_t slot, uint64_t word)
{
	InferDoorbell frame = { .type = (uint32_t) type, .slot = slot, .word = word };
	ssize_t n;

	if (server->control_fd < 0)
		return true;
	do
		n = send(server->control_fd, &frame, sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t) sizeof(frame) || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

static void
text_terminate(char *text, size_t n_bytes)
{
	text[n_bytes - 1] = '\0';
}

void
settings_read(const InferRegion *region, InferSettings *out)
{
	/* A supervisor that died while writing leaves what was there; each field is checked by the
	 * engine in any case. */
	(void) infer_block_read(&region->settings_version, &region->settings, out, sizeof(*out));
	text_terminate(out->model_directory, sizeof(out->model_directory));
	text_terminate(out->models, sizeof(out->models));
	text_terminate(out->device, sizeof(out->device));
	text_terminate(out->kv_type, sizeof(out->kv_type));
}

void
settings_reload(Server *server)
{
	InferSettings settings;

	if (!atomic_exchange_explicit(&server->reload_wanted, false, memory_order_acquire))
		return;
	settings_read(server->region, &settings);
	engine_settings_set(server->engine, &settings);
	models_expect_change(server);
}

static bool
thread_gets_on(_Atomic int64_t *since_ms)
{
	int64_t since = atomic_load_explicit(since_ms, memory_order_relaxed);

	return since == 0 || server_clock_ms() - since < SERVER_STUCK_MS;
}

static bool
control_serve(Server *server, const InferDoorbell *frame)
{
	switch (frame->type)
	{
		case INFER_CONTROL_PING:
			if (!thread_gets_on(&server->intake_since_ms) ||
				!thread_gets_on(&server->step_since_ms))
				return true;
			return control_send(server, INFER_CONTROL_PONG, frame->slot, frame->word);
		case INFER_CONTROL_RELOAD:
			atomic_store_explicit(&server->reload_wanted, true, memory_order_release);
			server_wake(server);
			return true;
		default:
			return false;
	}
}

/* The supervisor writes whole frames, so what is read is whole frames. */
bool
control_turn(Server *server)
{
	InferDoorbell frames[16];
	ssize_t n;

	/* The supervisor may have made its socket non-blocking for both of us. */
	do
	{
		struct pollfd readable = { .fd = server->control_fd, .events = POLLIN };

		(void) poll(&readable, 1, -1);
		n = recv(server->control_fd, frames, sizeof(frames), 0);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n <= 0 || n % (ssize_t) sizeof(InferDoorbell) != 0)
		return false;
	for (ssize_t i = 0; i < n / (ssize_t) sizeof(InferDoorbell); i++)
		if (!control_serve(server, &frames[i]))
			return false;
	return true;
}
