/* cast.h - private: convert elements of tensors to another type, to double or to int64_t. */
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
 * Convert n elements from the type `from` to the type `to`. src and dst have no gaps between
 * elements, may have any alignment, and must not overlap. Elements are in the byte order of the
 * host. Floats are rounded once, to nearest even. A number that is too large for `to` becomes
 * infinity, or NaN in float8_e4m3fn, which has no infinity. PyTorch does the same
 * (c10/util/Float8_e4m3fn.h); OCP's "8-bit Floating Point Specification", 1.0, section 5.2, calls
 * this "non-saturating". Of the integers, only 0 and 1 can be converted to bool.
 * Errors: GT_EINVAL for an integer that does not fit into `to`; GT_ENOTSUP if gt_cast_supported()
 * returns false.
 */
int gt_cast(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err);

/*
 * gt_cast_real() converts n elements to doubles. A complex element becomes 2 doubles. A large
 * integer becomes the nearest double. gt_cast_integer() converts n elements of an integer type to
 * int64_t. It subtracts 2^63 from elements of type uint64. So the results fit into int64_t, and the
 * difference of two elements stays the same. Neither function takes elements of GT_CAST_RAW.
 */
void gt_cast_real(enum gt_dtype from, const void *src, size_t n, double *out);
void gt_cast_integer(enum gt_dtype from, const void *src, size_t n, int64_t *out);

/* Return whether all n elements are finite; always true for integers. */
bool gt_cast_finite(enum gt_dtype dtype, const void *elements, size_t n);

/* Return the number of infinite elements among n elements of a floating-point type. */
size_t gt_cast_infinite(enum gt_dtype dtype, const void *elements, size_t n);

#endif
