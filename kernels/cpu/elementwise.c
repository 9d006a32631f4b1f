/* elementwise.c - add, bias_add, relu, gelu, swiglu, fill, copy, accumulate and their gradients. */
#define REAL_BITS 32
#include "kernels/cpu/elementwise.inc"
#define REAL_BITS 64
#include "kernels/cpu/elementwise.inc"

const struct gt_kernel GT_ISA(gt_cpu_elementwise_kernels)[] = {
	GT_ROWS(add),
	GT_ROWS(bias_add),
	GT_ROWS(relu),
	GT_ROWS(relu_grad),
	GT_ROWS(gelu),
	GT_ROWS(gelu_grad),
	GT_ROWS(swiglu),
	GT_ROWS(swiglu_grad),
	GT_ROWS(fill),
	GT_ROWS(copy),
	GT_ROWS(accumulate),
	{ .op = NULL },
};
