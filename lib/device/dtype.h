/* dtype.h - the element types of tensors: PyTorch's names, sizes, and rounding between them. */
#ifndef GT_DEVICE_DTYPE_H
#define GT_DEVICE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum gt_dtype {
	GT_F32,
	GT_F64,
	GT_F16,
	GT_BF16,
	GT_I64,
	GT_I32,
	GT_I16,
	GT_I8,
	GT_U8,
	GT_BOOL,
	GT_C64,  /* complex of two f32 */
	GT_C128, /* complex of two f64 */
	/* The types below are stored, converted and moved; no kernel computes with them. */
	GT_U16,
	GT_U32,
	GT_U64,
	GT_F8_E4M3, /* no infinities, one NaN of each sign; the largest is 448 */
	GT_F8_E5M2, /* as float16 with 2 bits of fraction */
	GT_DTYPE_COUNT
};

/* Bytes of one element. */
size_t gt_dtype_size(enum gt_dtype dtype);

/* "float32", as in torch.float32 without the prefix; never NULL. */
const char *gt_dtype_name(enum gt_dtype dtype);

/* Whether it holds real floating-point numbers, of any width. */
bool gt_dtype_is_float(enum gt_dtype dtype);

/* Whether it is a floating-point type that kernels compute with: of 16, 32 or 64 bits. */
bool gt_dtype_is_real(enum gt_dtype dtype);

/* The type in which statistics of such numbers are kept: float32 for float16 and bfloat16, any
 * other type itself. */
enum gt_dtype gt_dtype_wide(enum gt_dtype dtype);

#endif
