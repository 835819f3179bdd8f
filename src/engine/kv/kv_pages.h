/*
 * kv_pages.h: the KV cache: a pool of pages of KV_PAGE_TOKENS positions each (all layers and KV
 * heads), reference counts, and automatic reuse of prefixes.
 *
 * A page is in one of three conditions:
 *
 *   free      reference count 0, no content
 *   in use    reference count > 0: in the block table of that many sequences
 *   cached    reference count 0, full, and known to the prefix index; first to be evicted is the
 * one whose last use is oldest (deepest of a chain before its ancestors)
 *
 * Full pages are named by a chain: hash(salt, hash of the page before, the page's 16 token ids),
 * SHA-256 cut to 128 bits, and the token ids are compared on a hit. The salt is secret and differs
 * by role, so no role can probe (by timing) what another has asked. A page of another sequence may
 * only be shared when full; a partly filled last page is copied before it is written if somebody
 * else holds it (copy on write).
 *
 * Not thread safe: the step thread owns it. Page memory is written by the kernels' kv_write only.
 */
#ifndef INFER_ENGINE_KV_PAGES_H
#define INFER_ENGINE_KV_PAGES_H

#include "engine/model/model.h"
#include "kernels/kernels.h"
#include "shared/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct KvPages KvPages;

typedef struct KvSalt
{
	uint8_t bytes[16];
} KvSalt;

extern size_t kv_page_bytes(const ModelConfig *config, KvType type);

/* Pages that budget_bytes allow, and not more than n_sequences of full context fill; at least 1. */
extern int32_t kv_page_count(const ModelConfig *config, KvType type, uint64_t budget_bytes,
							 int32_t n_sequences);

/* n_pages of page memory are reserved at once and touched on first use. */
extern bool kv_pages_create(const ModelConfig *config, KvType type, int32_t n_pages, KvPages **out,
							InferError *err);
extern void kv_pages_destroy(KvPages *kv);

extern int32_t kv_pages_total(const KvPages *kv);
extern size_t kv_pages_bytes(const KvPages *kv); /* page memory, of the type it was made with */
/* Longest sequence: the trained context, or what all pages hold if that is less. */
extern int32_t kv_pages_context(const KvPages *kv, const ModelConfig *config);
extern int32_t kv_pages_free_count(const KvPages *kv); /* free + cached: what alloc can give */
extern int32_t kv_pages_cached_count(const KvPages *kv);
extern void kv_layer_view(const KvPages *kv, int32_t layer, KvLayer *out);

/* Pages with reference count 1 and undefined content, evicting cached ones; all or nothing. */
extern bool kv_pages_alloc(KvPages *kv, int32_t n_pages, int32_t *page_ids);
extern void kv_page_retain(KvPages *kv, int32_t page);
extern void kv_page_release(KvPages *kv, int32_t page);
extern int32_t kv_page_references(const KvPages *kv, int32_t page);

/* Copy on write: a page that only the caller holds, with the content of `page`; -1 when out of
 * pages. */
extern int32_t kv_page_make_private(KvPages *kv, int32_t page);

/*
 * Longest run of cached full pages that is a prefix of token_ids[0 .. n_tokens - 1); at least one
 * token is always left to compute. Found pages are retained and written to page_ids; returns their
 * number.
 */
extern int32_t kv_prefix_find(KvPages *kv, const KvSalt *salt, const int32_t *token_ids,
							  int32_t n_tokens, int32_t *page_ids);

/*
 * Tells the index that pages [first_page, n_pages) of a sequence are full and computed. Pages whose
 * content is known already under another id stay as they are (the index keeps its first).
 */
extern void kv_prefix_publish(KvPages *kv, const KvSalt *salt, const int32_t *token_ids,
							  int32_t first_page, int32_t n_pages, const int32_t *page_ids);

#endif
