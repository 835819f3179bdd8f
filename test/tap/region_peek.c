/*
 * region_peek PID: what the shared region says right now, read through the engine's descriptor. For
 * tests that prove by state what happened before what; also while the engine is stopped.
 *
 *     requests submitted=N finished=N failed=N cancelled=N
 *     INDEX STATE PHASE prompt=N output=N ring=BYTES        each slot that is not free
 */
#include "shared/doorbell.h"
#include "shared/region.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const char *const state_names[INFER_N_SLOT_STATES] = {
	"FREE", "CLAIMED", "SUBMITTED", "RUNNING", "ABORTING", "DONE",
};

static const char *const phase_names[] = { "QUEUED", "PREFILL", "DECODE", "PREEMPTED", "FINISHED" };

#define N_PHASES (sizeof(phase_names) / sizeof(phase_names[0]))

static void
counters_print(InferCounters *counters)
{
	printf("requests submitted=%" PRIu64 " finished=%" PRIu64 " failed=%" PRIu64
		   " cancelled=%" PRIu64 "\n",
		   atomic_load(&counters->requests_submitted), atomic_load(&counters->requests_finished),
		   atomic_load(&counters->requests_failed), atomic_load(&counters->requests_cancelled));
}

static void
slot_print(uint32_t index, InferSlot *slot)
{
	InferSlotState state = infer_word_state(atomic_load(&slot->word));
	uint32_t phase = atomic_load(&slot->phase);

	if (state == INFER_SLOT_FREE)
		return;
	printf("%" PRIu32 " %s %s prompt=%" PRIu32 " output=%" PRIu32 " ring=%" PRIu64 "\n", index,
		   state < INFER_N_SLOT_STATES ? state_names[state] : "?",
		   phase < N_PHASES ? phase_names[phase] : "?", atomic_load(&slot->prompt_tokens),
		   atomic_load(&slot->output_tokens),
		   atomic_load(&slot->ring_head) - atomic_load(&slot->ring_tail));
}

int
main(int argc, char **argv)
{
	char path[64];
	struct stat st;
	void *memory;
	InferRegion *region;
	InferError err;
	int fd;

	if (argc != 2)
		return 2;
	snprintf(path, sizeof(path), "/proc/%s/fd/%d", argv[1], INFER_FD_REGION);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) != 0 ||
		(memory = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
	{
		perror(path);
		return 1;
	}
	if (!infer_region_check(memory, (size_t) st.st_size, &err))
	{
		fprintf(stderr, "region_peek: %s\n", err.message);
		return 1;
	}
	region = memory;
	counters_print(&region->counters);
	for (uint32_t i = 0; i < region->n_slots; i++)
		slot_print(i, infer_region_slot(memory, region, i));
	return 0;
}
