/* The contract of the two programs: requests, regions, slots, rings, histograms. */
#include "shared/region.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Fixture
{
	InferRegion geometry;
	void *memory;
} Fixture;

static Fixture
region_make(uint32_t n_slots, uint64_t slot_bytes)
{
	Fixture f;
	InferError err;

	assert_true(infer_region_plan(n_slots, slot_bytes, &f.geometry, &err));
	f.memory = aligned_alloc(4096, f.geometry.region_bytes);
	assert_non_null(f.memory);
	memset(f.memory, 0, f.geometry.region_bytes);
	infer_region_format(f.memory, &f.geometry);
	return f;
}

static void
region_free(Fixture *f)
{
	free(f->memory);
}

/* ---- requests ---- */

static void
default_request_passes_its_check(void **state)
{
	InferRequest request;
	InferError err;

	(void) state;
	infer_request_init(&request, INFER_KIND_GENERATE);
	request.subject_bytes = 5;
	assert_true(infer_request_check(&request, 5, &err));
	assert_false(infer_request_check(&request, 4, &err));
	assert_int_equal(err.code, INFER_INTERNAL);
}

static void
numbers_out_of_range_are_refused(void **state)
{
	static const struct
	{
		const char *key;
		double good;
		double bad;
	} cases[] = {
		{ "max_tokens", 1, 0 },
		{ "max_tokens", 1048576, 1048577 },
		{ "max_tokens", 2, 1.5 },
		{ "temperature", 0, -0.01 },
		{ "temperature", 10, 10.01 },
		{ "temperature", 1, NAN },
		{ "temperature", 1, INFINITY },
		{ "top_p", 1, 0 },
		{ "top_k", 0, -1 },
		{ "min_p", 0, 1.01 },
		{ "repeat_penalty", 10, 0 },
		{ "presence_penalty", -2, -2.5 },
		{ "frequency_penalty", 2, 2.01 },
		{ "priority", -10, 1 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const InferOptionInfo *option = infer_option_find(cases[i].key);
		InferRequest request;
		InferError err;

		infer_request_init(&request, INFER_KIND_GENERATE);
		assert_non_null(option);
		assert_true(infer_option_set_number(&request, option, cases[i].good, &err));
		assert_true(infer_request_check(&request, 0, &err));
		assert_false(infer_option_set_number(&request, option, cases[i].bad, &err));
		assert_int_equal(err.code, INFER_BAD_OPTION);
		assert_non_null(strstr(err.message, cases[i].key));
	}
}

static void
check_refuses_what_a_scribble_may_leave(void **state)
{
	InferRequest good;
	InferRequest request;
	InferError err;

	(void) state;
	infer_request_init(&good, INFER_KIND_CHAT);

#define REFUSED(statement)                                                                         \
	request = good;                                                                                \
	statement;                                                                                     \
	assert_false(infer_request_check(&request, UINT64_MAX - 1, &err))

	REFUSED(request.kind = 0);
	REFUSED(request.kind = INFER_N_KINDS);
	REFUSED(request.flags = 0x80000000u);
	REFUSED(memset(request.model, 'x', sizeof(request.model)));
	REFUSED(request.subject_bytes = UINT64_MAX);
	REFUSED(request.system_bytes = INFER_MAX_SUBJECT_BYTES + 1);
	REFUSED(request.n_stops = INFER_MAX_STOPS + 1);
	REFUSED(request.n_stops = 2; request.stops_bytes = 1);
	REFUSED(request.stops_bytes = 10);
	REFUSED(request.n_logit_bias = INFER_MAX_LOGIT_BIAS + 1);
	REFUSED(request.temperature = NAN);
	REFUSED(request.max_tokens = INT32_MIN);
	REFUSED(request.priority = 11);
#undef REFUSED
}

static void
payload_size_does_not_wrap(void **state)
{
	InferRequest request;

	(void) state;
	infer_request_init(&request, INFER_KIND_GENERATE);
	request.system_bytes = UINT64_MAX - 1;
	request.subject_bytes = 3;
	assert_true(infer_request_payload_bytes(&request) == UINT64_MAX);
	request.system_bytes = 10;
	request.stops_bytes = 7;
	request.n_logit_bias = 2;
	assert_int_equal(infer_request_payload_bytes(&request), 36);
}

static void
misspelt_option_is_answered_with_the_nearest(void **state)
{
	(void) state;
	assert_null(infer_option_find("temprature"));
	assert_string_equal(infer_option_nearest("temprature"), "temperature");
	assert_string_equal(infer_option_nearest("maxtokens"), "max_tokens");
	assert_string_equal(infer_option_nearest("topk"), "top_k");
	assert_null(infer_option_nearest(""));
	assert_null(infer_option_nearest("zzzzzzzzzzzzz"));
	assert_null(infer_option_nearest("a key that is much longer than any key of ours could be"));
}

/* ---- region ---- */

static void
region_lays_slots_out_without_overlap(void **state)
{
	Fixture f = region_make(3, 32768);
	InferError err;

	(void) state;
	assert_true(infer_region_check(f.memory, f.geometry.region_bytes, &err));
	for (uint32_t i = 0; i < 3; i++)
	{
		char *slot = (char *) infer_region_slot(f.memory, &f.geometry, i);
		char *prompt = infer_region_prompt(f.memory, &f.geometry, i);
		InferRing ring = infer_region_ring(f.memory, &f.geometry, i);

		assert_true(prompt >= slot + sizeof(InferSlot));
		assert_true(ring.bytes >= prompt + f.geometry.prompt_bytes);
		assert_true(ring.bytes + ring.ring_bytes <= slot + f.geometry.slot_stride);
		assert_true(slot + f.geometry.slot_stride <= (char *) f.memory + f.geometry.region_bytes);
	}
	assert_null(infer_region_slot(f.memory, &f.geometry, 3));
	assert_null(infer_region_prompt(f.memory, &f.geometry, UINT32_MAX));
	region_free(&f);
}

static void
impossible_sizes_are_refused(void **state)
{
	InferRegion geometry;
	InferError err;

	(void) state;
	assert_false(infer_region_plan(0, 32768, &geometry, &err));
	assert_false(infer_region_plan(65537, 32768, &geometry, &err));
	assert_false(infer_region_plan(8, 8192, &geometry, &err));
	assert_false(infer_region_plan(8, 40000, &geometry, &err));
	assert_false(infer_region_plan(8, UINT64_C(1) << 40, &geometry, &err));
}

static void
damaged_header_is_refused(void **state)
{
	Fixture f = region_make(2, 32768);
	InferRegion *region = f.memory;
	InferRegion good = *region;
	InferError err;
	size_t n_bytes = f.geometry.region_bytes;

	(void) state;
#define REFUSED(statement)                                                                         \
	statement;                                                                                     \
	assert_false(infer_region_check(f.memory, n_bytes, &err));                                     \
	*region = good

	REFUSED(region->magic++);
	REFUSED(region->layout_version++);
	REFUSED(region->n_slots = 0);
	REFUSED(region->n_slots = 3);
	REFUSED(region->slot_stride = 12345);
	REFUSED(region->ring_bytes = 7);
	REFUSED(region->prompt_offset = 0);
#undef REFUSED
	assert_true(infer_region_check(f.memory, n_bytes, &err));
	assert_false(infer_region_check(f.memory, n_bytes - 1, &err));
	assert_false(infer_region_check(f.memory, 0, &err));
	region_free(&f);
}

static void
block_of_a_dead_writer_is_reported_and_repaired(void **state)
{
	static _Atomic uint32_t version;
	char block[16] = "settings";
	char copy[16];

	(void) state;
	assert_true(infer_block_read(&version, block, copy, sizeof(block)));
	assert_string_equal(copy, "settings");
	infer_block_write_begin(&version);
	assert_false(infer_block_read(&version, block, copy, sizeof(block)));
	infer_block_write_begin(&version);
	infer_block_write_end(&version);
	assert_true(infer_block_read(&version, block, copy, sizeof(block)));
}

/* ---- slots ---- */

static void
every_slot_is_claimed_once_and_then_none(void **state)
{
	Fixture f = region_make(5, 16384);
	bool seen[5] = { false };
	InferSlotRef ref;

	(void) state;
	for (int i = 0; i < 5; i++)
	{
		assert_true(infer_region_claim(f.memory, &f.geometry, 3, &ref));
		assert_false(seen[ref.index]);
		seen[ref.index] = true;
	}
	assert_false(infer_region_claim(f.memory, &f.geometry, 3, &ref));
	region_free(&f);
}

static void
transition_from_a_stale_word_fails(void **state)
{
	Fixture f = region_make(1, 16384);
	InferSlot *slot = infer_region_slot(f.memory, &f.geometry, 0);
	InferSlotRef first;
	InferSlotRef second;
	uint64_t stale;

	(void) state;
	assert_true(infer_region_claim(f.memory, &f.geometry, 0, &first));
	stale = first.word;
	assert_true(infer_slot_move(slot, &first.word, INFER_SLOT_FREE));
	assert_true(infer_region_claim(f.memory, &f.geometry, 0, &second));

	assert_int_equal(infer_word_state(stale), infer_word_state(second.word));
	assert_false(infer_slot_move(slot, &stale, INFER_SLOT_FREE));
	assert_true(stale == second.word);
	assert_int_equal(infer_word_state(atomic_load(&slot->word)), INFER_SLOT_CLAIMED);
	region_free(&f);
}

static void
claimed_slot_keeps_nothing_of_the_last_request(void **state)
{
	Fixture f = region_make(1, 16384);
	InferRing ring = infer_region_ring(f.memory, &f.geometry, 0);
	InferPiece piece;
	InferSlotRef ref;
	bool damaged;

	(void) state;
	assert_true(infer_region_claim(f.memory, &f.geometry, 0, &ref));
	assert_true(infer_ring_write(&ring, "left over", 9, 1));
	ring.slot->payload_in_memfd = 1;
	atomic_store(&ring.slot->engine_waiting, 1);
	assert_true(infer_slot_move(ring.slot, &ref.word, INFER_SLOT_FREE));
	assert_true(infer_region_claim(f.memory, &f.geometry, 0, &ref));
	assert_false(infer_ring_peek(&ring, &piece, &damaged));
	assert_false(damaged);
	assert_int_equal(ring.slot->payload_in_memfd, 0);
	assert_int_equal(atomic_load(&ring.slot->engine_waiting), 0);
	region_free(&f);
}

#define HAMMER_SLOTS	3
#define HAMMER_REQUESTS 20000

typedef struct Hammer
{
	Fixture *f;
	_Atomic bool stop;
	_Atomic int n_answered;
	_Atomic int n_aborted;
} Hammer;

/* Plays the engine: takes what is submitted, answers it, frees what is aborting. */
static void *
hammer_engine(void *argument)
{
	Hammer *hammer = argument;

	while (!atomic_load(&hammer->stop))
	{
		for (uint32_t i = 0; i < HAMMER_SLOTS; i++)
		{
			InferSlot *slot = infer_region_slot(hammer->f->memory, &hammer->f->geometry, i);
			uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);

			if (infer_word_state(word) == INFER_SLOT_SUBMITTED &&
				infer_slot_move(slot, &word, INFER_SLOT_RUNNING))
			{
				slot->result.seed = slot->request.seed + 1;
				if (infer_slot_move(slot, &word, INFER_SLOT_DONE))
					atomic_fetch_add(&hammer->n_answered, 1);
			}
			if (infer_word_state(word) == INFER_SLOT_ABORTING &&
				infer_slot_move(slot, &word, INFER_SLOT_FREE))
				atomic_fetch_add(&hammer->n_aborted, 1);
		}
		sched_yield();
	}
	return NULL;
}

/* Waits for the answer, or gives up now and then in whatever state the request is. */
static bool
hammer_request(Hammer *hammer, uint64_t serial)
{
	InferSlotRef ref;
	InferSlot *slot;

	while (!infer_region_claim(hammer->f->memory, &hammer->f->geometry, (uint32_t) serial, &ref))
		sched_yield();
	slot = infer_region_slot(hammer->f->memory, &hammer->f->geometry, ref.index);
	slot->request.seed = serial;
	assert_true(infer_slot_move(slot, &ref.word, INFER_SLOT_SUBMITTED));

	if (serial % 7 == 0)
	{
		InferSlotState to = INFER_SLOT_FREE;

		/* each failed swap tells the state to cancel from */
		while (!infer_slot_move(slot, &ref.word, to))
			to = infer_word_state(ref.word) == INFER_SLOT_RUNNING ? INFER_SLOT_ABORTING
																  : INFER_SLOT_FREE;
		return false;
	}
	do
	{
		sched_yield();
		ref.word = atomic_load_explicit(&slot->word, memory_order_acquire);
	} while (infer_word_state(ref.word) != INFER_SLOT_DONE);
	assert_true(slot->result.seed == serial + 1);
	assert_true(infer_slot_move(slot, &ref.word, INFER_SLOT_FREE));
	return true;
}

static void
slots_survive_two_threads_and_none_leaks(void **state)
{
	Fixture f = region_make(HAMMER_SLOTS, 16384);
	Hammer hammer = { .f = &f };
	pthread_t engine;
	int n_answered = 0;
	int n_busy = HAMMER_SLOTS;

	(void) state;
	assert_int_equal(pthread_create(&engine, NULL, hammer_engine, &hammer), 0);
	for (uint64_t serial = 0; serial < HAMMER_REQUESTS; serial++)
		n_answered += hammer_request(&hammer, serial);
	while (n_busy > 0)
	{
		n_busy = 0;
		for (uint32_t i = 0; i < HAMMER_SLOTS; i++)
			n_busy +=
				infer_word_state(atomic_load(&infer_region_slot(f.memory, &f.geometry, i)->word)) !=
				INFER_SLOT_FREE;
		sched_yield();
	}
	atomic_store(&hammer.stop, true);
	pthread_join(engine, NULL);
	assert_true(atomic_load(&hammer.n_answered) >= n_answered);
	region_free(&f);
}

/* ---- rings ---- */

static void
pieces_come_out_as_they_went_in(void **state)
{
	Fixture f = region_make(1, 16384);
	InferRing ring = infer_region_ring(f.memory, &f.geometry, 0);
	char in[4096];
	char out[4096];
	InferPiece piece;
	bool damaged;

	(void) state;
	for (uint32_t round = 0; round < 2000; round++)
	{
		uint32_t n_bytes = round * 37 % (infer_ring_max_piece(&ring) + 1);

		memset(in, 'a' + (int) (round % 26), n_bytes);
		assert_true(infer_ring_write(&ring, in, n_bytes, round));
		assert_true(infer_ring_peek(&ring, &piece, &damaged));
		assert_int_equal(piece.n_bytes, n_bytes);
		assert_int_equal(piece.output_tokens, round);
		infer_ring_take(&ring, &piece, out);
		assert_memory_equal(in, out, n_bytes);
		assert_false(infer_ring_peek(&ring, &piece, &damaged));
	}
	region_free(&f);
}

static void
full_ring_refuses_until_it_is_drained(void **state)
{
	Fixture f = region_make(1, 16384);
	InferRing ring = infer_region_ring(f.memory, &f.geometry, 0);
	char bytes[4096] = { 0 };
	InferPiece piece;
	bool damaged;
	int n_written = 0;

	(void) state;
	while (infer_ring_write(&ring, bytes, 1000, 0))
		n_written++;
	assert_int_equal(n_written, 4);
	assert_false(infer_ring_write(&ring, bytes, infer_ring_max_piece(&ring) + 1, 0));
	assert_true(infer_ring_peek(&ring, &piece, &damaged));
	infer_ring_take(&ring, &piece, bytes);
	assert_true(infer_ring_write(&ring, bytes, 1000, 0));
	region_free(&f);
}

static void
damaged_ring_is_reported_and_never_followed(void **state)
{
	Fixture f = region_make(1, 16384);
	InferRing ring = infer_region_ring(f.memory, &f.geometry, 0);
	uint32_t longer = 0x7fffffff;
	InferPiece piece;
	bool damaged;

	(void) state;
	atomic_store(&ring.slot->ring_head, ring.ring_bytes + 8);
	assert_false(infer_ring_peek(&ring, &piece, &damaged));
	assert_true(damaged);
	assert_false(infer_ring_write(&ring, "x", 1, 0));

	atomic_store(&ring.slot->ring_head, 3);
	assert_false(infer_ring_peek(&ring, &piece, &damaged));
	assert_true(damaged);

	atomic_store(&ring.slot->ring_head, 0);
	assert_true(infer_ring_write(&ring, "x", 1, 0));
	memcpy(ring.bytes, &longer, sizeof(longer));
	assert_false(infer_ring_peek(&ring, &piece, &damaged));
	assert_true(damaged);
	region_free(&f);
}

#define STREAM_BYTES 2000000

static void *
ring_writer(void *argument)
{
	InferRing *ring = argument;
	unsigned char bytes[1024];
	uint32_t sent = 0;

	while (sent < STREAM_BYTES)
	{
		uint32_t n_bytes = 1 + sent % 777;

		if (n_bytes > STREAM_BYTES - sent)
			n_bytes = STREAM_BYTES - sent;
		for (uint32_t i = 0; i < n_bytes; i++)
			bytes[i] = (unsigned char) ((sent + i) * 31);
		while (!infer_ring_write(ring, bytes, n_bytes, sent))
			sched_yield();
		sent += n_bytes;
	}
	return NULL;
}

static void
ring_carries_a_long_stream_between_two_threads(void **state)
{
	Fixture f = region_make(1, 16384);
	InferRing ring = infer_region_ring(f.memory, &f.geometry, 0);
	InferRing writers = ring;
	unsigned char bytes[4096];
	pthread_t writer;
	uint32_t received = 0;

	(void) state;
	assert_int_equal(pthread_create(&writer, NULL, ring_writer, &writers), 0);
	while (received < STREAM_BYTES)
	{
		InferPiece piece;
		bool damaged;

		if (!infer_ring_peek(&ring, &piece, &damaged))
		{
			assert_false(damaged);
			sched_yield();
			continue;
		}
		assert_int_equal(piece.output_tokens, received);
		infer_ring_take(&ring, &piece, (char *) bytes);
		for (uint32_t i = 0; i < piece.n_bytes; i++)
			if (bytes[i] != (unsigned char) ((received + i) * 31))
				fail_msg("byte %u is wrong", received + i);
		received += piece.n_bytes;
	}
	pthread_join(writer, NULL);
	region_free(&f);
}

/* ---- histograms ---- */

static void
quantile_is_right_within_a_bucket(void **state)
{
	static InferHistogram histogram;

	(void) state;
	assert_int_equal(infer_histogram_quantile(&histogram, 0.5), 0);
	for (int64_t us = 1; us <= 100000; us++)
		infer_histogram_add(&histogram, us);
	for (int percent = 1; percent <= 99; percent++)
	{
		double exact = percent * 1000.0;
		double found = (double) infer_histogram_quantile(&histogram, percent / 100.0);

		assert_true(found >= exact * 0.999 && found <= exact * 1.19);
	}
	assert_int_equal(atomic_load(&histogram.n), 100000);
}

static void
extreme_times_do_not_leave_the_histogram(void **state)
{
	static InferHistogram histogram;

	(void) state;
	infer_histogram_add(&histogram, INT64_MIN);
	infer_histogram_add(&histogram, 0);
	infer_histogram_add(&histogram, INT64_MAX);
	assert_int_equal(atomic_load(&histogram.buckets[0]), 2);
	assert_int_equal(atomic_load(&histogram.buckets[INFER_HISTOGRAM_BUCKETS - 1]), 1);
	assert_true(infer_histogram_quantile(&histogram, 1) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_request_passes_its_check),
		cmocka_unit_test(numbers_out_of_range_are_refused),
		cmocka_unit_test(check_refuses_what_a_scribble_may_leave),
		cmocka_unit_test(payload_size_does_not_wrap),
		cmocka_unit_test(misspelt_option_is_answered_with_the_nearest),
		cmocka_unit_test(region_lays_slots_out_without_overlap),
		cmocka_unit_test(impossible_sizes_are_refused),
		cmocka_unit_test(damaged_header_is_refused),
		cmocka_unit_test(block_of_a_dead_writer_is_reported_and_repaired),
		cmocka_unit_test(every_slot_is_claimed_once_and_then_none),
		cmocka_unit_test(transition_from_a_stale_word_fails),
		cmocka_unit_test(claimed_slot_keeps_nothing_of_the_last_request),
		cmocka_unit_test(slots_survive_two_threads_and_none_leaks),
		cmocka_unit_test(pieces_come_out_as_they_went_in),
		cmocka_unit_test(full_ring_refuses_until_it_is_drained),
		cmocka_unit_test(damaged_ring_is_reported_and_never_followed),
		cmocka_unit_test(ring_carries_a_long_stream_between_two_threads),
		cmocka_unit_test(quantile_is_right_within_a_bucket),
		cmocka_unit_test(extreme_times_do_not_leave_the_histogram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
