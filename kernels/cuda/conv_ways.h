/* conv_ways.h - use cuDNN instead of gtrain's convolution kernels where it is faster. */
#ifndef GT_KERNELS_CUDA_CONV_WAYS_H
#define GT_KERNELS_CUDA_CONV_WAYS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Functions for the rows of conv2d, conv2d_input_grad and conv2d_weight_grad (conv.cu). Calls that
 * cuDNN computes have its plan as call->state. In other calls it is NULL, and the row's own
 * kernels, which support every call, are used.
 *
 * Call gt_conv_choose() after the row's own prepare(). For each shape it times cuDNN's plans and
 * the row's run() once, and remembers the fastest (fastest.h). gtrain's kernels are used if cuDNN
 * is missing, has no usable plan, or is not faster; for calls with a bias, a residual, relu or F64;
 * and for `untimed` calls. Errors: those of gt_fastest().
 */
int gt_conv_choose(struct gt_call *call, struct gt_err *err);

/* The row's bind() and release(), and its run() for calls with a state. */
int gt_conv_bind(struct gt_call *call, struct gt_err *err);
int gt_conv_run(struct gt_call *call, struct gt_err *err);
void gt_conv_release(struct gt_call *call);

#ifdef __cplusplus
}
#endif

#endif
