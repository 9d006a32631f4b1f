/* ring.h - ring groups for host memory: each rank sends only to the next rank. */
#ifndef GT_COMM_RING_RING_H
#define GT_COMM_RING_RING_H

#include "lib/comm/group.h"

/* Replace *group, a group from shm/shm.h, by a ring of the same ranks, which owns it: a collective
 * call. On failure *group is unchanged. If the result of GT_MAX is zero, its sign may differ from
 * that of other groups. */
int gt_ring_of_shm(struct gt_group **group, struct gt_err *err);

#endif
