/* kept.h - rounding for a kernel that computes two ops: the first op's result, as if stored. */
#ifndef GT_KERNELS_CPU_KEPT_H
#define GT_KERNELS_CPU_KEPT_H

#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "lib/graph/kernel.h"

/* Return the type in which output i of a call will be kept: that of the call in 16 bits that this
 * call computes (gt_call.narrow), if there is one. */
static inline enum gt_dtype gt_kept_type(const struct gt_call *call, int i)
{
	return (call->narrow ? call->narrow : call)->out[i].dtype;
}

/* Round x[n] to `dtype`, if it has 16 bits. */
static inline void gt_round_f32(float *x, int64_t n, enum gt_dtype dtype)
{
	enum { TILE = 256 };
	uint16_t low[TILE];

	if (gt_dtype_wide(dtype) == dtype)
		return;
	for (int64_t i = 0; i < n; i += TILE) {
		gt_narrow(low, x + i, gt_min(TILE, n - i), dtype);
		gt_widen(x + i, low, gt_min(TILE, n - i), dtype);
	}
}

/* The same in float64: no call in 16 bits is computed in it. */
static inline void gt_round_f64(double *x, int64_t n, enum gt_dtype dtype)
{
	(void)x;
	(void)n;
	(void)dtype;
}

#endif
