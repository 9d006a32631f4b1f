/* regression_loss.c - regression_loss, its gradient, and regress_stats. */
#include "kernels/cpu/parallel.h"

#include <math.h>
#include <string.h>

#include "lib/graph/kernel.h"

#define REAL_BITS 32
#include "kernels/cpu/regression_loss.inc"
#define REAL_BITS 64
#include "kernels/cpu/regression_loss.inc"

const struct gt_kernel GT_ISA(gt_cpu_regression_loss_kernels)[] = {
	GT_ROWS(regression_loss),
	GT_ROWS(regression_loss_grad),
	GT_ROWS(regress_stats),
	{ .op = NULL },
};
