/* staged.h - groups for device memory that copy data through pinned host memory. */
#ifndef GT_COMM_STAGED_H
#define GT_COMM_STAGED_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * A collective on device memory is cut into chunks. The group has three streams. Each stream does
 * one step for a chunk, and they work on different chunks at the same time:
 *
 *   out     copies the chunk to a slot of pinned host memory
 *   calls   runs the collective of a group for host memory on this slot, in place
 *   in      copies the result back to device memory
 *
 *            time ------------------------------------>
 *   out      chunk 0 | chunk 1 | chunk 2 |         |
 *   calls            | chunk 0 | chunk 1 | chunk 2 |
 *   in                         | chunk 0 | chunk 1 | chunk 2
 *
 * Events keep the steps in order, so the host can queue the whole collective without waiting. Sums
 * are ordered (group.h) if they are ordered in the group for host memory.
 *
 * gt_staged_new() replaces *group, a group for host memory that has no other callers, by a staged
 * group. The new group owns the old one. `chunk_bytes` is the size of a slot, which holds the data
 * of all ranks for one chunk; 0 means 1 MiB. `chunk_bytes` must be the same on all ranks. Free the
 * new group before the device.
 *
 * Errors: GT_ENOMEM, and the errors of the backend. *group is then unchanged.
 */
int gt_staged_new(struct gt_group **group, const struct gt_device *device, size_t chunk_bytes,
    struct gt_err *err);

#endif
