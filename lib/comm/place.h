/* place.h - count the ranks that share a device. */
#ifndef GT_COMM_PLACE_H
#define GT_COMM_PLACE_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * Store in *place a number that identifies the device: ranks on the same device get the same
 * number, and ranks on different devices get different ones. The number of a CPU identifies its
 * host. By chance, two different devices have the same number with a probability of 2^-62. The
 * index of a device does not suffice, because two processes may see different devices as "cuda:0".
 * Errors: errors of the backend.
 */
int gt_place_of(int64_t *place, const struct gt_device *device, struct gt_err *err);

/* Store in *count the number of ranks of the group, including this rank, for which gt_place_of()
 * has stored the number `place`. A collective call. Errors: GT_ENOMEM; errors of collectives. */
int gt_place_count(int *count, int64_t place, struct gt_group *group, struct gt_err *err);

#endif
