/* lent.h - device memory that a group has given out. */
#ifndef GT_COMM_LENT_H
#define GT_COMM_LENT_H

#include "lib/device/backend.h"

/* For groups whose ranks need no memory of each other's: NULL is none. */
struct gt_lent;

/* gt_group_alloc() and gt_group_release(); memory that is not of this list is left alone. */
int gt_lent_alloc(struct gt_lent **list, const struct gt_device *device, size_t bytes, void **out,
    struct gt_err *err);
void gt_lent_release(struct gt_lent **list, const struct gt_device *device, const void *memory);

/* All that is left. */
void gt_lent_free(struct gt_lent **list, const struct gt_device *device);

#endif
