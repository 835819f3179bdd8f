/*
 * The KV cache's book-keeping: who holds a page, what is found again, what is evicted first.
 */
#include "engine/kv/kv_pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_PAGES 8

static const ModelConfig config = {
	.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32, .n_context = 100
};
static const KvSalt alice = { { 1 } };
static const KvSalt bob = { { 2 } };

static KvPages *
pages_create(KvType type)
{
	KvPages *kv = NULL;
	InferError err;

	assert_true(kv_pages_create(&config, type, N_PAGES, &kv, &err));
	return kv;
}

/* n tokens: start, start + 1, ... */
static void
tokens_fill(int32_t *ids, int32_t n, int32_t start)
{
	for (int32_t i = 0; i < n; i++)
		ids[i] = start + i;
}

/* A sequence of n_pages full pages, computed, published and released from its end. */
static void
prefix_leave(KvPages *kv, const KvSalt *salt, const int32_t *ids, int32_t n_pages)
{
	int32_t pages[N_PAGES];

	assert_true(kv_pages_alloc(kv, n_pages, pages));
	kv_prefix_publish(kv, salt, ids, 0, n_pages, pages);
	while (n_pages > 0)
		kv_page_release(kv, pages[--n_pages]);
}

static void
test_alloc_is_all_or_nothing(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t pages[N_PAGES + 1];

	(void) state;
	assert_true(kv_pages_alloc(kv, 5, pages));
	assert_int_equal(kv_pages_free_count(kv), 3);
	assert_false(kv_pages_alloc(kv, 4, pages + 5));
	assert_int_equal(kv_pages_free_count(kv), 3);
	assert_true(kv_pages_alloc(kv, 3, pages + 5));
	for (int i = 0; i < N_PAGES; i++)
		for (int j = 0; j < i; j++)
			assert_int_not_equal(pages[i], pages[j]);
	for (int i = 0; i < N_PAGES; i++)
		kv_page_release(kv, pages[i]);
	assert_int_equal(kv_pages_free_count(kv), N_PAGES);
	kv_pages_destroy(kv);
}

static void
test_released_prefix_is_found_again(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t ids[64];
	int32_t found[4];

	(void) state;
	tokens_fill(ids, 64, 100);
	prefix_leave(kv, &alice, ids, 3);
	assert_int_equal(kv_pages_cached_count(kv), 3);

	assert_int_equal(kv_prefix_find(kv, &alice, ids, 64, found), 3);
	assert_int_equal(kv_pages_cached_count(kv), 0);
	assert_int_equal(kv_page_references(kv, found[0]), 1);
	for (int i = 2; i >= 0; i--)
		kv_page_release(kv, found[i]);
	assert_int_equal(kv_pages_free_count(kv), N_PAGES);
	kv_pages_destroy(kv);
}

static void
test_a_token_is_always_left_to_compute(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t ids[48];
	int32_t found[3];

	(void) state;
	tokens_fill(ids, 48, 0);
	prefix_leave(kv, &alice, ids, 3);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 48, found), 2);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 33, found), 2);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 32, found), 1);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 0, found), 0);
	kv_pages_destroy(kv);
}

static void
test_another_role_finds_nothing(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t ids[64];
	int32_t found[4];

	(void) state;
	tokens_fill(ids, 64, 0);
	prefix_leave(kv, &alice, ids, 3);
	assert_int_equal(kv_prefix_find(kv, &bob, ids, 64, found), 0);
	kv_pages_destroy(kv);
}

/* The second page's tokens are equal, but what stands before it is not. */
static void
test_same_tokens_after_another_prefix_are_another_page(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t ids[48];
	int32_t found[3];

	(void) state;
	tokens_fill(ids, 48, 0);
	prefix_leave(kv, &alice, ids, 2);
	ids[0] = 999;
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 48, found), 0);
	kv_pages_destroy(kv);
}

static void
test_a_prefix_is_shared_while_in_use(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t ids[48];
	int32_t pages[2];
	int32_t found[2];

	(void) state;
	tokens_fill(ids, 48, 0);
	assert_true(kv_pages_alloc(kv, 2, pages));
	kv_prefix_publish(kv, &alice, ids, 0, 2, pages);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 48, found), 2);
	assert_memory_equal(found, pages, sizeof(pages));
	assert_int_equal(kv_page_references(kv, pages[1]), 2);
	kv_pages_destroy(kv);
}

static void
test_oldest_and_deepest_are_evicted_first(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t older[64];
	int32_t newer[64];
	int32_t pages[N_PAGES];

	(void) state;
	tokens_fill(older, 64, 0);
	tokens_fill(newer, 64, 1000);
	prefix_leave(kv, &alice, older, 3);
	prefix_leave(kv, &alice, newer, 3);
	assert_true(kv_pages_alloc(kv, 4, pages)); /* two free ones and two cached ones */

	assert_int_equal(kv_prefix_find(kv, &alice, older, 64, pages + 4), 1);
	assert_int_equal(kv_prefix_find(kv, &alice, newer, 64, pages + 5), 3);
	kv_pages_destroy(kv);
}

static void
test_index_keeps_its_first_page(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t ids[48];
	int32_t first[2];
	int32_t second[2];
	int32_t found[2];

	(void) state;
	tokens_fill(ids, 48, 0);
	assert_true(kv_pages_alloc(kv, 2, first) && kv_pages_alloc(kv, 2, second));
	kv_prefix_publish(kv, &alice, ids, 0, 2, first);
	kv_prefix_publish(kv, &alice, ids, 0, 1, second);
	kv_prefix_publish(kv, &alice, ids, 1, 2, second);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 48, found), 2);
	assert_memory_equal(found, first, sizeof(first));

	kv_page_release(kv, second[1]);
	kv_page_release(kv, second[0]);
	assert_int_equal(kv_pages_cached_count(kv), 0);
	kv_pages_destroy(kv);
}

static void
test_shared_page_is_copied_before_it_is_written(void **state)
{
	KvPages *kv = pages_create(KV_F32);
	KvLayer layer;
	int32_t page;
	int32_t copy;

	(void) state;
	assert_true(kv_pages_alloc(kv, 1, &page));
	kv_layer_view(kv, 1, &layer);
	memset(layer.base + (size_t) page * layer.page_bytes, 7, layer.head_bytes);

	assert_int_equal(kv_page_make_private(kv, page), page);
	kv_page_retain(kv, page);
	copy = kv_page_make_private(kv, page);
	assert_int_not_equal(copy, page);
	assert_int_equal(kv_page_references(kv, page), 1);
	assert_int_equal(kv_page_references(kv, copy), 1);
	assert_memory_equal(layer.base + (size_t) page * layer.page_bytes,
						layer.base + (size_t) copy * layer.page_bytes, layer.head_bytes);
	kv_pages_destroy(kv);
}

static void
test_a_published_page_is_forgotten_before_it_is_written(void **state)
{
	KvPages *kv = pages_create(KV_F32);
	int32_t ids[32];
	int32_t page;
	int32_t found;

	(void) state;
	tokens_fill(ids, 32, 0);
	assert_true(kv_pages_alloc(kv, 1, &page));
	kv_prefix_publish(kv, &alice, ids, 0, 1, &page);
	assert_int_equal(kv_page_make_private(kv, page), page);
	assert_int_equal(kv_prefix_find(kv, &alice, ids, 32, &found), 0);
	kv_page_release(kv, page);
	assert_int_equal(kv_pages_cached_count(kv), 0);
	assert_int_equal(kv_pages_free_count(kv), N_PAGES);
	kv_pages_destroy(kv);
}

static void
test_f32_pages_are_twice_as_large(void **state)
{
	(void) state;
	assert_int_equal(kv_page_bytes(&config, KV_F16), 2 * 2 * 2 * 16 * 32 * 2);
	assert_int_equal(kv_page_bytes(&config, KV_F32), 2 * kv_page_bytes(&config, KV_F16));
}

static void
test_the_bytes_of_a_cache_are_those_of_its_own_type(void **state)
{
	KvPages *kv = pages_create(KV_F32);

	(void) state;
	assert_int_equal(kv_pages_bytes(kv), N_PAGES * kv_page_bytes(&config, KV_F32));
	kv_pages_destroy(kv);
}

static void
test_pages_are_counted_by_budget_and_by_use(void **state)
{
	size_t page = kv_page_bytes(&config, KV_F16);

	(void) state;
	assert_int_equal(kv_page_count(&config, KV_F16, 0, 4), 1);
	assert_int_equal(kv_page_count(&config, KV_F16, page - 1, 4), 1);
	assert_int_equal(kv_page_count(&config, KV_F16, 3 * page - 1, 4), 2);
	assert_int_equal(kv_page_count(&config, KV_F32, 4 * page, 4), 2);
	assert_int_equal(kv_page_count(&config, KV_F16, UINT64_MAX, 4), 4 * 7);
}

static void
test_a_sequence_is_no_longer_than_all_pages_hold(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	ModelConfig longer = config;

	(void) state;
	longer.n_context = 1000;
	assert_int_equal(kv_pages_context(kv, &config), 100);
	assert_int_equal(kv_pages_context(kv, &longer), N_PAGES * KV_PAGE_TOKENS);
	kv_pages_destroy(kv);
}

/* Different pages among those that are held. */
static int
pages_held(int32_t held[4][2], const bool *is_held)
{
	bool seen[N_PAGES] = { false };
	int n = 0;

	for (int i = 0; i < 4; i++)
		for (int j = 0; is_held[i] && j < 2; j++)
		{
			n += !seen[held[i][j]];
			seen[held[i][j]] = true;
		}
	return n;
}

/* 100,000 random steps; the sum of free, cached and held pages never changes. */
static void
test_random_use_keeps_the_books(void **state)
{
	KvPages *kv = pages_create(KV_F16);
	int32_t held[4][2];
	bool is_held[4] = { false };
	uint32_t random = 1;

	(void) state;
	for (int step = 0; step < 100000; step++)
	{
		int32_t ids[48];
		int s;

		random = random * 1664525 + 1013904223;
		s = (int) (random >> 28) % 4;
		tokens_fill(ids, 48, (int32_t) (random >> 20 & 7) * 100);
		if (is_held[s])
		{
			kv_page_release(kv, held[s][1]);
			kv_page_release(kv, held[s][0]);
			is_held[s] = false;
		}
		else
		{
			int32_t n = kv_prefix_find(kv, &alice, ids, 48, held[s]);

			assert_true(kv_pages_alloc(kv, 2 - n, held[s] + n));
			kv_prefix_publish(kv, &alice, ids, n, 2, held[s]);
			is_held[s] = true;
		}
		assert_int_equal(kv_pages_free_count(kv), N_PAGES - pages_held(held, is_held));
	}
	for (int i = 0; i < 4; i++)
		for (int j = 1; is_held[i] && j >= 0; j--)
			kv_page_release(kv, held[i][j]);
	assert_int_equal(kv_pages_free_count(kv), N_PAGES);
	kv_pages_destroy(kv);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc_is_all_or_nothing),
		cmocka_unit_test(test_released_prefix_is_found_again),
		cmocka_unit_test(test_a_token_is_always_left_to_compute),
		cmocka_unit_test(test_another_role_finds_nothing),
		cmocka_unit_test(test_same_tokens_after_another_prefix_are_another_page),
		cmocka_unit_test(test_a_prefix_is_shared_while_in_use),
		cmocka_unit_test(test_oldest_and_deepest_are_evicted_first),
		cmocka_unit_test(test_index_keeps_its_first_page),
		cmocka_unit_test(test_shared_page_is_copied_before_it_is_written),
		cmocka_unit_test(test_a_published_page_is_forgotten_before_it_is_written),
		cmocka_unit_test(test_f32_pages_are_twice_as_large),
		cmocka_unit_test(test_the_bytes_of_a_cache_are_those_of_its_own_type),
		cmocka_unit_test(test_pages_are_counted_by_budget_and_by_use),
		cmocka_unit_test(test_a_sequence_is_no_longer_than_all_pages_hold),
		cmocka_unit_test(test_random_use_keeps_the_books),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
