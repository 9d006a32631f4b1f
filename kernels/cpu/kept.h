/* kept.h - for kernels that compute two ops: round the first result as if it were stored. */
#ifndef GT_KERNELS_CPU_KEPT_H
#define GT_KERNELS_CPU_KEPT_H

#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "lib/graph/kernel.h"

/* Return the type in which output i is stored in the end: that of call->narrow, if a float32 call
 * does the work of a 16-bit one. */
static inline enum gt_dtype gt_kept_type(const struct gt_call *call, int i)
{
	return (call->narrow ? call->narrow : call)->out[i].dtype;
}

/* Round x[n] to a 16-bit `dtype`, in place, as a kernel of its own would store it. */
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

/* Do nothing: float64 kernels never do the work of 16-bit calls. */
static inline void gt_round_f64(double *x, int64_t n, enum gt_dtype dtype)
{
	(void)x;
	(void)n;
	(void)dtype;
}

#endif
