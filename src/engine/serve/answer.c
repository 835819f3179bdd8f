/*
 * answer.c: the sink of a request: pieces into its slot's ring, the result into its slot, and a
 * byte to a backend that sleeps.
 */
#include "server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Whether the owner says that it sleeps. The caller has published what there is to see. Both sides
 * touch the flag with a read-modify-write, so one of the two comes first: either the owner's is
 * seen here, or the owner sees, behind its own, what was published before this one.
 */
static bool
backend_sleeps(const Binding *binding)
{
	return atomic_fetch_add_explicit(&binding->slot->backend_waiting, 0, memory_order_acq_rel) != 0;
}

/* One byte without meaning. A full socket means that bytes wait there already. */
static void
backend_ring(const Binding *binding)
{
	ssize_t n;

	do
		n = send(binding->connection->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
}

/* Nobody reads the answer of a cancelled request any more: it is swallowed until finish(). */
static bool
binding_is_read(const Binding *binding)
{
	return binding->connection != NULL &&
		   atomic_load_explicit(&binding->slot->word, memory_order_acquire) == binding->word;
}

/*
 * Into the ring; when full the flag goes up and the ring is tried once more, since the owner may
 * have emptied it and looked at the flag just before.
 */
static bool
ring_put(Binding *binding, const char *bytes, uint32_t n_bytes, uint32_t output_tokens)
{
	if (infer_ring_write(&binding->ring, bytes, n_bytes, output_tokens))
		return true;
	atomic_exchange_explicit(&binding->slot->engine_waiting, 1, memory_order_acq_rel);
	if (!infer_ring_write(&binding->ring, bytes, n_bytes, output_tokens))
		return false;
	atomic_store_explicit(&binding->slot->engine_waiting, 0, memory_order_relaxed);
	return true;
}

static bool
answer_piece(void *context, const char *bytes, uint32_t n_bytes, uint32_t output_tokens)
{
	Binding *binding = context;
	bool taken = true;

	pthread_mutex_lock(&binding->lock);
	if (binding_is_read(binding))
	{
		taken = ring_put(binding, bytes, n_bytes, output_tokens);
		if (backend_sleeps(binding))
		{
			atomic_store_explicit(&binding->slot->backend_waiting, 0, memory_order_relaxed);
			backend_ring(binding);
		}
	}
	pthread_mutex_unlock(&binding->lock);
	return taken;
}

static void
answer_progress(void *context, InferPhase phase, int32_t prompt_tokens, int32_t cached_tokens,
				int32_t output_tokens)
{
	InferSlot *slot = ((Binding *) context)->slot;

	atomic_store_explicit(&slot->phase, (uint32_t) phase, memory_order_relaxed);
	atomic_store_explicit(&slot->prompt_tokens, (uint32_t) prompt_tokens, memory_order_relaxed);
	atomic_store_explicit(&slot->cached_tokens, (uint32_t) cached_tokens, memory_order_relaxed);
	atomic_store_explicit(&slot->output_tokens, (uint32_t) output_tokens, memory_order_relaxed);
}

/* RUNNING or, when the owner cancelled meanwhile, ABORTING to FREE. */
static void
slot_release(Binding *binding)
{
	uint64_t word = binding->word;

	if (!infer_slot_move(binding->slot, &word, INFER_SLOT_FREE) &&
		word == infer_word_next(binding->word, INFER_SLOT_ABORTING))
		(void) infer_slot_move(binding->slot, &word, INFER_SLOT_FREE);
}

void
answer_finish(Binding *binding, const InferResult *result)
{
	InferSlot *slot = binding->slot;

	pthread_mutex_lock(&binding->lock);
	binding->running = false;
	binding->handle = NULL;
	atomic_store_explicit(&slot->phase, INFER_PHASE_FINISHED, memory_order_relaxed);
	if (binding_is_read(binding))
	{
		uint64_t word = binding->word;

		memcpy(&slot->result, result, sizeof(slot->result));
		if (infer_slot_move(slot, &word, INFER_SLOT_DONE))
		{
			binding->word = word;
			/* The flag is left alone: by now it may be that of the slot's next owner. */
			if (backend_sleeps(binding))
				backend_ring(binding);
		}
		else
			slot_release(binding);
	}
	else
		slot_release(binding);
	pthread_mutex_unlock(&binding->lock);
	atomic_fetch_sub_explicit(&binding->server->n_running, 1, memory_order_relaxed);
}

static void
answer_finish_sink(void *context, const InferResult *result)
{
	answer_finish(context, result);
}

EngineSink
answer_sink(Binding *binding)
{
	EngineSink sink = {
		.context = binding,
		.piece = answer_piece,
		.max_piece_bytes = infer_ring_max_piece(&binding->ring),
		.progress = answer_progress,
		.finish = answer_finish_sink,
	};

	return sink;
}
