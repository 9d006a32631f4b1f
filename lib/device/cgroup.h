/* cgroup.h - private: limits of CPU time and memory from this process's control groups. */
#ifndef GT_DEVICE_CGROUP_H
#define GT_DEVICE_CGROUP_H

#include "lib/device/maybe.h"

/* Source: the kernel's documentation, admin-guide/cgroup-v1 and cgroup-v2. */
struct gt_cgroup {
	double cpus;                  /* limit of CPU time per time; 0: none */
	struct gt_maybe memory_bytes; /* limit; unknown: none */
	/* left before a limit, with droppable cache; unknown: no limit */
	struct gt_maybe memory_free_bytes;
};

/* Read the smallest limits of this process's control group (version 1 or 2) and of those above it
 * that it can see. `root` comes before /proc and /sys: "", or a folder with copies. */
void gt_cgroup_read(struct gt_cgroup *out, const char *root);

#endif
