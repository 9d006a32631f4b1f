/* staged.h - groups of ranks for device memory; their data go through pinned host memory. */
#ifndef GT_COMM_STAGED_H
#define GT_COMM_STAGED_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * A collective on device memory is cut into chunks. A slot is a block of pinned host memory for one
 * chunk. The group has three streams, which work on different chunks at the same time. Each stream
 * does one step for a chunk:
 *
 *   out     copies the chunk to a slot
 *   calls   runs the collective on the data in the slot, with a group for host memory
 *   in      copies the result from the slot to device memory
 *
 *            time ------------------------------------>
 *   out      chunk 0 | chunk 1 | chunk 2 |         |
 *   calls            | chunk 0 | chunk 1 | chunk 2 |
 *   in                         | chunk 0 | chunk 1 | chunk 2
 *
 * Events keep the steps in order, so the host can queue the whole collective without waiting. If
 * the group for host memory is "ordered" (it sums in a fixed order: group.h), the staged group is
 * ordered, too.
 *
 * gt_staged_new() replaces *group, a group for host memory that nothing else uses, by a staged
 * group. The new group owns the old one. `chunk_bytes` is the size of a slot, the same on all
 * ranks; 0 means 1 MiB. In an all-gather or a reduce-scatter, a slot holds the data of all ranks,
 * so a chunk of one rank is smaller than the slot. Free the new group before the device.
 *
 * This is a collective call. If it fails on one rank, free that rank's *group at once: until then
 * the others wait for it, at most for their timeout. Errors: GT_ENOMEM; GT_EDEVICE (`check_queues`
 * in lib/device/backend.h); the errors of the backend and of group.h. *group is then unchanged.
 */
int gt_staged_new(struct gt_group **group, const struct gt_device *device, size_t chunk_bytes,
    struct gt_err *err);

#endif
