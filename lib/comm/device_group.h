/* device_group.h - groups for the memory of a device. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * The ranks of a group for host memory get a group for the memory of their devices. The first row
 * of the table in device_group.c that takes the device makes it:
 *
 *   host     the memory of the device is the host's: it is the group for host memory itself
 *   staged   any device: by way of pinned host memory (staged.h)
 *
 * Both functions are collective calls. Errors: those of group.h and of the backend.
 */

/* *out is `host` itself, or a new group, which leaves `host` to its other callers: free that one by
 * gt_group_free(), before `host` and the device. *out is NULL on failure. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, struct gt_err *err);

/* The same where nobody else calls *group: it becomes the group for device memory, and
 * gt_group_free() frees both. On failure it remains the group for host memory. *group may be
 * NULL. */
int gt_device_group_take(
    struct gt_group **group, const struct gt_device *device, struct gt_err *err);

#endif
