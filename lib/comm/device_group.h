/* device_group.h - groups for the memory of a device. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * The ranks of a group for host memory get one for the memory of their devices. The first row of
 * the table in device_group.c that takes the device makes it:
 *
 *   host     the memory of the device is the host's: it is the group for host memory itself
 *   staged   any device: by way of pinned host memory (staged.h)
 *
 * All are collective calls. Errors: those of group.h and of the backend.
 */

/* *out is `host`, or a group of its own, which leaves `host` to its other callers. It lives no
 * longer than `host` and the device. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, struct gt_err *err);
void gt_device_group_close(struct gt_group *group, struct gt_group *host); /* NULL is fine */

/* The same where nobody else calls *group, which becomes the device's: gt_group_free() frees both.
 * NULL is fine. */
int gt_device_group_take(
    struct gt_group **group, const struct gt_device *device, struct gt_err *err);

#endif
