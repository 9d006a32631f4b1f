/* convert.h - inside ckpt: elements of one type as elements of another. */
#ifndef GT_CKPT_CONVERT_H
#define GT_CKPT_CONVERT_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"

enum { GT_CONVERT_RUN = 256 }; /* elements converted at a time */

/* Floating-point types convert among each other, integers and bool among each other, and each type
 * to itself. */
bool gt_convert_is_possible(enum gt_dtype from, enum gt_dtype to);

/*
 * Convert n <= GT_CONVERT_RUN packed elements in the host's byte order; neither side needs to be
 * aligned. Floats round once, to nearest even. Past the largest number lies infinity, for
 * float8_e4m3fn NaN, which is PyTorch's choice (c10/util/Float8_e4m3fn.h) and the "non-saturating"
 * one of OCP's "8-bit Floating Point Specification", 1.0, section 5.2.
 * GT_EINVAL for an integer that does not fit.
 */
int gt_convert_run(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err);

#endif
