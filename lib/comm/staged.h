/* staged.h - groups for device memory, by way of pinned host memory. */
#ifndef GT_COMM_STAGED_H
#define GT_COMM_STAGED_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * A collective on device memory is cut into chunks. Each of them goes through three streams of the
 * group's own, while the chunks before and behind it are in the others:
 *
 *   out     copies it into a slot of pinned memory
 *   calls   calls the collective of a group for host memory on the slot, in place
 *   in      copies the result back
 *
 *            time ------------------------------------>
 *   out      chunk 0 | chunk 1 | chunk 2 |         |
 *   calls            | chunk 0 | chunk 1 | chunk 2 |
 *   in                         | chunk 0 | chunk 1 | chunk 2
 *
 * Events keep the steps in order, so the host queues the whole collective without waiting. Sums are
 * ordered (group.h) if the group for host memory is.
 *
 * gt_staged_new() replaces *group, a group for host memory without other callers, by such a group,
 * which owns the old group and the streams. A slot holds `chunk_bytes` (0: a MiB) of the data of
 * all ranks together; `chunk_bytes` is the same on all ranks. The device outlives the group.
 * Errors: GT_ENOMEM, and those of the backend; *group is then as it was.
 */
int gt_staged_new(struct gt_group **group, const struct gt_device *device, size_t chunk_bytes,
    struct gt_err *err);

#endif
