/* narrow.h - float32 from and to types of 16 bits, a run of elements at a time. */
#ifndef GT_KERNELS_CPU_NARROW_H
#define GT_KERNELS_CPU_NARROW_H

#include <stdint.h>

#include "lib/base/half.h"
#include "lib/device/backend.h"

/* Convert from[n] of type GT_BF16 or GT_F16 to to[n]. */
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

/* Convert in the other direction, rounded to nearest even. */
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

/* If the range has a working copy, write to it elements [first, first + n), which an update has
 * just written to p. */
static inline void gt_write_copy(
    const float *p, int64_t first, int64_t n, const struct gt_update_options *o)
{
	if (o->copy)
		gt_narrow(o->copy + first, p, n, o->copy_type);
}

#endif
