/* cpu.h - the CPU as a device: cores, NUMA nodes, vector instructions, caches, memory. */
#ifndef GT_DEVICE_CPU_H
#define GT_DEVICE_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/maybe.h"

#define GT_CPU_CACHES_MAX   8
#define GT_CPU_FEATURES_MAX 32

/* One cache as the first CPU sees it. */
struct gt_cpu_cache {
	char name[8]; /* "L1d", "L2" */
	uint64_t size_bytes;
	size_t shared_by; /* logical CPUs, 1 = its own */
};

struct gt_numa_node {
	int node;
	size_t cpus;
	struct gt_maybe memory_bytes;
};

/* The CPU as a device. Counts are 0 and texts "" where the system does not tell. */
struct gt_cpu {
	char model[128];
	char arch[32];             /* as uname -m has it: "x86_64", "aarch64" */
	size_t sockets;            /* packages */
	size_t cores;              /* physical */
	size_t threads;            /* logical CPUs online */
	size_t allowed;            /* logical CPUs this process may run on (affinity, cpuset) */
	double quota;              /* CPUs' worth of time the cgroup grants; 0: no limit */
	size_t usable;             /* threads worth starting: min(allowed, quota rounded up) */
	struct gt_numa_node *node; /* [node_count] */
	size_t node_count;         /* 0 where the kernel has no NUMA support */
	const char *feature[GT_CPU_FEATURES_MAX]; /* vector instructions, oldest first */
	size_t feature_count;
	struct gt_cpu_cache cache[GT_CPU_CACHES_MAX];
	size_t cache_count;
	struct gt_maybe memory_total_bytes;
	struct gt_maybe memory_available_bytes; /* the kernel's estimate, no more than the limit */
	struct gt_maybe memory_limit_bytes;     /* limit of the cgroup; unknown: no limit */
};

/*
 * Describe the CPU from /proc and /sys, read under the folder `root` ("" for the real ones), so
 * that tests can pass the files of another machine. Figures that cannot be read stay 0 or unknown.
 * cgroups of version 1 and 2 are followed up to their root: the tightest limit counts.
 *
 * Errors: only GT_ENOMEM. Release with gt_cpu_release().
 * Source: kernel documentation, admin-guide/cputopology, cgroup-v1, cgroup-v2.
 */
int gt_cpu_read(struct gt_cpu *out, const char *root, struct gt_err *err);
void gt_cpu_release(struct gt_cpu *cpu);

/* The most memory that this process can use: the smallest of the machine's memory, the cgroup's
 * limit and the process's own limit (RLIMIT_AS); UINT64_MAX if none is known. */
uint64_t gt_cpu_memory_bytes(void);

/* Memory that can still be allocated; UINT64_MAX if unknown. */
struct gt_cpu_free {
	uint64_t host_bytes;    /* by all processes together: the machine's, or the cgroup's */
	uint64_t process_bytes; /* by this process: its address space (RLIMIT_AS) */
};

void gt_cpu_memory_free(struct gt_cpu_free *out);

#endif
