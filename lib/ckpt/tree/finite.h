/* finite.h - inside ckpt: whether elements of any type are finite. */
#ifndef GT_CKPT_TREE_FINITE_H
#define GT_CKPT_TREE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/device/dtype.h"

/* Whether none of n elements, packed, unaligned, in this machine's byte order, is NaN or infinite.
 * As fast as the elements can be loaded. */
bool gt_all_finite(enum gt_dtype dtype, const void *elements, size_t n);

#endif
