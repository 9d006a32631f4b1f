/* dtype.h - the element types of tensors: PyTorch's names, sizes, and rounding between them. */
#ifndef GT_DEVICE_DTYPE_H
#define GT_DEVICE_DTYPE_H

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
	GT_DTYPE_COUNT
};

/* Bytes of one element. */
size_t gt_dtype_size(enum gt_dtype dtype);

/* "float32", as in torch.float32 without the prefix; never NULL. */
const char *gt_dtype_name(enum gt_dtype dtype);

#endif
