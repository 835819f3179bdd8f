#include "engine/kv/kv_pages.h"

#include "engine/base/sha256.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NO_PAGE (-1)

typedef struct PageHash
{
	uint8_t bytes[16];
} PageHash;

typedef struct Page
{
	int32_t references;
	bool hashed;	  /* hash and token_ids are those of its content */
	bool indexed;	  /* the prefix index leads here */
	int32_t next;	  /* in its bucket of the index */
	int32_t lru_prev; /* of the cached list; also the link of the free stack */
	int32_t lru_next;
	PageHash hash;
	int32_t token_ids[KV_PAGE_TOKENS];
} Page;

struct KvPages
{
	/* Config */
	KvType type;
	int32_t n_pages;
	int32_t n_kv_heads;
	int32_t head_dim;
	size_t page_bytes;
	size_t head_bytes; /* K and V of one head in one layer of a page */
	char *memory;	   /* [n_pages][n_layers][n_kv_heads][head_bytes] */
	size_t memory_bytes;

	/* State */
	Page *pages;	  /* [n_pages] */
	int32_t *buckets; /* [n_buckets] first page, or NO_PAGE */
	uint32_t n_buckets;
	int32_t free_top; /* stack through lru_prev */
	int32_t n_free;
	int32_t oldest; /* cached pages, oldest first */
	int32_t newest;
	int32_t n_cached;
};

static size_t
kv_head_bytes(const ModelConfig *config, KvType type)
{
	size_t item_bytes = type == KV_F32 ? 4 : 2;

	return 2 * KV_PAGE_TOKENS * (size_t) config->head_dim * item_bytes;
}

size_t
kv_page_bytes(const ModelConfig *config, KvType type)
{
	return (size_t) config->n_layers * (size_t) config->n_kv_heads * kv_head_bytes(config, type);
}

int32_t
kv_page_count(const ModelConfig *config, KvType type, uint64_t budget_bytes, int32_t n_sequences)
{
	uint64_t n = budget_bytes / kv_page_bytes(config, type);
	uint64_t context_pages = ((uint64_t) config->n_context + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
	uint64_t useful = (uint64_t) n_sequences * context_pages;

	if (n > useful)
		n = useful;
	if (n > INT32_MAX / 2)
		n = INT32_MAX / 2;
	return n > 0 ? (int32_t) n : 1;
}

static bool
kv_memory_map(KvPages *kv, InferError *err)
{
	void *memory;

	if (__builtin_mul_overflow((size_t) kv->n_pages, kv->page_bytes, &kv->memory_bytes))
		return fail(err, INFER_OUT_OF_MEMORY,
					"the KV cache is larger than any memory\n"
					"%" PRId32 " pages of %zu bytes were asked for.\n"
					"Lower infer.kv_memory.",
					kv->n_pages, kv->page_bytes);
	memory = mmap(NULL, kv->memory_bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
	{
		size_t n_bytes = kv->memory_bytes;

		kv->memory_bytes = 0;
		return fail(err, INFER_OUT_OF_MEMORY,
					"not enough memory for the KV cache\n"
					"%" PRId32 " pages need %zu MiB.\n"
					"Lower infer.kv_memory.",
					kv->n_pages, n_bytes >> 20);
	}
	madvise(memory, kv->memory_bytes, MADV_HUGEPAGE);
	kv->memory = memory;
	return true;
}

bool
kv_pages_create(const ModelConfig *config, KvType type, int32_t n_pages, KvPages **out,
				InferError *err)
{
	KvPages *kv = calloc(1, sizeof(*kv));

	if (kv == NULL || n_pages < 1)
	{
		free(kv);
		return fail(err, INFER_OUT_OF_MEMORY,
					"the KV cache cannot be made\nIt would have %" PRId32 " pages.", n_pages);
	}
	kv->type = type;
	kv->n_pages = n_pages;
	kv->n_kv_heads = config->n_kv_heads;
	kv->head_dim = config->head_dim;
	kv->page_bytes = kv_page_bytes(config, type);
	kv->head_bytes = kv_head_bytes(config, type);
	kv->n_buckets = 16;
	while (kv->n_buckets < (uint32_t) n_pages)
		kv->n_buckets *= 2;
	kv->pages = calloc((size_t) n_pages, sizeof(*kv->pages));
	kv->buckets = malloc(kv->n_buckets * sizeof(*kv->buckets));
	if (kv->pages == NULL || kv->buckets == NULL || !kv_memory_map(kv, err))
	{
		if (kv->pages == NULL || kv->buckets == NULL)
			fail(err, INFER_OUT_OF_MEMORY, "not enough memory for the KV cache");
		kv_pages_destroy(kv);
		return false;
	}
	for (uint32_t i = 0; i < kv->n_buckets; i++)
		kv->buckets[i] = NO_PAGE;
	kv->free_top = kv->oldest = kv->newest = NO_PAGE;
	for (int32_t page = n_pages - 1; page >= 0; page--)
	{
		kv->pages[page].lru_prev = kv->free_top;
		kv->free_top = page;
	}
	kv->n_free = n_pages;
	*out = kv;
	return true;
}

void
kv_pages_destroy(KvPages *kv)
{
	if (kv == NULL)
		return;
	if (kv->memory != NULL)
		munmap(kv->memory, kv->memory_bytes);
	free(kv->pages);
	free(kv->buckets);
	free(kv);
}

int32_t
kv_pages_total(const KvPages *kv)
{
	return kv->n_pages;
}

size_t
kv_pages_bytes(const KvPages *kv)
{
	return kv->memory_bytes;
}

int32_t
kv_pages_context(const KvPages *kv, const ModelConfig *config)
{
	int64_t n_tokens = (int64_t) kv->n_pages * KV_PAGE_TOKENS;

	return n_tokens < config->n_context ? (int32_t) n_tokens : config->n_context;
}

int32_t
kv_pages_free_count(const KvPages *kv)
{
	return kv->n_free + kv->n_cached;
}

int32_t
kv_pages_cached_count(const KvPages *kv)
{
	return kv->n_cached;
}

void
kv_layer_view(const KvPages *kv, int32_t layer, KvLayer *out)
{
	out->base = kv->memory + (size_t) layer * (size_t) kv->n_kv_heads * kv->head_bytes;
	out->page_bytes = kv->page_bytes;
	out->head_bytes = kv->head_bytes;
	out->type = kv->type;
	out->n_kv_heads = kv->n_kv_heads;
	out->head_dim = kv->head_dim;
}

/* ---- the list of cached pages ---- */

static void
cached_push(KvPages *kv, int32_t page)
{
	Page *p = &kv->pages[page];

	p->lru_prev = kv->newest;
	p->lru_next = NO_PAGE;
	if (kv->newest != NO_PAGE)
		kv->pages[kv->newest].lru_next = page;
	else
		kv->oldest = page;
	kv->newest = page;
	kv->n_cached++;
}

static void
cached_remove(KvPages *kv, int32_t page)
{
	Page *p = &kv->pages[page];

	if (p->lru_prev != NO_PAGE)
		kv->pages[p->lru_prev].lru_next = p->lru_next;
	else
		kv->oldest = p->lru_next;
	if (p->lru_next != NO_PAGE)
		kv->pages[p->lru_next].lru_prev = p->lru_prev;
	else
		kv->newest = p->lru_prev;
	kv->n_cached--;
}

/* ---- the prefix index ---- */

static int32_t *
bucket_of(const KvPages *kv, const PageHash *hash)
{
	uint32_t number;

	memcpy(&number, hash->bytes, sizeof(number));
	return &kv->buckets[number & (kv->n_buckets - 1)];
}

static void
index_remove(KvPages *kv, int32_t page)
{
	int32_t *link = bucket_of(kv, &kv->pages[page].hash);

	while (*link != page)
		link = &kv->pages[*link].next;
	*link = kv->pages[page].next;
	kv->pages[page].indexed = false;
}

/* The page that holds these tokens after this prefix, or NO_PAGE. */
static int32_t
index_find(const KvPages *kv, const PageHash *hash, const int32_t *token_ids)
{
	for (int32_t page = *bucket_of(kv, hash); page != NO_PAGE; page = kv->pages[page].next)
	{
		const Page *p = &kv->pages[page];

		if (memcmp(&p->hash, hash, sizeof(*hash)) == 0 &&
			memcmp(p->token_ids, token_ids, sizeof(p->token_ids)) == 0)
			return page;
	}
	return NO_PAGE;
}

/* *hash goes from that of the page before (zeros for the first) to that of this one. */
static bool
chain_step(const KvSalt *salt, const int32_t *token_ids, PageHash *hash)
{
	struct
	{
		KvSalt salt;
		PageHash before;
		int32_t token_ids[KV_PAGE_TOKENS];
	} link;
	uint8_t digest[SHA256_BYTES];

	link.salt = *salt;
	link.before = *hash;
	memcpy(link.token_ids, token_ids, sizeof(link.token_ids));
	if (!sha256_compute(&link, sizeof(link), digest))
		return false;
	memcpy(hash->bytes, digest, sizeof(hash->bytes));
	return true;
}

/* ---- pages ---- */

static int32_t
page_take(KvPages *kv)
{
	int32_t page = kv->free_top;

	if (page != NO_PAGE)
	{
		kv->free_top = kv->pages[page].lru_prev;
		kv->n_free--;
	}
	else
	{
		page = kv->oldest;
		cached_remove(kv, page);
		index_remove(kv, page);
	}
	kv->pages[page].references = 1;
	kv->pages[page].hashed = false;
	return page;
}

bool
kv_pages_alloc(KvPages *kv, int32_t n_pages, int32_t *page_ids)
{
	if (n_pages > kv_pages_free_count(kv))
		return false;
	for (int32_t i = 0; i < n_pages; i++)
		page_ids[i] = page_take(kv);
	return true;
}

void
kv_page_retain(KvPages *kv, int32_t page)
{
	if (kv->pages[page].references++ == 0)
		cached_remove(kv, page);
}

void
kv_page_release(KvPages *kv, int32_t page)
{
	Page *p = &kv->pages[page];

	if (--p->references > 0)
		return;
	if (p->indexed)
	{
		cached_push(kv, page);
		return;
	}
	p->lru_prev = kv->free_top;
	kv->free_top = page;
	kv->n_free++;
}

int32_t
kv_page_references(const KvPages *kv, int32_t page)
{
	return kv->pages[page].references;
}

int32_t
kv_page_make_private(KvPages *kv, int32_t page)
{
	int32_t copy;

	if (kv->pages[page].references == 1)
	{
		/* Nobody else holds it, but the index must not promise what is about to be overwritten. */
		if (kv->pages[page].indexed)
			index_remove(kv, page);
		kv->pages[page].hashed = false;
		return page;
	}
	if (!kv_pages_alloc(kv, 1, &copy))
		return NO_PAGE;
	memcpy(kv->memory + (size_t) copy * kv->page_bytes, kv->memory + (size_t) page * kv->page_bytes,
		   kv->page_bytes);
	kv_page_release(kv, page);
	return copy;
}

int32_t
kv_prefix_find(KvPages *kv, const KvSalt *salt, const int32_t *token_ids, int32_t n_tokens,
			   int32_t *page_ids)
{
	int32_t n_full = n_tokens > 0 ? (n_tokens - 1) / KV_PAGE_TOKENS : 0;
	PageHash hash = { { 0 } };
	int32_t n = 0;

	for (; n < n_full; n++)
	{
		const int32_t *ids = token_ids + (size_t) n * KV_PAGE_TOKENS;
		int32_t page;

		if (!chain_step(salt, ids, &hash))
			break;
		page = index_find(kv, &hash, ids);
		if (page == NO_PAGE)
			break;
		kv_page_retain(kv, page);
		page_ids[n] = page;
	}
	return n;
}

/* The hash of the chain up to and without page n of the sequence. */
static bool
chain_before(const KvPages *kv, const KvSalt *salt, const int32_t *token_ids, int32_t n,
			 const int32_t *page_ids, PageHash *hash)
{
	memset(hash, 0, sizeof(*hash));
	if (n > 0 && kv->pages[page_ids[n - 1]].hashed)
	{
		*hash = kv->pages[page_ids[n - 1]].hash;
		return true;
	}
	for (int32_t i = 0; i < n; i++)
		if (!chain_step(salt, token_ids + (size_t) i * KV_PAGE_TOKENS, hash))
			return false;
	return true;
}

void
kv_prefix_publish(KvPages *kv, const KvSalt *salt, const int32_t *token_ids, int32_t first_page,
				  int32_t n_pages, const int32_t *page_ids)
{
	PageHash hash;

	if (!chain_before(kv, salt, token_ids, first_page, page_ids, &hash))
		return;
	for (int32_t i = first_page; i < n_pages; i++)
	{
		const int32_t *ids = token_ids + (size_t) i * KV_PAGE_TOKENS;
		Page *p = &kv->pages[page_ids[i]];

		if (!chain_step(salt, ids, &hash))
			return;
		if (p->indexed)
			continue;
		p->hash = hash;
		p->hashed = true;
		memcpy(p->token_ids, ids, sizeof(p->token_ids));
		if (index_find(kv, &hash, ids) != NO_PAGE)
			continue;
		p->next = *bucket_of(kv, &hash);
		*bucket_of(kv, &hash) = page_ids[i];
		p->indexed = true;
	}
}
