/* lent.h - a list of the device memory that a group has allocated for its callers. */
#ifndef GT_COMM_LENT_H
#define GT_COMM_LENT_H

#include "lib/device/backend.h"

/* A list of the blocks that a group has allocated; NULL: empty. */
struct gt_device_block;

/* gt_group_alloc() and gt_group_release() of groups for device memory. Memory that is not in the
 * list is not released. */
int gt_device_blocks_alloc(struct gt_device_block **list, const struct gt_device *device,
    size_t bytes, void **out, struct gt_err *err);
void gt_device_blocks_release(
    struct gt_device_block **list, const struct gt_device *device, const void *memory);

void gt_device_blocks_free(struct gt_device_block **list, const struct gt_device *device);

#endif
