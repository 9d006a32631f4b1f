/* cpu.h - the CPU as a device: cores, NUMA nodes, vector instructions, caches, memory. */
#ifndef GT_DEVICE_CPU_H
#define GT_DEVICE_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/maybe.h"

#define GT_CPU_CACHES_MAX   8
#define GT_CPU_FEATURES_MAX 32

/* One of the caches of the first CPU. */
struct gt_cpu_cache {
	char name[8]; /* "L1d", "L2" */
	uint64_t size_bytes;
	size_t shared_by; /* number of logical CPUs that use this cache; 1: only the first CPU */
};

struct gt_numa_node {
	int node;    /* the kernel's number of the node */
	size_t cpus; /* number of logical CPUs */
	struct gt_maybe memory_bytes;
};

/* The CPU as a device. A count that is not known is 0, and a text that is not known is "". */
struct gt_cpu {
	char model[128];
	char arch[32];  /* architecture, as printed by `uname -m`: "x86_64", "aarch64" */
	size_t sockets; /* number of processor packages */
	size_t cores;   /* number of physical cores */
	size_t threads; /* number of logical CPUs that are online */
	size_t allowed; /* number of logical CPUs this process may use (affinity, cpuset) */
	double quota;   /* limit of CPU time from the cgroup, in CPUs; 0: no limit */
	size_t usable;  /* useful number of threads: min(allowed, quota rounded up) */
	struct gt_numa_node *node; /* [node_count] */
	size_t node_count;         /* 0 if the kernel has no NUMA support */
	/* [feature_count]: names of the vector instruction sets, oldest first */
	const char *feature[GT_CPU_FEATURES_MAX];
	size_t feature_count;
	struct gt_cpu_cache cache[GT_CPU_CACHES_MAX]; /* [cache_count] */
	size_t cache_count;
	struct gt_maybe memory_total_bytes;
	/* the kernel's estimate of the memory that can be allocated; at most memory_limit_bytes */
	struct gt_maybe memory_available_bytes;
	struct gt_maybe memory_limit_bytes; /* limit from the cgroup; unknown: no limit */
};

/*
 * Read the facts about the CPU from /proc and /sys. `root` is a prefix for these paths: "" for the
 * real ones, or, in tests, a folder with files of another machine. Numbers that cannot be read stay
 * 0 or unknown. quota and memory_limit_bytes are the smallest limits among this process's cgroup
 * and all cgroups above it. Cgroups of version 1 and of version 2 are read. Release *out with
 * gt_cpu_release().
 *
 * Errors: only GT_ENOMEM; *out is then empty.
 * Source: kernel documentation, admin-guide/cputopology, cgroup-v1, cgroup-v2.
 */
int gt_cpu_read(struct gt_cpu *out, const char *root, struct gt_err *err);
void gt_cpu_release(struct gt_cpu *cpu);

/* Return the bytes of memory that this process can use: the smallest of the machine's memory, the
 * limit from the cgroup and the limit of the process (RLIMIT_AS). UINT64_MAX if none is known. */
uint64_t gt_cpu_memory_bytes(void);

/* Bytes of memory that can still be allocated; UINT64_MAX if unknown. */
struct gt_cpu_available {
	/* by all processes together: the smaller of the machine's free memory and the cgroup's free
	 * memory */
	uint64_t host_bytes;
	uint64_t process_bytes; /* by this process alone, within its address space (RLIMIT_AS) */
};

/* Read how much memory is available. */
void gt_cpu_memory_available(struct gt_cpu_available *out);

#endif
