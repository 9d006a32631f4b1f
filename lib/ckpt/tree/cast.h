/* cast.h - inside ckpt: runs of elements, from one type to another, and as numbers. */
#ifndef GT_CKPT_TREE_CAST_H
#define GT_CKPT_TREE_CAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"

/* The kind of numbers that elements of a type are; bool is an integer. */
enum gt_cast_kind { GT_CAST_REAL, GT_CAST_INTEGER, GT_CAST_COMPLEX };

enum gt_cast_kind gt_cast_kind(enum gt_dtype dtype);

/* Whether elements of one type can be converted to another. The two types are the same, or both are
 * floating-point types, or both are integers or bool. */
bool gt_cast_knows(enum gt_dtype from, enum gt_dtype to);

/*
 * Convert n elements, packed at any address, in the host's byte order; src and dst don't overlap.
 * Floats are rounded once, to nearest even. A number that is too large becomes infinity, or NaN in
 * float8_e4m3fn, which has no infinity. PyTorch does the same (c10/util/Float8_e4m3fn.h); OCP's
 * "8-bit Floating Point Specification", 1.0, section 5.2, names it "non-saturating". A bool becomes
 * 0 or 1. Errors: GT_EINVAL for an integer that does not fit; GT_ENOTSUP if gt_cast_knows() returns
 * false.
 */
int gt_cast(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err);

/*
 * Convert n elements to doubles: 2 n doubles for complex types, and the nearest double for large
 * integers. Convert n elements of an integer type to int64_t; for uint64 this is the value minus
 * 2^63, which fits and preserves differences.
 */
void gt_cast_real(enum gt_dtype from, const void *src, size_t n, double *out);
void gt_cast_integer(enum gt_dtype from, const void *src, size_t n, int64_t *out);

/* Whether none of n elements is NaN or infinite; true for integers. */
bool gt_cast_finite(enum gt_dtype dtype, const void *elements, size_t n);

/* The number of infinite elements among n elements of a floating-point type. */
size_t gt_cast_infinite(enum gt_dtype dtype, const void *elements, size_t n);

#endif
