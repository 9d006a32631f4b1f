/* dtype.c - the element types of tensors. */
#include "lib/device/dtype.h"

static const struct {
	const char *name;
	size_t size;
} dtypes[GT_DTYPE_COUNT] = {
	[GT_F32] = { "float32", 4 },
	[GT_F64] = { "float64", 8 },
	[GT_F16] = { "float16", 2 },
	[GT_BF16] = { "bfloat16", 2 },
	[GT_I64] = { "int64", 8 },
	[GT_I32] = { "int32", 4 },
	[GT_I16] = { "int16", 2 },
	[GT_I8] = { "int8", 1 },
	[GT_U8] = { "uint8", 1 },
	[GT_BOOL] = { "bool", 1 },
	[GT_C64] = { "complex64", 8 },
	[GT_C128] = { "complex128", 16 },
	[GT_U16] = { "uint16", 2 },
	[GT_U32] = { "uint32", 4 },
	[GT_U64] = { "uint64", 8 },
	[GT_F8_E4M3] = { "float8_e4m3fn", 1 },
	[GT_F8_E5M2] = { "float8_e5m2", 1 },
	[GT_RAW8] = { "raw8", 1 },
	[GT_RAW16] = { "raw16", 2 },
	[GT_RAW32] = { "raw32", 4 },
	[GT_RAW64] = { "raw64", 8 },
};

size_t gt_dtype_size(enum gt_dtype dtype)
{
	return dtypes[dtype].size;
}

const char *gt_dtype_name(enum gt_dtype dtype)
{
	return dtypes[dtype].name;
}

bool gt_dtype_is_float(enum gt_dtype dtype)
{
	return dtype == GT_F32 || dtype == GT_F64 || dtype == GT_F16 || dtype == GT_BF16 ||
	       dtype == GT_F8_E4M3 || dtype == GT_F8_E5M2;
}

bool gt_dtype_is_real(enum gt_dtype dtype)
{
	return dtype == GT_F32 || dtype == GT_F64 || dtype == GT_F16 || dtype == GT_BF16;
}

enum gt_dtype gt_dtype_wide(enum gt_dtype dtype)
{
	return dtype == GT_F16 || dtype == GT_BF16 ? GT_F32 : dtype;
}
