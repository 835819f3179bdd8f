#include "serve_rig.h"

/* ---- the way of a request ---- */

static void
answer_travels_through_the_ring(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "abc", 3);
	char text[64];

	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_RUNNING);
	rig_step(rig, 4);
	assert_int_equal(ring_read(rig, ref.index, text, sizeof(text)), 9);
	assert_memory_equal(text, "abcabcabc", 9);
	assert_int_equal(result_code(rig, ref.index), INFER_OK);
	assert_int_equal(slot_at(rig, ref.index)->result.output_tokens, 3);
	assert_int_equal(atomic_load(&slot_at(rig, ref.index)->phase), INFER_PHASE_FINISHED);
	close(fd);
}

static void
each_piece_can_be_read_before_the_next_step(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "x", 3);
	char text[8];

	assert_true(rig_settle(rig));
	for (uint32_t i = 1; i <= 3; i++)
	{
		rig_step(rig, 1);
		assert_int_equal(ring_read(rig, ref.index, text, sizeof(text)), 1);
		assert_int_equal(atomic_load(&slot_at(rig, ref.index)->output_tokens), i);
		assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_RUNNING);
	}
	close(fd);
}

static void
token_count_is_answered_without_a_step(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_COUNT_TOKENS, "hello", 1);

	assert_true(rig_settle(rig));
	assert_int_equal(result_code(rig, ref.index), INFER_OK);
	assert_int_equal(slot_at(rig, ref.index)->result.output_tokens, 5);
	assert_int_equal(atomic_load(&rig->server->n_running), 0);
	close(fd);
}

static void
backend_is_rung_only_when_it_sleeps(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "x", 8);
	InferSlot *slot = slot_at(rig, ref.index);

	assert_true(rig_settle(rig));
	rig_step(rig, 2);
	assert_int_equal(bells_received(fd), 0);
	atomic_store(&slot->backend_waiting, 1);
	rig_step(rig, 3);
	assert_int_equal(bells_received(fd), 1);
	assert_int_equal(atomic_load(&slot->backend_waiting), 0);
	close(fd);
}

static void
refusal_of_the_engine_is_the_answer(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "abc", 3);

	memcpy(slot_at(rig, ref.index)->request.model, "nope", 5);
	slot_submit(rig, fd, &ref);
	assert_true(rig_settle(rig));
	assert_int_equal(result_code(rig, ref.index), INFER_UNKNOWN_MODEL);
	assert_string_equal(slot_at(rig, ref.index)->result.error.message,
						"there is no model \"nope\"");
	close(fd);
}

/* ---- flow control ---- */

static void
full_ring_pauses_until_drained(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "0123456789abcdef", 500);
	size_t room = rig->geometry.ring_bytes;
	char *text = malloc(room);
	size_t n = 0;

	assert_true(rig_settle(rig));
	while (slot_state(rig, ref.index) == INFER_SLOT_RUNNING)
	{
		rig_step(rig, 1000);
		if (slot_state(rig, ref.index) == INFER_SLOT_RUNNING)
			assert_int_equal(atomic_load(&slot_at(rig, ref.index)->engine_waiting), 1);
		n += ring_read(rig, ref.index, text, room);
		bell_send(fd, INFER_BELL_DRAINED, ref.index, 0);
		assert_true(rig_settle(rig));
	}
	n += ring_read(rig, ref.index, text, room);
	assert_int_equal(n, 500 * 16);
	assert_true(rig->server->engine->n_drained > 1);
	assert_int_equal(result_code(rig, ref.index), INFER_OK);
	free(text);
	close(fd);
}

static void
piece_larger_than_the_ring_arrives_whole(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	size_t n_bytes = rig->geometry.prompt_bytes;
	char *subject = malloc(n_bytes + 1);
	char *text = malloc(n_bytes);
	InferSlotRef ref;
	size_t n = 0;

	assert_true(n_bytes > rig->geometry.ring_bytes);
	for (size_t i = 0; i < n_bytes; i++)
		subject[i] = (char) ('a' + i % 26);
	subject[n_bytes] = '\0';
	ref = submitted(rig, fd, INFER_KIND_TOKENIZE, subject, 1);
	do
	{
		assert_true(rig_settle(rig));
		rig_step(rig, 1);
		n += ring_read(rig, ref.index, text + n, n_bytes - n);
		bell_send(fd, INFER_BELL_DRAINED, ref.index, 0);
	} while (slot_state(rig, ref.index) == INFER_SLOT_RUNNING);
	n += ring_read(rig, ref.index, text + n, n_bytes - n);
	assert_int_equal(n, n_bytes);
	assert_memory_equal(text, subject, n_bytes);
	free(subject);
	free(text);
	close(fd);
}

static void
leftovers_in_the_ring_are_not_the_next_answer(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "x", 1);
	char text[8];

	atomic_store(&slot_at(rig, ref.index)->ring_head, 64);
	atomic_store(&slot_at(rig, ref.index)->ring_tail, 0);
	slot_submit(rig, fd, &ref);
	assert_true(rig_settle(rig));
	rig_step(rig, 2);
	assert_int_equal(ring_read(rig, ref.index, text, sizeof(text)), 1);
	close(fd);
}

/* ---- cancel and EOF ---- */

static void
cancelled_slot_is_free_after_the_next_step(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "x", 1000);

	assert_true(rig_settle(rig));
	rig_step(rig, 2);
	assert_true(slot_cancel(rig, &ref));
	bell_send(fd, INFER_BELL_CANCEL, ref.index, ref.word);
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_ABORTING);
	rig_step(rig, 1);
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_FREE);
	assert_int_equal(atomic_load(&rig->server->n_running), 0);
	close(fd);
}

static void
cancel_of_a_paused_stream_frees_it(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "0123456789abcdef", 5000);

	assert_true(rig_settle(rig));
	rig_step(rig, 1000);
	assert_int_equal(atomic_load(&slot_at(rig, ref.index)->engine_waiting), 1);
	assert_true(slot_cancel(rig, &ref));
	bell_send(fd, INFER_BELL_CANCEL, ref.index, ref.word);
	assert_true(rig_settle(rig));
	rig_step(rig, 1);
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_FREE);
	close(fd);
}

static void
cancel_after_the_end_is_ignored(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_COUNT_TOKENS, "x", 1);
	uint64_t running = infer_word_next(ref.word, INFER_SLOT_RUNNING);

	assert_true(rig_settle(rig));
	assert_false(slot_cancel(rig, &ref));
	bell_send(fd, INFER_BELL_CANCEL, ref.index, infer_word_next(running, INFER_SLOT_ABORTING));
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_DONE);
	assert_int_equal(rig->server->engine->n_cancels, 0);
	assert_false(is_closed(fd));
	close(fd);
}

static void
cancel_without_a_doorbell_is_freed_at_the_end(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "x", 2);

	assert_true(rig_settle(rig));
	assert_true(slot_cancel(rig, &ref));
	rig_step(rig, 3);
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_FREE);
	close(fd);
}

static void
eof_frees_running_aborting_and_done_slots(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef done = submitted(rig, fd, INFER_KIND_COUNT_TOKENS, "x", 1);
	InferSlotRef running = submitted(rig, fd, INFER_KIND_GENERATE, "x", 1000);
	InferSlotRef aborting = submitted(rig, fd, INFER_KIND_GENERATE, "x", 1000);
	InferSlotRef paused = submitted(rig, fd, INFER_KIND_GENERATE, "0123456789abcdef", 5000);
	InferSlotRef taken_back = slot_claim(rig, INFER_KIND_GENERATE, "x", 1);

	assert_true(rig_settle(rig));
	rig_step(rig, 500);
	assert_true(slot_cancel(rig, &aborting));
	assert_true(
		infer_slot_move(slot_at(rig, taken_back.index), &taken_back.word, INFER_SLOT_SUBMITTED));
	bell_send(fd, INFER_BELL_SUBMIT, taken_back.index, taken_back.word);
	assert_true(infer_slot_move(slot_at(rig, taken_back.index), &taken_back.word, INFER_SLOT_FREE));
	close(fd);
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, done.index), INFER_SLOT_FREE);
	assert_int_equal(slot_state(rig, running.index), INFER_SLOT_RUNNING);
	rig_step(rig, 1);
	assert_int_equal(slot_state(rig, running.index), INFER_SLOT_FREE);
	assert_int_equal(slot_state(rig, aborting.index), INFER_SLOT_FREE);
	assert_int_equal(slot_state(rig, paused.index), INFER_SLOT_FREE);
	assert_int_equal(slot_state(rig, taken_back.index), INFER_SLOT_FREE);
	assert_int_equal(atomic_load(&rig->server->n_running), 0);
	assert_null(rig->server->connections);
}

static void
eof_leaves_a_slot_that_was_read_to_its_next_owner(void **state)
{
	Rig *rig = *state;
	int first = backend_hello(rig);
	int second = backend_hello(rig);
	InferSlotRef ref = submitted(rig, first, INFER_KIND_COUNT_TOKENS, "x", 1);
	InferSlotRef next;
	uint64_t word;

	assert_true(rig_settle(rig));
	word = atomic_load(&slot_at(rig, ref.index)->word);
	assert_true(infer_slot_move(slot_at(rig, ref.index), &word, INFER_SLOT_FREE));
	next = submitted(rig, second, INFER_KIND_GENERATE, "y", 1000);
	assert_int_equal(next.index, ref.index);
	assert_true(rig_settle(rig));
	close(first);
	assert_true(rig_settle(rig));
	rig_step(rig, 1);
	assert_int_equal(slot_state(rig, next.index), INFER_SLOT_RUNNING);
	close(second);
	assert_true(rig_settle(rig));
	rig_step(rig, 1);
	assert_int_equal(slot_state(rig, next.index), INFER_SLOT_FREE);
}

/* ---- the supervisor ---- */

static InferDoorbell
control_receive(Rig *rig)
{
	InferDoorbell frame = { 0 };

	(void) !recv(rig->control_fd, &frame, sizeof(frame), MSG_DONTWAIT);
	return frame;
}

static void
start_announces_the_engine(void **state)
{
	Rig *rig = *state;
	InferDoorbell frame = control_receive(rig);

	assert_int_equal(frame.type, INFER_CONTROL_READY);
	assert_int_equal(frame.word, 1);
	assert_int_equal(atomic_load(&rig->region->engine_epoch), 1);
	assert_int_equal(atomic_load(&rig->region->engine_pid), getpid());
	assert_int_equal(atomic_load(&rig->region->engine_ready), 1);
	assert_int_equal(atomic_load(&rig->region->max_sequences), 32);
	assert_string_equal(rig->region->models[0].name, "fake");
	assert_int_equal(atomic_load(&rig->region->models_version) % 2, 0);
}

static void
ping_is_answered_with_its_serial(void **state)
{
	Rig *rig = *state;
	InferDoorbell frame;

	(void) control_receive(rig);
	bell_send(rig->control_fd, INFER_CONTROL_PING, 4711, 0);
	assert_true(control_turn(rig->server));
	frame = control_receive(rig);
	assert_int_equal(frame.type, INFER_CONTROL_PONG);
	assert_int_equal(frame.slot, 4711);
}

static void
ping_is_not_answered_for_a_thread_that_hangs(void **state)
{
	Rig *rig = *state;

	(void) control_receive(rig);
	atomic_store(&rig->server->step_since_ms, server_clock_ms() - SERVER_STUCK_MS);
	bell_send(rig->control_fd, INFER_CONTROL_PING, 1, 0);
	assert_true(control_turn(rig->server));
	assert_int_equal(control_receive(rig).type, 0);
	atomic_store(&rig->server->step_since_ms, server_clock_ms());
	bell_send(rig->control_fd, INFER_CONTROL_PING, 2, 0);
	assert_true(control_turn(rig->server));
	assert_int_equal(control_receive(rig).slot, 2);
}

static void
reload_hands_new_settings_to_the_engine(void **state)
{
	Rig *rig = *state;

	infer_block_write_begin(&rig->region->settings_version);
	memset(rig->region->settings.device, 'x', sizeof(rig->region->settings.device));
	snprintf(rig->region->settings.models, INFER_MODELS_BYTES, "chat=new.gguf");
	infer_block_write_end(&rig->region->settings_version);
	bell_send(rig->control_fd, INFER_CONTROL_RELOAD, 0, 0);
	assert_true(control_turn(rig->server));
	assert_true(rig_settle(rig));
	assert_string_equal(rig->server->engine->settings.models, "chat=new.gguf");
	assert_int_equal(strlen(rig->server->engine->settings.device),
					 sizeof(rig->region->settings.device) - 1);
	while (strcmp(rig->region->models[0].description, "chat=new.gguf") != 0)
		assert_true(server_turn(rig->server, -1));
}

static void
idle_server_wakes_for_nothing(void **state)
{
	Rig *rig = *state;

	while (rig->server->ticking)
		assert_true(server_turn(rig->server, -1));
	assert_int_equal(models_timeout_ms(rig->server), -1);
}

static void
models_table_is_written_on_change_only(void **state)
{
	Rig *rig = *state;
	uint32_t version = atomic_load(&rig->region->models_version);

	models_publish(rig->server);
	assert_int_equal(atomic_load(&rig->region->models_version), version);
	rig->server->engine->model.n_running = 3;
	models_publish(rig->server);
	assert_int_equal(atomic_load(&rig->region->models_version), version + 2);
	assert_int_equal(rig->region->models[0].n_running, 3);
}

static void
end_of_the_supervisor_or_nonsense_ends_the_server(void **state)
{
	Rig *rig = *state;

	bell_send(rig->control_fd, INFER_CONTROL_READY, 0, 0);
	assert_false(control_turn(rig->server));
	close(rig->control_fd);
	rig->control_fd = -1;
	assert_false(control_turn(rig->server));
}

/* ---- two threads, and sessions that come, cancel and vanish ---- */

#define N_SESSIONS		 4
#define N_SESSION_ROUNDS 150

static void *
intake_run(void *context)
{
	Rig *rig = context;

	while (server_turn(rig->server, -1))
		;
	return NULL;
}

static void *
step_run(void *context)
{
	server_step_loop(((Rig *) context)->server);
	return NULL;
}

static bool
slot_is(Rig *rig, InferSlotRef *ref, InferSlotState state)
{
	ref->word = atomic_load_explicit(&slot_at(rig, ref->index)->word, memory_order_acquire);
	return infer_word_state(ref->word) == state;
}

/* Reads to the end as a backend does: look, say that it sleeps, look again, sleep. */
static size_t
session_read(Rig *rig, int fd, InferSlotRef *ref)
{
	InferSlot *slot = slot_at(rig, ref->index);
	char text[SLOT_BYTES];
	size_t n = 0;

	for (;;)
	{
		bool done = slot_is(rig, ref, INFER_SLOT_DONE);
		size_t got = ring_read(rig, ref->index, text, sizeof(text));
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		n += got;
		if (got > 0 && atomic_exchange(&slot->engine_waiting, 0) != 0)
			bell_send(fd, INFER_BELL_DRAINED, ref->index, ref->word);
		if (done)
			return n;
		if (got > 0)
			continue;
		if (atomic_exchange(&slot->backend_waiting, 1) == 0)
			continue; /* look once more with the flag up */
		poll(&wait, 1, -1);
		(void) bells_received(fd);
	}
}

static void
session_round(Rig *rig, int fd, unsigned draw)
{
	int32_t n_pieces = (int32_t) (draw % 400);
	InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "0123456789abcdefghij", n_pieces + 1);
	uint64_t word;

	slot_submit(rig, fd, &ref);
	if (draw % 3 != 0)
	{
		size_t n = session_read(rig, fd, &ref);

		assert_int_equal(n, (size_t) (n_pieces + 1) * 20);
		assert_int_equal(slot_at(rig, ref.index)->result.output_tokens, n_pieces + 1);
		assert_true(infer_slot_move(slot_at(rig, ref.index), &ref.word, INFER_SLOT_FREE));
		return;
	}
	/* Cancel in whatever state it is. */
	word = ref.word;
	if (infer_slot_move(slot_at(rig, ref.index), &word, INFER_SLOT_FREE))
		return;
	if (infer_word_state(word) == INFER_SLOT_RUNNING &&
		infer_slot_move(slot_at(rig, ref.index), &word, INFER_SLOT_ABORTING))
		bell_send(fd, INFER_BELL_CANCEL, ref.index, word);
	else
		assert_true(infer_slot_move(slot_at(rig, ref.index), &word, INFER_SLOT_FREE));
}

static void *
session_run(void *context)
{
	Rig *rig = context;
	unsigned draw = (unsigned) (uintptr_t) &draw / 64;
	int fd = backend_hello(rig);

	for (int i = 0; i < N_SESSION_ROUNDS; i++)
	{
		draw = draw * 1103515245 + 12345;
		session_round(rig, fd, draw >> 8);
		if (draw >> 8 & 0x1000)
		{
			/* vanish with one in flight */
			InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "0123456789", 1000);

			slot_submit(rig, fd, &ref);
			while (slot_is(rig, &ref, INFER_SLOT_SUBMITTED))
				;
			close(fd);
			fd = backend_hello(rig);
		}
	}
	close(fd);
	return NULL;
}

static bool
all_slots_are_free(Rig *rig)
{
	for (uint32_t i = 0; i < N_SLOTS; i++)
		if (slot_state(rig, i) != INFER_SLOT_FREE)
			return false;
	return true;
}

static void
sessions_that_cancel_and_vanish_leak_no_slot(void **state)
{
	Rig *rig = *state;
	pthread_t intake;
	pthread_t step;
	pthread_t sessions[N_SESSIONS];

	pthread_create(&intake, NULL, intake_run, rig);
	pthread_create(&step, NULL, step_run, rig);
	for (int i = 0; i < N_SESSIONS; i++)
		pthread_create(&sessions[i], NULL, session_run, rig);
	for (int i = 0; i < N_SESSIONS; i++)
		pthread_join(sessions[i], NULL);
	while (!all_slots_are_free(rig))
		sched_yield();
	server_stop(rig->server);
	pthread_join(intake, NULL);
	pthread_join(step, NULL);
	assert_int_equal(atomic_load(&rig->server->n_running), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(answer_travels_through_the_ring),
		RIG_TEST(each_piece_can_be_read_before_the_next_step),
		RIG_TEST(token_count_is_answered_without_a_step),
		RIG_TEST(backend_is_rung_only_when_it_sleeps),
		RIG_TEST(refusal_of_the_engine_is_the_answer),
		RIG_TEST(full_ring_pauses_until_drained),
		RIG_TEST(piece_larger_than_the_ring_arrives_whole),
		RIG_TEST(leftovers_in_the_ring_are_not_the_next_answer),
		RIG_TEST(cancelled_slot_is_free_after_the_next_step),
		RIG_TEST(cancel_of_a_paused_stream_frees_it),
		RIG_TEST(cancel_after_the_end_is_ignored),
		RIG_TEST(cancel_without_a_doorbell_is_freed_at_the_end),
		RIG_TEST(eof_frees_running_aborting_and_done_slots),
		RIG_TEST(eof_leaves_a_slot_that_was_read_to_its_next_owner),
		RIG_TEST(start_announces_the_engine),
		RIG_TEST(ping_is_answered_with_its_serial),
		RIG_TEST(ping_is_not_answered_for_a_thread_that_hangs),
		RIG_TEST(reload_hands_new_settings_to_the_engine),
		RIG_TEST(idle_server_wakes_for_nothing),
		RIG_TEST(models_table_is_written_on_change_only),
		RIG_TEST(end_of_the_supervisor_or_nonsense_ends_the_server),
		RIG_TEST(sessions_that_cancel_and_vanish_leak_no_slot),
	};

	return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
