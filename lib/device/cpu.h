/* cpu.h - the CPU as a device: cores, NUMA nodes, vector instructions, caches, memory. */
#ifndef GT_DEVICE_CPU_H
#define GT_DEVICE_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/maybe.h"

#define GT_CPU_CACHES_MAX   8
#define GT_CPU_FEATURES_MAX 32

struct gt_cpu_cache {
	char name[8]; /* "L1d", "L2" */
	uint64_t size_bytes;
	size_t shared_by; /* logical CPUs that use it */
};

struct gt_numa_node {
	int node;    /* the kernel's number */
	size_t cpus; /* logical CPUs */
	struct gt_maybe memory_bytes;
};

/* The CPU as a device. An unknown count is 0, an unknown text is "". */
struct gt_cpu {
	char model[128];
	char arch[32]; /* as printed by `uname -m` */
	size_t sockets;
	size_t cores;              /* physical cores */
	size_t threads;            /* logical CPUs that are online */
	size_t allowed;            /* logical CPUs for this process (affinity, cpuset) */
	double quota;              /* limit of CPU time from the cgroup, in CPUs; 0: none */
	size_t usable;             /* min(allowed, quota rounded up) */
	struct gt_numa_node *node; /* [node_count] */
	size_t node_count;         /* 0 without NUMA support */
	/* [feature_count]: vector instruction sets, oldest first */
	const char *feature[GT_CPU_FEATURES_MAX];
	size_t feature_count;
	struct gt_cpu_cache cache[GT_CPU_CACHES_MAX]; /* [cache_count] */
	size_t cache_count;
	struct gt_maybe memory_total_bytes;
	/* the kernel's estimate, at most memory_limit_bytes */
	struct gt_maybe memory_available_bytes;
	struct gt_maybe memory_limit_bytes; /* limit from the cgroup; unknown: none */
};

/* Read the facts from /proc and /sys below `root` ("", or a folder with copies). quota and
 * memory_limit_bytes are the smallest of this process's cgroups and those above. Errors: only
 * GT_ENOMEM; *out is then empty. */
int gt_cpu_read(struct gt_cpu *out, const char *root, struct gt_err *err);
void gt_cpu_release(struct gt_cpu *cpu);

/* Return the memory that this process can use: the machine's, or less by the cgroup, or what
 * RLIMIT_AS leaves beside the program and its libraries. UINT64_MAX if unknown. */
uint64_t gt_cpu_memory_bytes(void);

/* Memory that can still be allocated; UINT64_MAX if unknown. */
struct gt_cpu_available {
	uint64_t host_bytes;    /* left for all processes together, in the machine or the cgroup */
	uint64_t process_bytes; /* left for this process (RLIMIT_AS) */
};

void gt_cpu_memory_available(struct gt_cpu_available *out);

/* Return the resident memory of this process, or 0 if it is not known. */
uint64_t gt_cpu_resident_bytes(void);

#endif
