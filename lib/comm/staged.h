/* staged.h - groups of ranks for device memory; their data go through pinned host memory. */
#ifndef GT_COMM_STAGED_H
#define GT_COMM_STAGED_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * Replace *group, a group for host memory that nothing else uses, by a staged group, which owns it:
 * a collective call. `chunk_bytes` is the size of the pinned buffers, the same on all ranks; 0: 1
 * MiB. Free the new group before the device. If the call fails on one rank, free that rank's *group
 * at once, as the others wait for it. On failure *group is unchanged.
 */
int gt_staged_new(struct gt_group **group, const struct gt_device *device, size_t chunk_bytes,
    struct gt_err *err);

#endif
