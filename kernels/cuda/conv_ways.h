/* conv_ways.h - convolutions by cuDNN in the place of gtrain's kernels, where it is faster. */
#ifndef GT_KERNELS_CUDA_CONV_WAYS_H
#define GT_KERNELS_CUDA_CONV_WAYS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * For the rows of conv2d, conv2d_input_grad and conv2d_weight_grad (conv.cu), whose own kernels
 * can take every call: call->state is NULL where they do, and the library's where cuDNN does.
 *
 * gt_conv_choose() comes after the row's own prepare(). It times cuDNN's plans beside the row's
 * run() once for each shape, and remembers the fastest (fastest.h). gtrain's kernels stay where
 * cuDNN is not there, has no plan that may be used, or is not faster; for a bias, a residual, relu
 * and F64; and in calls that are `untimed`. Errors: those of gt_fastest().
 */
int gt_conv_choose(struct gt_call *call, struct gt_err *err);

/* The row's bind() and release(), and run() for a row with a state. */
int gt_conv_bind(struct gt_call *call, struct gt_err *err);
int gt_conv_run(struct gt_call *call, struct gt_err *err);
void gt_conv_release(struct gt_call *call);

#ifdef __cplusplus
}
#endif

#endif
