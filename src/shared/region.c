#include "shared/region.h"

#include <inttypes.h>
#include <string.h>

#define MAX_SLOTS	   65536u
#define MIN_SLOT_BYTES UINT64_C(16384) /* header, a ring of a quarter, and some prompt */
#define MAX_SLOT_BYTES (UINT64_C(64) << 20)
#define RING_SHARE	   4 /* a quarter of a slot is ring: output is drained, prompts are not */
#define REGION_ALIGN   UINT64_C(4096)

/* A writer that died in the middle is told from a busy one by patience alone. */
#define BLOCK_READ_TRIES 1000

static uint64_t
align_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

bool
infer_region_plan(uint32_t n_slots, uint64_t slot_bytes, InferRegion *geometry, InferError *err)
{
	uint64_t header_bytes = align_up(sizeof(InferSlot), 64);

	if (n_slots == 0 || n_slots > MAX_SLOTS)
		return fail(err, INFER_BAD_OPTION,
					"number of request slots is out of range\nIt is %" PRIu32
					"; allowed are 1 to %u.",
					n_slots, MAX_SLOTS);
	if (slot_bytes < MIN_SLOT_BYTES || slot_bytes > MAX_SLOT_BYTES ||
		(slot_bytes & (slot_bytes - 1)) != 0)
		return fail(err, INFER_BAD_OPTION,
					"size of a request slot cannot be used\nIt is %" PRIu64
					" bytes; a power of two from %" PRIu64 " to %" PRIu64 " is needed.",
					slot_bytes, MIN_SLOT_BYTES, MAX_SLOT_BYTES);

	memset(geometry, 0, sizeof(*geometry));
	geometry->magic = INFER_REGION_MAGIC;
	geometry->layout_version = INFER_LAYOUT_VERSION;
	geometry->n_slots = n_slots;
	geometry->slots_offset = align_up(sizeof(InferRegion), REGION_ALIGN);
	geometry->slot_stride = slot_bytes;
	geometry->ring_bytes = (uint32_t) (slot_bytes / RING_SHARE);
	geometry->ring_offset = (uint32_t) (slot_bytes - geometry->ring_bytes);
	geometry->prompt_offset = (uint32_t) header_bytes;
	geometry->prompt_bytes = (uint32_t) (geometry->ring_offset - header_bytes);
	geometry->region_bytes = geometry->slots_offset + (uint64_t) n_slots * slot_bytes;
	return true;
}

_Static_assert(sizeof(InferSlot) < MIN_SLOT_BYTES / 2, "a slot's header leaves room for a prompt");

void
infer_region_format(void *memory, const InferRegion *geometry)
{
	InferRegion *region = memory;

	/* zeroed slots are FREE at generation 0, and zeroed counters are what they should be */
	region->layout_version = geometry->layout_version;
	region->n_slots = geometry->n_slots;
	region->region_bytes = geometry->region_bytes;
	region->slots_offset = geometry->slots_offset;
	region->slot_stride = geometry->slot_stride;
	region->prompt_offset = geometry->prompt_offset;
	region->prompt_bytes = geometry->prompt_bytes;
	region->ring_offset = geometry->ring_offset;
	region->ring_bytes = geometry->ring_bytes;
	region->magic = geometry->magic;
}

bool
infer_region_check(const void *memory, size_t n_bytes, InferError *err)
{
	const InferRegion *region = memory;
	InferRegion planned;

	if (n_bytes < sizeof(InferRegion) || region->magic != INFER_REGION_MAGIC)
		return fail(err, INFER_INTERNAL, "this is not an infer region\nIt has %zu bytes.", n_bytes);
	if (region->layout_version != INFER_LAYOUT_VERSION)
		return fail(err, INFER_NO_ENGINE,
					"module and engine program are of different versions\n"
					"The region has layout version %" PRIu32 ", this program reads version %u.\n"
					"Restart the database server to load the installed version.",
					region->layout_version, INFER_LAYOUT_VERSION);
	if (!infer_region_plan(region->n_slots, region->slot_stride, &planned, err))
		return fail_prefix(err, "damaged region: ");
	if (region->region_bytes != planned.region_bytes || n_bytes < planned.region_bytes ||
		region->slots_offset != planned.slots_offset ||
		region->prompt_offset != planned.prompt_offset ||
		region->prompt_bytes != planned.prompt_bytes ||
		region->ring_offset != planned.ring_offset || region->ring_bytes != planned.ring_bytes)
		return fail(err, INFER_INTERNAL,
					"damaged region\nIts header does not add up: %" PRIu64 " bytes for %" PRIu32
					" slots of %" PRIu64 " bytes, in %zu bytes of memory.",
					region->region_bytes, region->n_slots, region->slot_stride, n_bytes);
	return true;
}

static char *
slot_address(void *memory, const InferRegion *geometry, uint32_t index)
{
	if (index >= geometry->n_slots)
		return NULL;
	return (char *) memory + geometry->slots_offset + index * geometry->slot_stride;
}

InferSlot *
infer_region_slot(void *memory, const InferRegion *geometry, uint32_t index)
{
	/* aligned: the mapping, the offset and the stride are multiples of 4096 */
	return (InferSlot *) (void *) slot_address(memory, geometry, index);
}

char *
infer_region_prompt(void *memory, const InferRegion *geometry, uint32_t index)
{
	char *slot = slot_address(memory, geometry, index);

	return slot != NULL ? slot + geometry->prompt_offset : NULL;
}

InferRing
infer_region_ring(void *memory, const InferRegion *geometry, uint32_t index)
{
	char *slot = slot_address(memory, geometry, index);
	InferRing ring = { (InferSlot *) (void *) slot, NULL, geometry->ring_bytes };

	if (slot != NULL)
		ring.bytes = slot + geometry->ring_offset;
	return ring;
}

/* What the last request left behind. The claimer owns all of it: nobody writes to a FREE slot. */
static void
slot_reset(InferSlot *slot)
{
	atomic_store_explicit(&slot->backend_waiting, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->engine_waiting, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->phase, INFER_PHASE_QUEUED, memory_order_relaxed);
	atomic_store_explicit(&slot->output_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->prompt_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->cached_tokens, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->ring_head, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->ring_tail, 0, memory_order_relaxed);
	slot->payload_in_memfd = 0;
}

bool
infer_region_claim(void *memory, const InferRegion *geometry, uint32_t hint, InferSlotRef *out)
{
	uint32_t index = hint % geometry->n_slots;

	for (uint32_t i = 0; i < geometry->n_slots; i++)
	{
		InferSlot *slot = infer_region_slot(memory, geometry, index);
		uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

		if (infer_word_state(word) == INFER_SLOT_FREE &&
			infer_slot_move(slot, &word, INFER_SLOT_CLAIMED))
		{
			slot_reset(slot);
			out->index = index;
			out->word = word;
			return true;
		}
		if (++index == geometry->n_slots)
			index = 0;
	}
	return false;
}

void
infer_block_write_begin(_Atomic uint32_t *version)
{
	uint32_t now = atomic_load_explicit(version, memory_order_relaxed);

	/* A writer that died in the middle left it odd: its successor starts over. The exchange keeps
	 * the block's stores behind it. */
	atomic_exchange_explicit(version, (now + 1) | 1, memory_order_acq_rel);
}

void
infer_block_write_end(_Atomic uint32_t *version)
{
	uint32_t now = atomic_load_explicit(version, memory_order_relaxed);

	atomic_store_explicit(version, now + 1, memory_order_release);
}

/*
 * The copy of a sequence lock races by design; the version tells afterwards whether it was torn.
 * Acquire loads keep the second look at the version behind them; the sanitizer is told.
 */
__attribute__((no_sanitize("thread"))) static void
block_copy(void *to, const void *from, size_t n_bytes)
{
	const unsigned char *source = from;
	unsigned char *target = to;

	for (size_t i = 0; i < n_bytes; i++)
		target[i] = __atomic_load_n(&source[i], __ATOMIC_ACQUIRE);
}

bool
infer_block_read(const _Atomic uint32_t *version, const void *block, void *copy, size_t n_bytes)
{
	for (int i = 0; i < BLOCK_READ_TRIES; i++)
	{
		uint32_t before = atomic_load_explicit(version, memory_order_acquire);

		if ((before & 1) != 0)
			continue;
		block_copy(copy, block, n_bytes);
		if (atomic_load_explicit(version, memory_order_relaxed) == before)
			return true;
	}
	block_copy(copy, block, n_bytes);
	return false;
}
