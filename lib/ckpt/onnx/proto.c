/* proto.c - the types of elements that files of ONNX have, and their numbers. */
#include "lib/ckpt/onnx/proto.h"

#include "lib/ckpt/onnx/onnx.h"

const struct gt_onnx_type gt_onnx_types[] = {
	{ 1, GT_F32 },
	{ 2, GT_U8 },
	{ 3, GT_I8 },
	{ 4, GT_U16 },
	{ 5, GT_I16 },
	{ 6, GT_I32 },
	{ 7, GT_I64 },
	{ 9, GT_BOOL },
	{ 10, GT_F16 },
	{ 11, GT_F64 },
	{ 12, GT_U32 },
	{ 13, GT_U64 },
	{ 16, GT_BF16 },
	{ 17, GT_F8_E4M3 },
	{ 19, GT_F8_E5M2 },
	{ 0, GT_F32 },
};

bool gt_onnx_dtype(int64_t number, enum gt_dtype *out)
{
	for (const struct gt_onnx_type *t = gt_onnx_types; t->number; t++)
		if (t->number == number) {
			*out = t->dtype;
			return true;
		}
	return false;
}
