/* place.h - count the ranks that share a device. */
#ifndef GT_COMM_PLACE_H
#define GT_COMM_PLACE_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/* Set *place to a number that identifies the device, or a CPU's host, among all processes. The
 * index does not suffice: two processes may see different devices as "cuda:0". */
int gt_place_of(int64_t *place, const struct gt_device *device, struct gt_err *err);

/* Set *count to the number of ranks that pass the same `place`: a collective call. */
int gt_place_count(int *count, int64_t place, struct gt_group *group, struct gt_err *err);

#endif
