#include "engine/base/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH_BYTES	4096
#define MAX_CPUS	1024
#define MAX_THREADS 256 /* of the pool */

/* v1 writes "no limit" as a number near INT64_MAX. */
#define V1_NO_LIMIT (UINT64_C(1) << 62)

/* Reads the first line; false when there is none. */
static bool
file_line(const char *path, char *line, int n_bytes)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (file == NULL)
		return false;
	ok = fgets(line, n_bytes, file) != NULL;
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

static bool
file_number(const char *path, uint64_t *out)
{
	char line[64];
	char *end;

	if (!file_line(path, line, sizeof(line)))
		return false;
	*out = strtoull(line, &end, 10);
	return end != line;
}

/* Value of "key value" (unit ignored) in a file of such lines. */
static bool
file_value(const char *path, const char *key, uint64_t *out)
{
	FILE *file = fopen(path, "re");
	char line[256];
	size_t n_key = strlen(key);
	bool found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
	{
		if (strncmp(line, key, n_key) == 0 && (line[n_key] == ' ' || line[n_key] == ':'))
		{
			*out = strtoull(line + n_key + 1, NULL, 10);
			found = true;
		}
	}
	fclose(file);
	return found;
}

/* ---- cgroups -------------------------------------------------------------------------------- */

/* Folder of this process: controller "" is v2; "memory", "cpu" are hierarchies of v1. */
static bool
cgroup_folder(const char *controller, char *folder, size_t n_bytes)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_BYTES];
	bool found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
	{
		char *names = strchr(line, ':');
		char *path = names != NULL ? strchr(names + 1, ':') : NULL;

		if (path == NULL)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (controller[0] == '\0')
			found = names[1] == '\0';
		else
			for (char *name = strtok(names + 1, ","); name != NULL; name = strtok(NULL, ","))
				found = found || strcmp(name, controller) == 0;
		if (found)
			snprintf(folder, n_bytes, "/sys/fs/cgroup%s%s%s", controller[0] != '\0' ? "/" : "",
					 controller, strcmp(path, "/") == 0 ? "" : path);
	}
	fclose(file);
	return found;
}

/* Cuts the last part off; false when that would leave the mount itself. */
static bool
folder_up(char *folder)
{
	char *slash = strrchr(folder, '/');

	if (slash == NULL || strlen(folder) <= strlen("/sys/fs/cgroup"))
		return false;
	*slash = '\0';
	return true;
}

static void
memory_limit_apply(const char *folder, const char *limit_name, const char *usage_name,
				   const char *cache_key, uint64_t *available)
{
	char path[PATH_BYTES + 64];
	uint64_t limit;
	uint64_t usage;
	uint64_t cache = 0;
	uint64_t room;

	snprintf(path, sizeof(path), "%s/%s", folder, limit_name);
	if (!file_number(path, &limit) || limit >= V1_NO_LIMIT)
		return;
	snprintf(path, sizeof(path), "%s/%s", folder, usage_name);
	if (!file_number(path, &usage))
		return;
	/* Cached file pages are charged too, but go when memory is asked for. */
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	file_value(path, cache_key, &cache);
	usage -= cache < usage ? cache : usage;
	room = limit > usage ? limit - usage : 0;
	if (room < *available)
		*available = room;
}

uint64_t
machine_memory_available(void)
{
	uint64_t available = UINT64_MAX;
	uint64_t kilobytes;
	char folder[PATH_BYTES];

	if (file_value("/proc/meminfo", "MemAvailable", &kilobytes))
		available = kilobytes * 1024;
	if (cgroup_folder("", folder, sizeof(folder)))
		do
			memory_limit_apply(folder, "memory.max", "memory.current", "inactive_file", &available);
		while (folder_up(folder));
	if (cgroup_folder("memory", folder, sizeof(folder)))
		do
			memory_limit_apply(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
							   "total_inactive_file", &available);
		while (folder_up(folder));
	return available;
}

/* Whole CPUs that the quota of the cgroup allows, rounded up; INT32_MAX: no quota. */
static int32_t
cgroup_cpus(void)
{
	char folder[PATH_BYTES];
	char path[PATH_BYTES + 64];
	char line[64];
	uint64_t quota;
	uint64_t period;
	uint64_t fewest = INT32_MAX;

	if (cgroup_folder("", folder, sizeof(folder)))
		do
		{
			snprintf(path, sizeof(path), "%s/cpu.max", folder);
			if (file_line(path, line, sizeof(line)) &&
				sscanf(line, "%" SCNu64 " %" SCNu64, &quota, &period) == 2 && period > 0 &&
				(quota + period - 1) / period < fewest)
				fewest = (quota + period - 1) / period;
		} while (folder_up(folder));
	if (cgroup_folder("cpu", folder, sizeof(folder)))
	{
		snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
		if (file_line(path, line, sizeof(line)) && line[0] != '-' && file_number(path, &quota))
		{
			snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
			if (file_number(path, &period) && period > 0 && (quota + period - 1) / period < fewest)
				fewest = (quota + period - 1) / period;
		}
	}
	return fewest > 0 ? (int32_t) fewest : 1;
}

/* ---- cores ---------------------------------------------------------------------------------- */

/* A name for the core of a CPU: package and core number; false when the topology is not told. */
static bool
cpu_core(int cpu, uint64_t *core)
{
	char path[128];
	uint64_t package = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
	file_number(path, &package);
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
	if (!file_number(path, core))
		return false;
	*core |= package << 32;
	return true;
}

int32_t
machine_physical_cores(void)
{
	uint64_t cores[MAX_CPUS];
	int32_t n_cores = 0;
	int32_t n_quota = cgroup_cpus();
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 1;
	for (int cpu = 0; cpu < CPU_SETSIZE && n_cores < MAX_CPUS; cpu++)
	{
		bool known = false;
		uint64_t core;

		if (!CPU_ISSET(cpu, &set))
			continue;
		/* Without a topology each CPU is its own core. */
		if (!cpu_core(cpu, &core))
			core = UINT64_MAX - (uint64_t) cpu;
		for (int32_t i = 0; i < n_cores; i++)
			known = known || cores[i] == core;
		if (!known)
			cores[n_cores++] = core;
	}
	if (n_cores > n_quota)
		n_cores = n_quota;
	if (n_cores > MAX_THREADS)
		n_cores = MAX_THREADS;
	return n_cores > 0 ? n_cores : 1;
}

int64_t
machine_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t
machine_clock_us(void)
{
	return machine_clock_ns() / 1000;
}
