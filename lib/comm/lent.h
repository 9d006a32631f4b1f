/* lent.h - a list of the device memory that a group has allocated for its callers. */
#ifndef GT_COMM_LENT_H
#define GT_COMM_LENT_H

#include "lib/device/backend.h"

/* A block of device memory, in a list of all blocks that a group has allocated. NULL is an empty
 * list. Groups for device memory (lib/comm/group.h) use such a list. Their ranks do not access each
 * other's buffers, so the blocks are ordinary memory of the rank's own device. */
struct gt_device_block;

/* gt_device_blocks_alloc() allocates `bytes` bytes of device memory and adds the block to the list.
 * gt_device_blocks_release() frees the block at the address `memory`, and does nothing if `memory`
 * is not in the list. The backends call them for gt_group_alloc() and gt_group_release(). */
int gt_device_blocks_alloc(struct gt_device_block **list, const struct gt_device *device,
    size_t bytes, void **out, struct gt_err *err);
void gt_device_blocks_release(
    struct gt_device_block **list, const struct gt_device *device, const void *memory);

/* Free all blocks that are still in the list. */
void gt_device_blocks_free(struct gt_device_block **list, const struct gt_device *device);

#endif
