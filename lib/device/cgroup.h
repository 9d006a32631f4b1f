/* cgroup.h - private: limits of CPU time and memory from this process's control groups. */
#ifndef GT_DEVICE_CGROUP_H
#define GT_DEVICE_CGROUP_H

#include "lib/device/maybe.h"

struct gt_cgroup {
	/* limit of CPU time, in CPUs: 1.5 means 1.5 seconds of CPU time per second; 0: no limit */
	double cpus;
	struct gt_maybe memory_bytes; /* limit of memory; unknown: no limit */
	/* Bytes that can still be allocated before the first memory limit is reached. Cached file
	 * data that the kernel can drop counts as free. Unknown: no limit. */
	struct gt_maybe memory_free_bytes;
};

/*
 * Read the limits of this process's control group and of all groups above it, and store the
 * smallest ones. Control groups of version 1 and of version 2 are read. `root` is a prefix for the
 * paths /proc and /sys: "" for the real files, or a folder with copies of them. If this process is
 * in a container, it cannot see the groups above the container, so their limits are not read.
 *
 * Source: kernel documentation, admin-guide/cgroup-v1 and cgroup-v2.
 */
void gt_cgroup_read(struct gt_cgroup *out, const char *root);

#endif
