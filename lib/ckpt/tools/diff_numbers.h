/* diff_numbers.h - inside ckpt: the half of gt_diff_make() that compares numbers. */
#ifndef GT_CKPT_TOOLS_DIFF_NUMBERS_H
#define GT_CKPT_TOOLS_DIFF_NUMBERS_H

#include "lib/ckpt/tools/diff.h"

/*
 * Compare the elements of rows[count], which have both tensors, of one shape; sets differing,
 * count, one_nan, max_abs, max_rel. Types that cannot be compared (a complex with a real one) are
 * left at count 0. Storages are not checked.
 */
int gt_diff_numbers(
    struct gt_diff_row *rows, size_t count, double tolerance, size_t threads, struct gt_err *err);

#endif
