/* finite.c - whether elements of any type are finite. */
#include "lib/ckpt/tree/finite.h"

#include "lib/base/finite.h"

bool gt_all_finite(enum gt_dtype dtype, const void *elements, size_t n)
{
	switch (dtype) {
	case GT_F64:
		return gt_finite_f64(elements, n);
	case GT_C128:
		return gt_finite_f64(elements, 2 * n);
	case GT_F32:
		return gt_finite_f32(elements, n);
	case GT_C64:
		return gt_finite_f32(elements, 2 * n);
	case GT_F16:
		return gt_finite_f16(elements, n);
	case GT_BF16:
		return gt_finite_bf16(elements, n);
	case GT_F8_E5M2:
		return gt_finite_e5m2(elements, n);
	case GT_F8_E4M3:
		return gt_finite_e4m3(elements, n);
	default: /* integers */
		return true;
	}
}
