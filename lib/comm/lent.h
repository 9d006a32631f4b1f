/* lent.h - device memory that a group has allocated for its callers. */
#ifndef GT_COMM_LENT_H
#define GT_COMM_LENT_H

#include "lib/device/backend.h"

/* A list of blocks, for groups whose ranks do not access each other's memory. NULL: empty. */
struct gt_lent;

/* Implement gt_group_alloc() and gt_group_release(). Memory that is not in the list is ignored. */
int gt_lent_alloc(struct gt_lent **list, const struct gt_device *device, size_t bytes, void **out,
    struct gt_err *err);
void gt_lent_release(struct gt_lent **list, const struct gt_device *device, const void *memory);

/* Free all blocks that are still in the list. */
void gt_lent_free(struct gt_lent **list, const struct gt_device *device);

#endif
