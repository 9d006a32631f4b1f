/* group_meet.h - let ranks of a group for device memory compare their calls on the host. */
#ifndef GT_COMM_GROUP_MEET_H
#define GT_COMM_GROUP_MEET_H

#include "lib/comm/group.h"

/*
 * A group for device memory may move data without the host. It then does not notice that a rank
 * calls another collective, is late or is dead. So its ranks also meet in a group for host memory,
 * which does notice. The owner of that host group (`shm`, `ring` or `mpi`) calls these functions.
 */

/* Run a collective or a message without its data: the ranks compare their calls and wait for each
 * other, but no buffer is read or written. Errors: those of the collective, with the same texts;
 * GT_ENOTSUP for a group for device memory. */
int gt_group_meet(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/* Check, without waiting, that no rank has failed or left. Errors: the error of a rank that has
 * failed; GT_EIO, with *gone set and the rank named in *err, if a rank has died or left. That rank
 * may have completed its part of the latest collective before. */
int gt_group_look(struct gt_group *g, bool *gone, struct gt_err *err);

/* Make the calls of all ranks fail with *err from now on. If another rank has failed before, its
 * error stays and is copied to *err. Returns err->code. */
int gt_group_fail(struct gt_group *g, struct gt_err *err);

/* Allocate zeroed host memory in whole pages, shared by all ranks of the group: *out is the address
 * of the same bytes on each rank. A collective call. The group owns the memory. Errors: those of
 * gt_group_alloc(); GT_ENOTSUP if the ranks share no memory. */
int gt_group_share(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);

/* "all-reduce 'bucket 3'" */
struct gt_text {
	char s[160];
};
struct gt_text gt_collective_text(const struct gt_collective *c);

#endif
