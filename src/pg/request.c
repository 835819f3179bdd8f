/*
 * A request is in one of three states here:
 *
 *   PENDING  has no slot and wants one: new, or to be sent again
 *   PLACED   has a slot; `submitted` is its word after SUBMITTED
 *   DONE     the result is ours, the slot is forgotten
 *
 * A slot is ours while its word is `submitted`, or that followed by RUNNING, or by RUNNING and
 * DONE. Generations rise with each transition, so a slot that somebody else freed and claimed has
 * another word in any state, and we can tell.
 */
#include "postgres.h"

#include "pg/request.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/ilist.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pg/compat.h"
#include "pg/connection.h"
#include "pg/guc.h"
#include "pg/settings.h"
#include "pg/shmem.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* How often a sleeper looks at what no event tells: deadlines, a client that went away. */
#define TICK_MS 100
/* And at a slot or a place in the backlog to become free. */
#define PENDING_TICK_MS 10
/* The engine minds deadlines; this is for one that is not there or hangs. */
#define DEADLINE_GRACE_US INT64CONST(1000000)

typedef enum RequestState
{
	REQUEST_PENDING,
	REQUEST_PLACED,
	REQUEST_DONE
} RequestState;

struct PgRequest
{
	dlist_node node; /* in `requests`, from submit to free */
	MemoryContext context;
	MemoryContextCallback on_reset;
	ResourceOwner owner; /* NULL: detached */

	/* what is asked */
	InferRequest request;
	const char *payload;
	uint64 payload_bytes;
	bool stream;

	/* where it is */
	RequestState state;
	uint32 slot;
	uint64_t submitted;
	int64 since_us;	   /* of state PENDING or PLACED */
	bool bell_pending; /* the socket's buffer was full at SUBMIT */
	bool drained_pending;
	int payload_fd; /* not yet sent, or -1 */
	int n_retries;

	/* what has come */
	bool delivered; /* a piece of a stream was handed out: never start again */
	StringInfoData output;
	InferResult result;
};

static dlist_head requests = DLIST_STATIC_INIT(requests);
static int n_placed;

/* The slot we had last is likely free and its memory warm. */
static uint32 slot_hint;

static void request_retry_or_fail(PgRequest *r, const InferError *error);

/* ---- slots ---- */

static InferSlot *
slot_of(const PgRequest *r)
{
	return infer_region_slot(infer_region, &infer_geometry, r->slot);
}

static bool
word_is_ours(const PgRequest *r, uint64_t word)
{
	uint64_t running = infer_word_next(r->submitted, INFER_SLOT_RUNNING);

	return word == r->submitted || word == running ||
		   word == infer_word_next(running, INFER_SLOT_DONE);
}

static void
placed_forget(PgRequest *r, RequestState next)
{
	Assert(r->state == REQUEST_PLACED);
	r->state = next;
	r->since_us = infer_monotonic_us();
	r->bell_pending = false;
	r->drained_pending = false;
	slot_hint = r->slot;
	n_placed--;
	if (r->payload_fd >= 0)
		close(r->payload_fd);
	r->payload_fd = -1;
}

/*
 * The socket is gone. Requests that the engine has not taken are taken back and placed again;
 * for those that it runs the sweep (engine dead) or the engine (it saw our EOF) decides.
 * Part of the cancel path: allocates nothing, raises nothing.
 */
static void
connection_lost(void)
{
	dlist_iter iter;

	connection_close();
	dlist_foreach(iter, &requests)
	{
		PgRequest *r = dlist_container(PgRequest, node, iter.cur);
		uint64_t word = r->submitted;

		if (r->state == REQUEST_PLACED && infer_slot_move(slot_of(r), &word, INFER_SLOT_FREE))
			placed_forget(r, REQUEST_PENDING);
	}
}

/*
 * Gives the slot up, whatever state it is in. The cancel path: allocates nothing, raises nothing.
 * A CANCEL that cannot be sent ends the connection; the engine cleans up after its EOF.
 */
static void
slot_release(PgRequest *r)
{
	InferSlot *slot = slot_of(r);
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);

	placed_forget(r, REQUEST_DONE);
	while (word_is_ours(r, word))
	{
		bool running = infer_word_state(word) == INFER_SLOT_RUNNING;

		if (!infer_slot_move(slot, &word, running ? INFER_SLOT_ABORTING : INFER_SLOT_FREE))
			continue;
		if (running && connection_ring(INFER_BELL_CANCEL, r->slot, word, -1) != CONNECTION_OK &&
			connection_is_open())
			connection_lost();
		return;
	}
}

/* ---- the end of a request ---- */

static void
request_fail(PgRequest *r, const InferError *error)
{
	if (r->state == REQUEST_PLACED)
		slot_release(r);
	r->state = REQUEST_DONE;
	memset(&r->result, 0, sizeof(r->result));
	r->result.error = *error;
	r->result.finish = INFER_FINISH_ERROR;
}

static void
result_clean(InferResult *result)
{
	infer_text_clean(result->error.message, sizeof(result->error.message));
	infer_text_clean(result->error.detail, sizeof(result->error.detail));
	infer_text_clean(result->error.hint, sizeof(result->error.hint));
	infer_text_clean(result->model, sizeof(result->model));
	if (result->error.code >= INFER_N_CODES)
		result->error.code = INFER_INTERNAL;
	result->prompt_tokens = Max(result->prompt_tokens, 0);
	result->cached_tokens = Max(result->cached_tokens, 0);
	result->output_tokens = Max(result->output_tokens, 0);
}

static void
request_lost(PgRequest *r)
{
	InferError error;

	placed_forget(r, REQUEST_PENDING);
	fail(&error, INFER_ENGINE_DIED,
		 "connection to the inference engine was lost\n\nRepeat the statement.");
	request_retry_or_fail(r, &error);
}

/* A request that was under way when an engine died gets one more try, and not a third: it may be
 * what kills it. */
static void
request_retry_or_fail(PgRequest *r, const InferError *error)
{
	InferError unavailable;

	Assert(r->state != REQUEST_PLACED);
	if (r->n_retries >= setting_retries || r->delivered || !infer_available(&unavailable))
	{
		request_fail(r, error);
		return;
	}
	r->n_retries++;
	r->state = REQUEST_PENDING;
	r->since_us = infer_monotonic_us();
	if (r->output.data != NULL)
		resetStringInfo(&r->output);
}

/* ---- placing ---- */

static bool
payload_to_memfd(PgRequest *r, InferError *err)
{
	uint64 written = 0;

	r->payload_fd = memfd_create("infer prompt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (r->payload_fd < 0)
		return fail(err, INFER_OUT_OF_MEMORY, "could not create memory for a prompt: %s",
					strerror(errno));
	while (written < r->payload_bytes)
	{
		ssize_t n = write(r->payload_fd, r->payload + written, r->payload_bytes - written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(err, INFER_OUT_OF_MEMORY,
						"could not get memory for a prompt of " UINT64_FORMAT " bytes: %s",
						r->payload_bytes, strerror(errno));
		written += (uint64) n;
	}
	if (fcntl(r->payload_fd, F_ADD_SEALS,
			  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
		return fail(err, INFER_OUT_OF_MEMORY, "could not seal memory of a prompt: %s",
					strerror(errno));
	return true;
}

static bool
slot_fill(PgRequest *r, InferSlot *slot, InferError *err)
{
	bool in_memfd = r->payload_bytes > infer_geometry.prompt_bytes;

	slot->owner_procno = infer_my_procno();
	slot->request = r->request;
	slot->payload_in_memfd = in_memfd;
	if (in_memfd)
		return payload_to_memfd(r, err);
	memcpy(infer_region_prompt(infer_region, &infer_geometry, r->slot), r->payload,
		   r->payload_bytes);
	return true;
}

static void
bell_submit(PgRequest *r)
{
	ConnectionOutcome outcome =
		connection_ring(INFER_BELL_SUBMIT, r->slot, r->submitted, r->payload_fd);

	r->bell_pending = outcome == CONNECTION_AGAIN;
	if (outcome == CONNECTION_LOST)
		connection_lost();
	else if (outcome == CONNECTION_OK && r->payload_fd >= 0)
	{
		close(r->payload_fd);
		r->payload_fd = -1;
	}
}

bool
request_session_is_full(void)
{
	return n_placed >= (int) guc_max_session_requests(infer_geometry.n_slots);
}

/* No slot: wait if one of ours will come free, else say whose fault it is. */
static void
no_slot(PgRequest *r)
{
	InferError error;
	dlist_iter iter;

	dlist_foreach(iter, &requests)
	{
		PgRequest *other = dlist_container(PgRequest, node, iter.cur);

		if (other->state == REQUEST_PLACED && !other->stream)
			return;
	}
	if (request_session_is_full())
		fail(&error, INFER_QUEUE_FULL,
			 "too many streams are open in this session\n"
			 "It has %d requests in flight, and nobody reads them.\n"
			 "Close cursors, or raise infer.max_session_requests.",
			 n_placed);
	else
		fail(&error, INFER_QUEUE_FULL,
			 "no request slot is free\nAll %u are in use.\n"
			 "Try again later, or raise infer.request_slots.",
			 infer_geometry.n_slots);
	request_fail(r, &error);
}

/* Moves a PENDING request on if that can be done now. */
static void
request_place(PgRequest *r)
{
	ConnectionOutcome outcome;
	InferSlotRef ref;
	InferSlot *slot;
	InferError error;

	if (!infer_available(&error))
	{
		request_fail(r, &error);
		return;
	}
	outcome = connection_open(&error);
	if (outcome != CONNECTION_OK)
	{
		if (outcome == CONNECTION_FAILED)
			request_fail(r, &error);
		if (outcome == CONNECTION_LOST)
			connection_lost();
		return;
	}
	if (request_session_is_full() ||
		!infer_region_claim(infer_region, &infer_geometry, slot_hint, &ref))
	{
		no_slot(r);
		return;
	}

	/* from here to the end of the function nothing can raise */
	r->slot = ref.index;
	slot = slot_of(r);
	if (!slot_fill(r, slot, &error))
	{
		infer_slot_move(slot, &ref.word, INFER_SLOT_FREE);
		if (r->payload_fd >= 0)
			close(r->payload_fd);
		r->payload_fd = -1;
		request_fail(r, &error);
		return;
	}
	infer_slot_move(slot, &ref.word, INFER_SLOT_SUBMITTED);
	r->submitted = ref.word;
	r->state = REQUEST_PLACED;
	r->since_us = infer_monotonic_us();
	n_placed++;
	bell_submit(r);
}

/* ---- taking what has come ---- */

static InferRing
ring_of(const PgRequest *r)
{
	return infer_region_ring(infer_region, &infer_geometry, r->slot);
}

static void
ring_damaged(PgRequest *r)
{
	InferError error;

	fail(&error, INFER_INTERNAL, "inference engine sent a damaged answer");
	request_fail(r, &error);
}

/* The engine holds output back since the ring was full: it has room again. */
static void
bell_drained(PgRequest *r)
{
	InferSlot *slot = slot_of(r);

	atomic_thread_fence(memory_order_seq_cst);
	if (!r->drained_pending &&
		(atomic_load_explicit(&slot->engine_waiting, memory_order_relaxed) == 0 ||
		 atomic_exchange(&slot->engine_waiting, 0) == 0))
		return;
	r->drained_pending =
		connection_ring(INFER_BELL_DRAINED, r->slot,
						infer_word_next(r->submitted, INFER_SLOT_RUNNING), -1) == CONNECTION_AGAIN;
}

/* Takes one piece, appended to *text. False: none there, or the ring is damaged and r failed. */
static bool
piece_take(PgRequest *r, StringInfo text, uint32 *output_tokens)
{
	InferRing ring = ring_of(r);
	InferPiece piece;
	bool damaged;

	if (!infer_ring_peek(&ring, &piece, &damaged))
	{
		if (damaged)
			ring_damaged(r);
		return false;
	}
	enlargeStringInfo(text, (int) piece.n_bytes);
	infer_ring_take(&ring, &piece, text->data + text->len);
	text->len += (int) piece.n_bytes;
	text->data[text->len] = '\0';
	*output_tokens = piece.output_tokens;
	return true;
}

static StringInfo
output_of(PgRequest *r)
{
	if (r->output.data == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(r->context);

		initStringInfo(&r->output);
		MemoryContextSwitchTo(before);
	}
	return &r->output;
}

static bool
ring_is_empty(const PgRequest *r)
{
	InferSlot *slot = slot_of(r);

	return atomic_load_explicit(&slot->ring_head, memory_order_acquire) ==
		   atomic_load_explicit(&slot->ring_tail, memory_order_relaxed);
}

static void
output_drain(PgRequest *r)
{
	uint32 output_tokens;
	bool took = false;

	if (ring_is_empty(r))
		return;
	while (piece_take(r, output_of(r), &output_tokens))
		took = true;
	if (took && r->state == REQUEST_PLACED)
		bell_drained(r);
}

/* The slot is DONE at `word` and its ring is empty: the result is copied, the slot given back. */
static void
result_take(PgRequest *r, uint64_t word)
{
	InferSlot *slot = slot_of(r);

	memcpy(&r->result, &slot->result, sizeof(r->result));
	if (!infer_slot_move(slot, &word, INFER_SLOT_FREE))
	{
		request_lost(r);
		return;
	}
	placed_forget(r, REQUEST_DONE);
	result_clean(&r->result);
	if (r->result.error.code == INFER_ENGINE_DIED)
	{
		InferError error = r->result.error;

		request_retry_or_fail(r, &error);
	}
}

/* What no event tells. */
static void
overdue_check(PgRequest *r)
{
	int64 now_us = infer_monotonic_us();
	InferError error;
	bool taken = r->state == REQUEST_PLACED &&
				 atomic_load_explicit(&slot_of(r)->word, memory_order_relaxed) != r->submitted;

	if (r->request.deadline_us != 0 && now_us > r->request.deadline_us + DEADLINE_GRACE_US)
		fail(&error, INFER_DEADLINE, "infer.timeout passed before the answer came");
	else if (!taken && now_us - r->since_us > setting_load_timeout_ms * INT64CONST(1000))
		fail(&error, INFER_NO_ENGINE,
			 "inference engine did not take the request within infer.load_timeout\n"
			 "It waited %d ms.\nSee the server log and infer_health().",
			 setting_load_timeout_ms);
	else
		return;
	request_fail(r, &error);
}

static void
placed_look(PgRequest *r)
{
	uint64_t word;

	if (r->bell_pending)
		bell_submit(r);
	if (r->state != REQUEST_PLACED)
		return;
	if (r->drained_pending)
		bell_drained(r);

	/* the word first: when it says DONE, everything is in the ring */
	word = atomic_load_explicit(&slot_of(r)->word, memory_order_acquire);
	if (!word_is_ours(r, word))
	{
		request_lost(r);
		return;
	}
	if (!r->stream)
		output_drain(r);
	if (r->state == REQUEST_PLACED && infer_word_state(word) == INFER_SLOT_DONE && ring_is_empty(r))
		result_take(r, word);
}

bool
request_poll(PgRequest *r)
{
	if (r->state == REQUEST_PENDING)
		request_place(r);
	if (r->state == REQUEST_PLACED)
		placed_look(r);
	return r->state == REQUEST_DONE;
}

/* ---- waiting ---- */

static bool
has_news(const PgRequest *r)
{
	uint64_t word;

	if (r->state != REQUEST_PLACED)
		return false;
	word = atomic_load_explicit(&slot_of(r)->word, memory_order_acquire);
	return !word_is_ours(r, word) || infer_word_state(word) == INFER_SLOT_DONE || !ring_is_empty(r);
}

/* A stream that nobody reads now has news all the time: only the one that is read is watched. */
static bool
is_watched(const PgRequest *r, const PgRequest *stream)
{
	return r->state == REQUEST_PLACED && (!r->stream || r == stream);
}

static void
wait_for_news(PgRequest *stream)
{
	dlist_iter iter;
	long timeout_ms = TICK_MS;
	bool want_write = false;
	bool news = false;

	dlist_foreach(iter, &requests)
	{
		PgRequest *r = dlist_container(PgRequest, node, iter.cur);

		if (r->state == REQUEST_PENDING)
			timeout_ms = PENDING_TICK_MS;
		want_write |= r->bell_pending || r->drained_pending;
		if (is_watched(r, stream))
			atomic_store_explicit(&slot_of(r)->backend_waiting, 1, memory_order_relaxed);
	}

	/* the engine publishes, then looks whether we sleep; we say that we sleep, then look */
	atomic_thread_fence(memory_order_seq_cst);
	dlist_foreach(iter, &requests)
	{
		PgRequest *r = dlist_container(PgRequest, node, iter.cur);

		if (is_watched(r, stream) && has_news(r))
			news = true;
	}
	if (news)
		CHECK_FOR_INTERRUPTS();
	else if (connection_wait(timeout_ms, want_write) == CONNECTION_LOST)
		connection_lost();
}

void
request_wait_any(void)
{
	dlist_mutable_iter iter;

	wait_for_news(NULL);
	dlist_foreach_modify(iter, &requests)
	{
		PgRequest *r = dlist_container(PgRequest, node, iter.cur);

		if (!r->stream && !request_poll(r))
			overdue_check(r);
	}
}

void
request_wait(PgRequest *r)
{
	while (!request_poll(r))
		request_wait_any();
}

bool
request_next_piece(PgRequest *r, StringInfo piece, uint32 *output_tokens)
{
	for (;;)
	{
		resetStringInfo(piece);
		if (request_poll(r))
			return false;
		if (r->state == REQUEST_PLACED && piece_take(r, piece, output_tokens))
		{
			r->delivered = true;
			bell_drained(r);
			return true;
		}
		if (r->state == REQUEST_DONE)
			return false;
		wait_for_news(r);
		if (r->state != REQUEST_DONE)
			overdue_check(r);
	}
}

/* ---- birth and death ---- */

static void
request_release(void *argument)
{
	PgRequest *r = argument;

	if (r->state == REQUEST_PLACED)
		slot_release(r);
	r->state = REQUEST_DONE;
	dlist_delete(&r->node);
}

static void
exit_release(int code, Datum argument)
{
	dlist_iter iter;

	dlist_foreach(iter, &requests)
	{
		PgRequest *r = dlist_container(PgRequest, node, iter.cur);

		if (r->state == REQUEST_PLACED)
			slot_release(r);
		r->state = REQUEST_DONE;
	}
	connection_close();
}

static PgRequest *
request_make(MemoryContext context, int flags)
{
	static bool exit_registered;
	MemoryContext own;
	PgRequest *r;

	if (!exit_registered)
	{
		before_shmem_exit(exit_release, (Datum) 0);
		exit_registered = true;
		slot_hint = infer_my_procno();
	}

	/* a context of its own, so that request_free takes the callback along */
	own = AllocSetContextCreate(context, "infer request", ALLOCSET_DEFAULT_SIZES);
	r = MemoryContextAllocZero(own, sizeof(PgRequest));
	r->context = own;
	r->stream = (flags & REQUEST_STREAM) != 0;
	r->owner = (flags & REQUEST_DETACH) != 0 ? NULL : CurrentResourceOwner;
	r->state = REQUEST_PENDING;
	r->since_us = infer_monotonic_us();
	r->payload_fd = -1;

	/* the release is registered before there is anything to release */
	dlist_push_tail(&requests, &r->node);
	r->on_reset.func = request_release;
	r->on_reset.arg = r;
	MemoryContextRegisterResetCallback(own, &r->on_reset);
	return r;
}

PgRequest *
request_submit(MemoryContext context, const InferRequest *request, const char *payload, int flags)
{
	PgRequest *r = request_make(context, flags);

	r->request = *request;
	r->payload = payload;
	r->payload_bytes = infer_request_payload_bytes(request);
	request_place(r);
	if ((flags & REQUEST_TRY) != 0 && r->state == REQUEST_PENDING)
	{
		request_free(r);
		return NULL;
	}
	return r;
}

PgRequest *
request_refused(MemoryContext context, const InferError *error)
{
	PgRequest *r = request_make(context, REQUEST_DETACH);

	request_fail(r, error);
	return r;
}

const InferResult *
request_result(const PgRequest *r)
{
	Assert(r->state == REQUEST_DONE);
	return &r->result;
}

const char *
request_output(const PgRequest *r, int *n_bytes)
{
	*n_bytes = r->output.data != NULL ? r->output.len : 0;
	return r->output.data != NULL ? r->output.data : "";
}

void
request_cancel(PgRequest *r, const InferError *error)
{
	request_fail(r, error);
}

void
request_free(PgRequest *r)
{
	MemoryContextDelete(r->context);
}

int
request_window(void)
{
	int window = setting_prefetch;
	int most;

	if (infer_region == NULL)
		return 1;
	if (window == 0)
		window = 2 * (int) Min(atomic_load(&infer_region->max_sequences), 4096);
	most = (int) guc_max_session_requests(infer_geometry.n_slots);
	return Max(1, Min(window, most));
}

/* The end of a portal, subtransaction or transaction: what it left in flight is cancelled, even
 * where the memory lives on for a while. */
static void
owner_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *argument)
{
	dlist_iter iter;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	dlist_foreach(iter, &requests)
	{
		PgRequest *r = dlist_container(PgRequest, node, iter.cur);

		if (r->owner == NULL || r->owner != CurrentResourceOwner)
			continue;
		r->owner = NULL;
		if (r->state == REQUEST_PLACED)
			slot_release(r);
		r->state = REQUEST_DONE;
	}
}

void
request_install_callbacks(void)
{
	RegisterResourceReleaseCallback(owner_release, NULL);
}
