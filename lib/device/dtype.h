/* dtype.h - the element types of tensors: their sizes, and their names in PyTorch. */
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
	GT_C64,  /* complex number of two float32 */
	GT_C128, /* complex number of two float64 */
	/* The types below are only stored, converted and copied. */
	GT_U16,
	GT_U32,
	GT_U64,
	GT_F8_E4M3, /* 4 bits of exponent, no infinities, at most 448 */
	GT_F8_E5M2, /* a float16 with 2 bits of fraction */
	/* Elements of unknown meaning, which are only copied. lib/ckpt/tree/raw.h has their types'
	 * names. */
	GT_RAW8,
	GT_RAW16,
	GT_RAW32,
	GT_RAW64,
	GT_DTYPE_COUNT /* number of types */
};

/* Return the bytes of an element. */
size_t gt_dtype_size(enum gt_dtype dtype);

/* Return PyTorch's name, such as "float32". Never NULL. */
const char *gt_dtype_name(enum gt_dtype dtype);

/* Return true for floating-point types of any size, not for complex types. */
bool gt_dtype_is_float(enum gt_dtype dtype);

/* Return true for floats of 16, 32 or 64 bits, with which kernels compute. */
bool gt_dtype_is_real(enum gt_dtype dtype);

/* Return the type for statistics: float32 for 16-bit floats, else `dtype`. */
enum gt_dtype gt_dtype_wide(enum gt_dtype dtype);

#endif
