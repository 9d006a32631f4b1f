/* group_meet.h - the ranks of a group for device memory compare their calls through the host. */
#ifndef GT_COMM_GROUP_MEET_H
#define GT_COMM_GROUP_MEET_H

#include "lib/comm/group.h"

/*
 * A group for device memory may move data without the host. Then it does not notice a rank that
 * calls another collective, is late or is dead. So it owns a group for host memory (`shm`, `ring`
 * or `mpi`) with the same ranks, and calls the functions below on that group.
 */

/* Run a collective or a message without its data: the ranks wait for each other and compare their
 * calls, but no buffer is read or written. Errors: the errors that gt_group_run() returns for this
 * collective, with the same texts; GT_ENOTSUP if `g` is a group for device memory. */
int gt_group_check_calls(struct gt_group *g, const struct gt_collective *c, struct gt_err *err);

/* Check, without waiting, that no rank has failed, died or left. If a rank has failed, return the
 * error of this rank. If a rank has died or left, set *gone and return GT_EIO; the text names the
 * rank. The latest collective may still have succeeded, because the rank may have completed its
 * part before it left. */
int gt_group_check_peers(struct gt_group *g, bool *gone, struct gt_err *err);

/* Make the calls of all ranks fail with *err from now on. If another rank has failed before, keep
 * the error of that rank and copy it to *err. Returns err->code. */
int gt_group_fail(struct gt_group *g, struct gt_err *err);

/* Allocate zeroed host memory, rounded up to whole pages, that all ranks of the group share. *out
 * is the address of this memory in the rank's own process. A collective call. The group owns the
 * memory. Errors: the errors of gt_group_alloc(); GT_ENOTSUP if the ranks cannot share memory. */
int gt_group_share(struct gt_group *g, size_t bytes, void **out, struct gt_err *err);

/* A short text for error messages. */
struct gt_text {
	char s[160];
};

/* Return a short text for a collective: "all-reduce 'bucket 3'". */
struct gt_text gt_collective_text(const struct gt_collective *c);

#endif
