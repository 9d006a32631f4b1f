/* cgroup.h - inside device: how much CPU time and memory the process's control groups grant it. */
#ifndef GT_DEVICE_CGROUP_H
#define GT_DEVICE_CGROUP_H

#include "lib/device/maybe.h"

struct gt_cgroup {
	double cpus;                  /* CPUs' worth of time; 0: no limit */
	struct gt_maybe memory_bytes; /* unknown: no limit */
	/* Bytes that can still be allocated before the nearest limit of a group is reached. Cached
	 * file data that the kernel can drop do not count as used. Unknown: no limit. */
	struct gt_maybe memory_free_bytes;
};

/*
 * The tightest limits on the way from the group of this process up to the root, of version 1 and
 * version 2 hierarchies, under the folder `root` ("" for the real one). Groups outside this
 * container have no folder here; they are skipped. Source: kernel documentation,
 * admin-guide/cgroup-v1 and cgroup-v2.
 */
void gt_cgroup_read(struct gt_cgroup *out, const char *root);

#endif
