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
	/* Kernels do not compute with the types below. gtrain only stores, converts and copies
	 * tensors of these types. */
	GT_U16,
	GT_U32,
	GT_U64,
	/* float of 8 bits, 4 for the exponent: no infinities, one NaN per sign, at most 448 */
	GT_F8_E4M3,
	GT_F8_E5M2, /* float of 8 bits: a float16 that has only 2 bits of fraction */
	/* Elements of 8 to 64 bits whose meaning gtrain does not know. It only copies them, and
	 * converts them to no other type. Their own type has a name (lib/ckpt/tree/raw.h). */
	GT_RAW8,
	GT_RAW16,
	GT_RAW32,
	GT_RAW64,
	GT_DTYPE_COUNT /* number of types */
};

/* Return the size of one element in bytes. */
size_t gt_dtype_size(enum gt_dtype dtype);

/* Return PyTorch's name of the type without "torch.": "float32" for torch.float32. Never NULL. */
const char *gt_dtype_name(enum gt_dtype dtype);

/* Return true for floating-point types of any size. Complex types are not floating-point types
 * here. */
bool gt_dtype_is_float(enum gt_dtype dtype);

/* Return true for the floating-point types that kernels compute with: types of 16, 32 or 64
 * bits. */
bool gt_dtype_is_real(enum gt_dtype dtype);

/* Return the type for statistics of tensors of type `dtype`: float32 for float16 and bfloat16, and
 * `dtype` itself for any other type. */
enum gt_dtype gt_dtype_wide(enum gt_dtype dtype);

#endif
