#include "serve_rig.h"

/* ---- stale and hostile ---- */

static void
stale_doorbell_is_ignored(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "x", 1);
	uint64_t old = infer_word_next(ref.word, INFER_SLOT_SUBMITTED);

	assert_true(infer_slot_move(slot_at(rig, ref.index), &ref.word, INFER_SLOT_FREE));
	ref = slot_claim(rig, INFER_KIND_GENERATE, "x", 1);
	assert_true(infer_slot_move(slot_at(rig, ref.index), &ref.word, INFER_SLOT_SUBMITTED));
	bell_send(fd, INFER_BELL_SUBMIT, ref.index, old);
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_SUBMITTED);
	assert_false(is_closed(fd));
	bell_send(fd, INFER_BELL_SUBMIT, ref.index, ref.word);
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_RUNNING);
	close(fd);
}

static void
malformed_frames_close_the_connection(void **state)
{
	static const InferDoorbell first[] = {
		{ INFER_BELL_HELLO, INFER_LAYOUT_VERSION + 1, INFER_REGION_MAGIC },
		{ INFER_BELL_HELLO, INFER_LAYOUT_VERSION, 0 },
		{ INFER_BELL_SUBMIT, 0, INFER_SLOT_SUBMITTED },
		{ 0xffffffff, 0xffffffff, UINT64_MAX },
	};
	static const InferDoorbell later[] = {
		{ INFER_BELL_HELLO, INFER_LAYOUT_VERSION, INFER_REGION_MAGIC },
		{ INFER_BELL_SUBMIT, N_SLOTS, INFER_SLOT_SUBMITTED },
		{ INFER_BELL_SUBMIT, 0, INFER_SLOT_FREE },
		{ INFER_BELL_CANCEL, UINT32_MAX, 0 },
		{ INFER_BELL_DRAINED, UINT32_MAX, 0 },
		{ INFER_N_BELLS, 0, 0 },
		{ INFER_CONTROL_RELOAD, 0, 0 },
	};
	Rig *rig = *state;

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
	{
		int fd = backend_connect(rig);

		bell_send(fd, first[i].type, first[i].slot, first[i].word);
		assert_true(rig_settle(rig));
		assert_true(is_closed(fd));
		close(fd);
	}
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
	{
		int fd = backend_hello(rig);

		bell_send(fd, later[i].type, later[i].slot, later[i].word);
		assert_true(rig_settle(rig));
		assert_true(is_closed(fd));
		close(fd);
	}
	assert_null(rig->server->connections);
}

static void
frame_in_two_parts_is_put_together(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = slot_claim(rig, INFER_KIND_COUNT_TOKENS, "abc", 1);
	InferDoorbell bell = { .type = INFER_BELL_SUBMIT, .slot = ref.index };

	assert_true(infer_slot_move(slot_at(rig, ref.index), &ref.word, INFER_SLOT_SUBMITTED));
	bell.word = ref.word;
	assert_int_equal(send(fd, &bell, 5, 0), 5);
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_SUBMITTED);
	assert_int_equal(send(fd, (char *) &bell + 5, 11, 0), 11);
	assert_true(rig_settle(rig));
	assert_int_equal(slot_state(rig, ref.index), INFER_SLOT_DONE);
	close(fd);
}

static void
cancel_from_another_session_is_ignored(void **state)
{
	Rig *rig = *state;
	int owner = backend_hello(rig);
	int stranger = backend_hello(rig);
	InferSlotRef ref = submitted(rig, owner, INFER_KIND_GENERATE, "x", 1000);
	uint64_t running = infer_word_next(ref.word, INFER_SLOT_RUNNING);

	assert_true(rig_settle(rig));
	bell_send(stranger, INFER_BELL_CANCEL, ref.index,
			  infer_word_next(running, INFER_SLOT_ABORTING));
	bell_send(stranger, INFER_BELL_DRAINED, ref.index, running);
	assert_true(rig_settle(rig));
	assert_int_equal(rig->server->engine->n_cancels, 0);
	assert_int_equal(rig->server->engine->n_drained, 0);
	close(owner);
	close(stranger);
}

/* Each spoils one field of an otherwise good request. */
static void
spoil_request(InferSlot *slot, int what)
{
	InferRequest *r = &slot->request;

	switch (what)
	{
		case 0:
			r->subject_bytes = UINT64_MAX;
			break;
		case 1:
			r->system_bytes = UINT64_MAX - 2;
			break;
		case 2:
			r->subject_bytes = SLOT_BYTES;
			break;
		case 3:
			memset(r->model, 'm', sizeof(r->model));
			break;
		case 4:
			r->kind = 77;
			break;
		case 5:
			r->max_tokens = -1;
			break;
		case 6:
			r->n_stops = UINT32_MAX;
			r->stops_bytes = UINT32_MAX;
			break;
		case 7:
			slot->payload_in_memfd = 1; /* but none was sent */
			break;
		default:
			r->n_logit_bias = UINT32_MAX;
			break;
	}
}

static void
damaged_request_is_refused(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);

	for (int what = 0; what <= 8; what++)
	{
		InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "abc", 3);

		spoil_request(slot_at(rig, ref.index), what);
		slot_submit(rig, fd, &ref);
		assert_true(rig_settle(rig));
		assert_int_not_equal(result_code(rig, ref.index), INFER_OK);
		assert_int_not_equal(slot_at(rig, ref.index)->result.error.message[0], '\0');
	}
	assert_int_equal(rig->server->engine->n_requests, 0);
	close(fd);
}

static void
scribbled_word_of_a_running_slot_hurts_nobody_else(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef hurt = submitted(rig, fd, INFER_KIND_GENERATE, "x", 3);
	InferSlotRef fine = submitted(rig, fd, INFER_KIND_GENERATE, "y", 3);
	uint64_t forged = UINT64_C(0x4242) << 8 | INFER_SLOT_SUBMITTED;

	assert_true(rig_settle(rig));
	atomic_store(&slot_at(rig, hurt.index)->word, forged);
	bell_send(fd, INFER_BELL_SUBMIT, hurt.index, forged);
	assert_true(rig_settle(rig));
	rig_step(rig, 5);
	assert_int_equal(result_code(rig, fine.index), INFER_OK);
	assert_int_equal(atomic_load(&rig->server->n_running), 0);
	close(fd);
	assert_true(rig_settle(rig));
}

static void
scribbled_ring_counters_stay_inside_the_ring(void **state)
{
	static const uint64_t heads[] = { UINT64_MAX, 1, 7, UINT64_C(1) << 63, 4096 * 8 + 4 };
	Rig *rig = *state;
	int fd = backend_hello(rig);

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
	{
		InferSlotRef ref = submitted(rig, fd, INFER_KIND_GENERATE, "0123456789abcdef", 100);

		assert_true(rig_settle(rig));
		atomic_store(&slot_at(rig, ref.index)->ring_head, heads[i]);
		rig_step(rig, 10);
		atomic_store(&slot_at(rig, ref.index)->ring_tail, heads[4 - i]);
		rig_step(rig, 10);
	}
	close(fd);
	assert_true(rig_settle(rig));
	rig_step(rig, 1);
	assert_int_equal(atomic_load(&rig->server->n_running), 0);
}

static void
damaged_region_is_refused_at_start(void **state)
{
	Rig *rig = rig_create();
	InferError err;

	(void) state;
	rig->region->magic++;
	assert_false(rig_start(rig, &err));
	rig->region->magic--;
	rig->region->n_slots++;
	assert_false(rig_start(rig, &err));
	rig->region->n_slots--;
	rig->region->ring_bytes *= 2;
	assert_false(rig_start(rig, &err));
	rig->region->ring_bytes /= 2;
	rig->region->layout_version++;
	assert_false(rig_start(rig, &err));
	assert_int_equal(err.code, INFER_NO_ENGINE);
	rig_teardown((void **) &rig);
}

/* Geometry is private: what happens to the header later does not move the server. */
static void
scribbled_geometry_is_not_looked_at_again(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef ref = slot_claim(rig, INFER_KIND_GENERATE, "abc", 1);

	rig->region->n_slots = UINT32_MAX;
	rig->region->slot_stride = UINT64_MAX;
	rig->region->prompt_offset = UINT32_MAX;
	rig->region->ring_bytes = UINT32_MAX;
	slot_submit(rig, fd, &ref);
	bell_send(fd, INFER_BELL_SUBMIT, N_SLOTS - 1, INFER_SLOT_SUBMITTED);
	assert_true(rig_settle(rig));
	rig_step(rig, 2);
	assert_int_equal(result_code(rig, ref.index), INFER_OK);
	bell_send(fd, INFER_BELL_SUBMIT, N_SLOTS, INFER_SLOT_SUBMITTED);
	assert_true(rig_settle(rig));
	assert_true(is_closed(fd));
	close(fd);
}

/* ---- payloads in a memfd ---- */

static int
memfd_with(const char *bytes, size_t n_bytes, int seals)
{
	int fd = memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, bytes, n_bytes), n_bytes);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void
bell_send_fds(int fd, const InferDoorbell *bell, const int *fds, size_t n_fds)
{
	union
	{
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} ancillary;
	struct iovec from = { (void *) (uintptr_t) bell, sizeof(*bell) };
	struct msghdr message = { .msg_iov = &from,
							  .msg_iovlen = 1,
							  .msg_control = ancillary.bytes,
							  .msg_controllen = CMSG_SPACE(n_fds * sizeof(int)) };
	struct cmsghdr *c;

	memset(&ancillary, 0, sizeof(ancillary));
	c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	assert_int_equal(sendmsg(fd, &message, 0), sizeof(*bell));
}

static InferSlotRef
submitted_memfd(Rig *rig, int fd, const char *subject, size_t n_bytes, int seals)
{
	InferSlotRef ref = slot_claim(rig, INFER_KIND_COUNT_TOKENS, "", 1);
	InferDoorbell bell = { .type = INFER_BELL_SUBMIT, .slot = ref.index };
	int payload = memfd_with(subject, n_bytes, seals);

	slot_at(rig, ref.index)->request.subject_bytes = n_bytes;
	slot_at(rig, ref.index)->payload_in_memfd = 1;
	assert_true(infer_slot_move(slot_at(rig, ref.index), &ref.word, INFER_SLOT_SUBMITTED));
	bell.word = ref.word;
	bell_send_fds(fd, &bell, &payload, 1);
	close(payload);
	return ref;
}

static int
descriptors_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
payloads_in_memfds_reach_their_own_requests(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	size_t n_bytes = 200000;
	char *subject = calloc(1, n_bytes);
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	InferSlotRef plain;
	InferSlotRef refs[3];
	int n_open;

	assert_true(rig_settle(rig));
	n_open = descriptors_open();
	plain = submitted(rig, fd, INFER_KIND_COUNT_TOKENS, "abc", 1);
	for (size_t i = 0; i < 3; i++)
		refs[i] = submitted_memfd(rig, fd, subject, n_bytes + i - 2, seals);
	assert_true(rig_settle(rig));
	assert_int_equal(result_code(rig, plain.index), INFER_OK);
	for (size_t i = 0; i < 3; i++)
	{
		assert_int_equal(result_code(rig, refs[i].index), INFER_OK);
		assert_int_equal(slot_at(rig, refs[i].index)->result.output_tokens, n_bytes + i - 2);
	}
	assert_int_equal(descriptors_open(), n_open);
	free(subject);
	close(fd);
}

static void
unsealed_or_short_memfd_is_refused(void **state)
{
	Rig *rig = *state;
	int fd = backend_hello(rig);
	InferSlotRef unsealed = submitted_memfd(rig, fd, "abc", 3, F_SEAL_SHRINK | F_SEAL_GROW);
	InferSlotRef growing = submitted_memfd(rig, fd, "abc", 3, F_SEAL_SHRINK | F_SEAL_WRITE);
	InferSlotRef shorter = slot_claim(rig, INFER_KIND_COUNT_TOKENS, "", 1);
	InferDoorbell bell = { .type = INFER_BELL_SUBMIT, .slot = shorter.index };
	int payload = memfd_with("abc", 3, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);

	slot_at(rig, shorter.index)->request.subject_bytes = 4;
	slot_at(rig, shorter.index)->payload_in_memfd = 1;
	assert_true(infer_slot_move(slot_at(rig, shorter.index), &shorter.word, INFER_SLOT_SUBMITTED));
	bell.word = shorter.word;
	bell_send_fds(fd, &bell, &payload, 1);
	close(payload);
	assert_true(rig_settle(rig));
	assert_int_equal(result_code(rig, unsealed.index), INFER_INTERNAL);
	assert_int_equal(result_code(rig, growing.index), INFER_INTERNAL);
	assert_int_equal(result_code(rig, shorter.index), INFER_INTERNAL);
	close(fd);
}

static void
more_than_one_descriptor_closes_the_connection(void **state)
{
	Rig *rig = *state;
	InferDoorbell bell = { INFER_BELL_DRAINED, 0, 0 };
	int fds[8];
	int n_open;

	for (int i = 0; i < 8; i++)
		fds[i] = rig->control_fd;
	n_open = descriptors_open();
	for (size_t n = 2; n <= 8; n++)
	{
		int fd = backend_hello(rig);

		bell_send_fds(fd, &bell, fds, n);
		assert_true(rig_settle(rig));
		assert_true(is_closed(fd));
		close(fd);
	}
	assert_int_equal(descriptors_open(), n_open);
}

static void
unwanted_descriptor_is_closed(void **state)
{
	Rig *rig = *state;
	InferDoorbell bell = { INFER_BELL_DRAINED, 0, 0 };
	int fd = backend_hello(rig);
	int n_open;

	assert_true(rig_settle(rig));
	n_open = descriptors_open();
	for (int i = 0; i < 100; i++)
		bell_send_fds(fd, &bell, &rig->control_fd, 1);
	for (int i = 0; i < 20; i++)
		assert_true(rig_settle(rig));
	assert_int_equal(descriptors_open(), n_open);
	assert_false(is_closed(fd));
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(stale_doorbell_is_ignored),
		RIG_TEST(malformed_frames_close_the_connection),
		RIG_TEST(frame_in_two_parts_is_put_together),
		RIG_TEST(cancel_from_another_session_is_ignored),
		RIG_TEST(damaged_request_is_refused),
		RIG_TEST(scribbled_word_of_a_running_slot_hurts_nobody_else),
		RIG_TEST(scribbled_ring_counters_stay_inside_the_ring),
		cmocka_unit_test(damaged_region_is_refused_at_start),
		RIG_TEST(scribbled_geometry_is_not_looked_at_again),
		RIG_TEST(payloads_in_memfds_reach_their_own_requests),
		RIG_TEST(unsealed_or_short_memfd_is_refused),
		RIG_TEST(more_than_one_descriptor_closes_the_connection),
		RIG_TEST(unwanted_descriptor_is_closed),
	};

	return cmocka_run_group_tests_name("serve_hostile", tests, NULL, NULL);
}
