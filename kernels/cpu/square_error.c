/* square_error.c - square_error, its gradient, and regress_stats. */
#include "kernels/cpu/parallel.h"

#include <math.h>
#include <string.h>

#include "lib/graph/kernel.h"

enum { STATS = 5 };

#define REAL_BITS 32
#include "kernels/cpu/square_error.inc"
#define REAL_BITS 64
#include "kernels/cpu/square_error.inc"

const struct gt_kernel GT_ISA(gt_cpu_square_error_kernels)[] = {
	GT_ROWS(square_error),
	GT_ROWS(square_error_grad),
	GT_ROWS(regress_stats),
	{ .op = NULL },
};
