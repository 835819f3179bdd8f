/*
 * machine.h: what this machine, or the cgroup around this process, really has. Reads /sys and /proc
 * each time; a file that is missing means "no such limit". Any thread.
 */
#ifndef INFER_ENGINE_MACHINE_H
#define INFER_ENGINE_MACHINE_H

#include <stdint.h>

/*
 * Physical cores that this process may use: distinct cores of the topology within its affinity
 * mask, not more than the CPU quota of its cgroup. At least 1.
 */
extern int32_t machine_physical_cores(void);

/*
 * Bytes that can be allocated without swapping: MemAvailable, and the room that is left in every
 * cgroup (v2 and v1) above this process. UINT64_MAX when nothing is known.
 */
extern uint64_t machine_memory_available(void);

/* Time since some fixed point; never goes back. */
extern int64_t machine_clock_ns(void);
extern int64_t machine_clock_us(void);

#endif
