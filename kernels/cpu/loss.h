/* loss.h - functions that losses share on the CPU. */
#ifndef GT_KERNELS_CPU_LOSS_H
#define GT_KERNELS_CPU_LOSS_H

#include <string.h>

#include "lib/graph/fault.h"
#include "lib/graph/kernel.h"

/* The summands of a row in the sums of classify_stats, in their order. */
enum { GT_STATS = 4 };

/* GT_EINVAL, naming the first target that is no class; negative ones do not count and may be
 * anything. */
static inline int gt_check_targets(
    const struct gt_tensor *target, int64_t classes, struct gt_err *err)
{
	const int32_t *t = target->data;
	int64_t rows = gt_tensor_elements(target), at = 0;
	int bad = 0;

#pragma omp simd reduction(| : bad)
	for (int64_t r = 0; r < rows; r++)
		bad |= t[r] >= classes;
	if (!bad)
		return 0;
	while (t[at] < classes)
		at++;
	return gt_fault_set(err, &(struct gt_fault){ GT_FAULT_TARGET, { t[at], at, classes } });
}

#endif
