/* lent.h - a list of the device memory that a group has allocated for its callers. */
#ifndef GT_COMM_LENT_H
#define GT_COMM_LENT_H

#include "lib/device/backend.h"

/* A block in a list of allocated blocks; NULL is an empty list. Groups for device memory use such a
 * list, because their ranks do not access each other's buffers. */
struct gt_device_block;

/* Implement gt_group_alloc() and gt_group_release(). Memory that is not in the list is not
 * freed. */
int gt_device_blocks_alloc(struct gt_device_block **list, const struct gt_device *device,
    size_t bytes, void **out, struct gt_err *err);
void gt_device_blocks_release(
    struct gt_device_block **list, const struct gt_device *device, const void *memory);

/* Free all blocks that are still in the list. */
void gt_device_blocks_free(struct gt_device_block **list, const struct gt_device *device);

#endif
