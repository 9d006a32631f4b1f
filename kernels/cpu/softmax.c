/* softmax.c - softmax, its logarithm, and the gradients. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/parallel.h"

#define REAL_BITS 32
#include "kernels/cpu/softmax.inc"
#define REAL_BITS 64
#include "kernels/cpu/softmax.inc"

const struct gt_kernel GT_ISA(gt_cpu_softmax_kernels)[] = {
	GT_ROWS(softmax),
	GT_ROWS(softmax_grad),
	{ .op = NULL },
};
