/* narrow.h - convert arrays between float32 and 16-bit types. */
#ifndef GT_KERNELS_CPU_NARROW_H
#define GT_KERNELS_CPU_NARROW_H

#include <stdint.h>

#include "lib/base/half.h"
#include "lib/optim/step_kernels.h"

/* Convert from[n], of type `dtype` (GT_BF16 or GT_F16), to float32, and write to[n]. */
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

/* Convert float32 from[n] to type `dtype` (GT_BF16 or GT_F16), rounding to nearest even, and write
 * to[n]. */
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

/*
 * Update the 16-bit copy o->copy of a range of parameters, after an optimizer has updated n
 * elements of the range. p[n] are these elements; `first` is the index of p[0] in the range. Round
 * them to o->copy_type, and write them to o->copy[first] to o->copy[first + n - 1]. If o->copy is
 * NULL, do nothing.
 */
static inline void gt_write_copy(
    const float *p, int64_t first, int64_t n, const struct gt_update_options *o)
{
	if (o->copy)
		gt_narrow(o->copy + first, p, n, o->copy_type);
}

#endif
