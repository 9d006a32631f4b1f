/* group_meet.h - the ranks of a group for device memory compare their calls through the host. */
#ifndef GT_COMM_GROUP_MEET_H
#define GT_COMM_GROUP_MEET_H

#include "lib/comm/group.h"

/* A group for device memory may move data without the host, so it cannot notice a rank that calls
 * something else, is late or is dead. It calls these functions on a group for host memory. */

/* Run a collective or a message without its data: wait for the other ranks, and compare the
 * calls. */
int gt_group_check_calls(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/* Check, without waiting, that no rank has failed, died or left. A rank that has died or left sets
 * *gone; it may have completed its part of the latest collective. */
int gt_group_check_peers(struct gt_group *g, bool *gone, struct gt_err *err);

/* Fail all ranks with *err, or set *err to the error of a rank that failed before. Returns
 * err->code. */
int gt_group_fail(struct gt_group *g, struct gt_err *err);

/* Allocate zeroed pages that all ranks share, and the group owns: a collective call. GT_ENOTSUP if
 * they cannot share memory. */
int gt_group_share(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);

struct gt_text {
	char s[160];
};

/* "all-reduce 'bucket 3'" */
struct gt_text gt_collective_text(const struct gt_collective *c);

#endif
