/*
 * submit.c: what doorbells ask for: a slot is taken, its request copied and checked, handed to the
 * engine, cancelled or offered its output again.
 */
#include "server.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAYLOAD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* What the engine reads: either the server's copy of the prompt area or a mapped memfd. */
typedef struct Payload
{
	const char *bytes;
	uint64_t n_bytes;
	void *mapped; /* NULL: nothing to unmap */
} Payload;

/*
 * Only a sealed memfd is mapped: nobody can shrink it (SIGBUS in us) or change it under us any
 * more.
 */
static bool
payload_map(int fd, Payload *payload, InferError *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & PAYLOAD_SEALS) != PAYLOAD_SEALS)
		return fail(err, INFER_INTERNAL, "payload descriptor is not a sealed memfd");
	if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t) st.st_size < payload->n_bytes)
		return fail(err, INFER_INTERNAL,
					"payload is shorter than its request says\n"
					"The request needs %" PRIu64 " bytes.",
					payload->n_bytes);
	if (payload->n_bytes == 0)
		return true;
	payload->mapped = mmap(NULL, (size_t) payload->n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (payload->mapped == MAP_FAILED)
	{
		payload->mapped = NULL;
		return fail(err, INFER_OUT_OF_MEMORY,
					"out of memory for a prompt\n"
					"Mapping %" PRIu64 " bytes failed.",
					payload->n_bytes);
	}
	payload->bytes = payload->mapped;
	return true;
}

static void
payload_unmap(Payload *payload)
{
	if (payload->mapped != NULL)
		munmap(payload->mapped, (size_t) payload->n_bytes);
}

/* The request is private by now; its lengths are what is checked and what is used. */
static bool
payload_open(Server *server, uint32_t index, const InferRequest *request, bool in_memfd,
			 int payload_fd, Payload *payload, InferError *err)
{
	uint64_t room = in_memfd ? UINT64_MAX - 1 : server->geometry->prompt_bytes;

	payload->mapped = NULL;
	payload->bytes = server->payload;
	payload->n_bytes = infer_request_payload_bytes(request);
	if (!infer_request_check(request, payload->n_bytes, err))
		return false;
	if (payload->n_bytes > room)
		return fail(err, INFER_INTERNAL,
					"request does not fit its slot\n"
					"It needs %" PRIu64 " bytes, the slot has %" PRIu32 ".",
					payload->n_bytes, server->geometry->prompt_bytes);
	if (in_memfd && payload_fd < 0)
		return fail(err, INFER_INTERNAL, "request came without its payload");
	if (in_memfd)
		return payload_map(payload_fd, payload, err);
	memcpy(server->payload, infer_region_prompt(server->memory, server->geometry, index),
		   (size_t) payload->n_bytes);
	return true;
}

static void
binding_unlink(Binding *binding, Connection *owner)
{
	if (!binding->linked)
		return;
	if (binding->previous != NULL)
		binding->previous->next = binding->next;
	else if (owner != NULL)
		owner->bindings = binding->next;
	if (binding->next != NULL)
		binding->next->previous = binding->previous;
	binding->previous = binding->next = NULL;
	binding->linked = false;
}

static void
binding_link(Binding *binding, Connection *connection)
{
	binding->previous = NULL;
	binding->next = connection->bindings;
	if (connection->bindings != NULL)
		connection->bindings->previous = binding;
	connection->bindings = binding;
	binding->linked = true;
}

/*
 * Takes the slot if the doorbell is not stale, and ties it to the connection. What an earlier,
 * cancelled owner left in the ring is not the new one's.
 */
static bool
binding_take(Server *server, Connection *connection, Binding *binding, uint64_t word)
{
	InferSlot *slot = binding->slot;
	bool taken;

	pthread_mutex_lock(&binding->lock);
	/* A slot in our hands is never SUBMITTED, unless somebody scribbled over its word. */
	taken = !binding->running && infer_slot_move(slot, &word, INFER_SLOT_RUNNING);
	if (taken)
	{
		binding_unlink(binding, binding->connection);
		binding->connection = connection;
		binding->word = word;
		binding->running = true;
		binding->handle = NULL;
	}
	pthread_mutex_unlock(&binding->lock);
	if (!taken)
		return false;
	binding_link(binding, connection);
	atomic_fetch_add_explicit(&server->n_running, 1, memory_order_relaxed);
	atomic_store_explicit(&slot->engine_waiting, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->ring_head,
						  atomic_load_explicit(&slot->ring_tail, memory_order_relaxed),
						  memory_order_relaxed);
	return true;
}

static void
binding_refuse(Binding *binding, const InferRequest *request, const InferError *err)
{
	InferResult result = { .error = *err, .finish = INFER_FINISH_ERROR };

	memcpy(result.model, request->model, sizeof(result.model));
	result.model[sizeof(result.model) - 1] = '\0';
	answer_finish(binding, &result);
}

/* finish() may have come before the handle did: then there is nothing left to hold it for. */
static void
binding_hold(Binding *binding, EngineRequest *handle)
{
	pthread_mutex_lock(&binding->lock);
	if (binding->running)
		binding->handle = handle;
	pthread_mutex_unlock(&binding->lock);
}

bool
binding_submit(Server *server, Connection *connection, const InferDoorbell *bell, int payload_fd)
{
	Binding *binding;
	InferRequest request;
	EngineRequest *handle = NULL;
	EngineSink sink;
	Payload payload;
	InferError err;
	bool in_memfd;

	if (bell->slot >= server->geometry->n_slots ||
		infer_word_state(bell->word) != INFER_SLOT_SUBMITTED)
		return false;
	binding = &server->bindings[bell->slot];
	if (!binding_take(server, connection, binding, bell->word))
		return true;

	memcpy(&request, &binding->slot->request, sizeof(request));
	in_memfd = *(volatile uint32_t *) &binding->slot->payload_in_memfd != 0;
	infer_error_clear(&err);
	if (!payload_open(server, bell->slot, &request, in_memfd, payload_fd, &payload, &err))
	{
		binding_refuse(binding, &request, &err);
		return true;
	}
	sink = answer_sink(binding);
	if (engine_submit(server->engine, connection->session, &request, payload.bytes, payload.n_bytes,
					  &sink, &handle, &err))
		binding_hold(binding, handle);
	else
		binding_refuse(binding, &request, &err);
	payload_unmap(&payload);
	return true;
}

/* Stale words are no offence: the answer may have been finished just before. */
bool
binding_cancel(Server *server, Connection *connection, const InferDoorbell *bell)
{
	Binding *binding;

	if (bell->slot >= server->geometry->n_slots)
		return false;
	binding = &server->bindings[bell->slot];
	pthread_mutex_lock(&binding->lock);
	if (binding->connection == connection && binding->handle != NULL &&
		bell->word == infer_word_next(binding->word, INFER_SLOT_ABORTING))
		engine_cancel(server->engine, binding->handle);
	pthread_mutex_unlock(&binding->lock);
	return true;
}

/* Its word is not looked at: a spurious one only makes the engine offer its bytes once more. */
bool
binding_drained(Server *server, Connection *connection, const InferDoorbell *bell)
{
	Binding *binding;

	if (bell->slot >= server->geometry->n_slots)
		return false;
	binding = &server->bindings[bell->slot];
	pthread_mutex_lock(&binding->lock);
	if (binding->connection == connection && binding->handle != NULL)
		engine_drained(server->engine, binding->handle);
	pthread_mutex_unlock(&binding->lock);
	return true;
}

void
binding_abandon(Binding *binding)
{
	Connection *connection = binding->connection;

	pthread_mutex_lock(&binding->lock);
	binding->connection = NULL;
	if (binding->handle != NULL)
		engine_cancel(binding->server->engine, binding->handle);
	else if (!binding->running)
	{
		uint64_t word = binding->word;

		/* DONE and never read; when it was read, the word has moved on. */
		(void) infer_slot_move(binding->slot, &word, INFER_SLOT_FREE);
	}
	pthread_mutex_unlock(&binding->lock);
	binding_unlink(binding, connection);
}
