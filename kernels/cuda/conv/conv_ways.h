/* conv_ways.h - choose between cuDNN and gtrain's own kernels for each convolution. */
#ifndef GT_KERNELS_CUDA_CONV_CONV_WAYS_H
#define GT_KERNELS_CUDA_CONV_CONV_WAYS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * These functions are for the ops conv2d, conv2d_input_grad and conv2d_weight_grad, in the kernel
 * table of conv.cu. If cuDNN computes a call, call->state holds cuDNN's plan, a prepared algorithm
 * of cuDNN. Otherwise call->state is NULL, and conv.cu's kernels compute the call; they support
 * every call.
 *
 * gt_conv_choose() makes this choice and sets call->state. Call gt_conv_choose() after conv.cu has
 * prepared the call for conv.cu's own kernel. The first time a shape is seen, the function measures
 * cuDNN's plans and conv.cu's kernel, and remembers the fastest one (fastest.h). It chooses
 * conv.cu's kernel
 *
 *   - if cuDNN is missing, has no usable plan, is not faster, or has a result that differs too much
 *     from the result of conv.cu's kernel;
 *   - if the call has a bias, a residual, relu, float64 elements or an empty tensor;
 *   - if the call is marked `untimed`, which forbids measurements (lib/graph/kernel.h).
 *
 * Errors: the errors of gt_fastest(); GT_ENOMEM.
 */
int gt_conv_choose(struct gt_call *call, struct gt_err *err);

/* These functions do the work of the members `bind`, `run` and `release` of struct gt_kernel for
 * these ops. Call gt_conv_run() only if call->state is not NULL. Call the other two functions for
 * every call of these ops. */
int gt_conv_bind(struct gt_call *call, struct gt_err *err);
int gt_conv_run(struct gt_call *call, struct gt_err *err);
void gt_conv_release(struct gt_call *call);

/* Number of doubles in device memory that gt_conv_distance() needs for `sums`. */
enum { GT_CONV_SUMS = 2 * 264 };

/*
 * Two functions for the measurement, on tensors of F32, BF16 or F16 in device memory:
 *
 *   gt_conv_fill()       Queue a kernel that fills t with numbers from -1 to 1. Each number depends
 *                        only on the seed and on its index.
 *   gt_conv_distance()   Compute sqrt(sum of (x - y)^2 / sum of y^2) on the stream, wait for the
 *                        result, and set *distance to it. y has the type and the size of x.
 *                        *distance is NaN if all elements of x and y are 0. `sums` points to
 *                        device memory for GT_CONV_SUMS doubles.
 *
 * Errors: GT_EDEVICE.
 */
int gt_conv_fill(
    struct gt_stream *stream, const struct gt_tensor *t, uint32_t seed, struct gt_err *err);
int gt_conv_distance(struct gt_stream *stream, const struct gt_tensor *x, const void *y,
    double *sums, double *distance, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
