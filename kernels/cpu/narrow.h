/* narrow.h - convert arrays between float32 and 16-bit types. */
#ifndef GT_KERNELS_CPU_NARROW_H
#define GT_KERNELS_CPU_NARROW_H

#include <stdint.h>

#include "lib/base/half.h"
#include "lib/optim/step_kernels.h"

/* Convert from[n], of GT_BF16 or GT_F16, to float32. */
static inline void gt_widen(float *to, const uint16_t *from, int64_t n, enum gt_dtype dtype)
{
	if (dtype == GT_BF16) {
#pragma omp simd
		for (int64_t i = 0; i < n; i++)
			to[i] = gt_float_of_bf16(from[i]);
	} else {
#pragma omp simd
		for (int64_t i = 0; i < n; i++)
			to[i] = gt_float_of_f16(from[i]);
	}
}

/* Convert from[n] to GT_BF16 or GT_F16, rounding to nearest even. */
static inline void gt_narrow(uint16_t *to, const float *from, int64_t n, enum gt_dtype dtype)
{
	if (dtype == GT_BF16) {
#pragma omp simd
		for (int64_t i = 0; i < n; i++)
			to[i] = gt_bf16_of_float(from[i]);
	} else {
#pragma omp simd
		for (int64_t i = 0; i < n; i++)
			to[i] = gt_f16_of_float(from[i]);
	}
}

/* Round p[n], elements from `first` on of a range of parameters, to the range's 16-bit copy
 * o->copy, if there is one. */
static inline void gt_write_copy(
    const float *p, int64_t first, int64_t n, const struct gt_update_options *o)
{
	if (o->copy)
		gt_narrow(o->copy + first, p, n, o->copy_type);
}

#endif
