/* cast.h - convert elements of tensors to another type, to double or to int64_t. */
#ifndef GT_CKPT_TREE_CAST_H
#define GT_CKPT_TREE_CAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"

/* The kind of the elements of a type; bool counts as an integer. GT_CAST_RAW: gtrain does not know
 * the numbers (tree/raw.h). */
enum gt_cast_kind { GT_CAST_REAL, GT_CAST_INTEGER, GT_CAST_COMPLEX, GT_CAST_RAW };

/* Return the kind of a type. */
enum gt_cast_kind gt_cast_kind(enum gt_dtype dtype);

/*
 * Return whether elements of one type can be converted to another: the types are the same, or both
 * are floating-point types, or both are integers or bool.
 */
bool gt_cast_supported(enum gt_dtype from, enum gt_dtype to);

/*
 * Convert n packed elements, which must not overlap. GT_EINVAL: an integer does not fit.
 * GT_ENOTSUP: gt_cast_supported() is false.
 */
int gt_cast(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err);

/*
 * Convert to doubles, two for a complex element; or to int64_t, with uint64 less 2^63. Not for
 * GT_CAST_RAW.
 */
void gt_cast_real(enum gt_dtype from, const void *src, size_t n, double *out);
void gt_cast_integer(enum gt_dtype from, const void *src, size_t n, int64_t *out);

/* Return whether all n elements are finite; always true for integers. */
bool gt_cast_finite(enum gt_dtype dtype, const void *elements, size_t n);

/* Return the number of infinite elements among n elements of a floating-point type. */
size_t gt_cast_infinite(enum gt_dtype dtype, const void *elements, size_t n);

#endif
