/* conv_ways.h - choose between cuDNN and gtrain's own kernels for each convolution. */
#ifndef GT_KERNELS_CUDA_CONV_CONV_WAYS_H
#define GT_KERNELS_CUDA_CONV_CONV_WAYS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Choose for a conv2d or a gradient of it, prepared for conv.cu's own kernel. call->state becomes
 * cuDNN's plan, or NULL: conv.cu computes the call. */
int gt_conv_choose(struct gt_call *call, struct gt_err *err);

/* The kernel's bind, run and release; gt_conv_run() only if call->state is set. */
int gt_conv_bind(struct gt_call *call, struct gt_err *err);
int gt_conv_run(struct gt_call *call, struct gt_err *err);
void gt_conv_release(struct gt_call *call);

/* doubles of device memory for gt_conv_distance() */
enum { GT_CONV_SUMS = 2 * 264 };

/* For the measurement: fill t with numbers from -1 to 1 that depend on the seed and the index; wait
 * for *distance = sqrt(sum (x - y)^2 / sum y^2), NaN if all elements are 0. */
int gt_conv_fill(
    struct gt_stream *stream, const struct gt_tensor *t, uint32_t seed, struct gt_err *err);
int gt_conv_distance(struct gt_stream *stream, const struct gt_tensor *x, const void *y,
    double *sums, double *distance, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
