/* group_meet.h - for groups of devices: what ranks call, told by way of their host. */
#ifndef GT_COMM_GROUP_MEET_H
#define GT_COMM_GROUP_MEET_H

#include "lib/comm/group.h"

/*
 * The data of a device's group may go ways of their own, on which nobody learns that a rank calls
 * another collective, is late or is dead. A group for host memory tells: the ranks meet there, too.
 * These functions are for the owner of such a group, which `shm`, `ring` and `mpi` can be.
 */

/* The begin of a collective, and of a message all but its data: buffers are not touched. Errors:
 * those of the collective, in the same words. GT_ENOTSUP: a group for device memory. */
int gt_group_meet(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/* Whether all ranks are there, without waiting. Errors: that which a rank has failed with; GT_EIO
 * and *gone names one that has died or left, which it may have done after its part of the latest
 * collective. */
int gt_group_look(struct gt_group *g, bool *gone, struct gt_err *err);

/* All ranks' calls fail with *err from now on; or with the error of a rank that was first, which
 * *err becomes. Returns err->code. */
int gt_group_fail(struct gt_group *g, struct gt_err *err);

/* "all-reduce 'bucket 3'" */
struct gt_text {
	char s[160];
};
struct gt_text gt_collective_text(const struct gt_collective *c);

#endif
