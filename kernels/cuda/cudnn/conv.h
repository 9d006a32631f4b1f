/* conv.h - convolutions by cuDNN: describe one, ask for engines (algorithms), and run one. */
#ifndef GT_KERNELS_CUDA_CUDNN_CONV_H
#define GT_KERNELS_CUDA_CUDNN_CONV_H

#include <stdbool.h>

#include "kernels/cuda/cudnn/api.h"
#include "kernels/cuda/library/choices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution or one of its gradients: conv2d of lib/graph/ops/ops.h, without bias, residual and
 * relu. x is the input [N, C, H, W], w is the weight, and y is the output. For GT_CUDNN_INPUT_GRAD,
 * x and y are instead the gradients with respect to the input and the output; for
 * GT_CUDNN_WEIGHT_GRAD, w and y are the gradients with respect to the weight and the output. x and
 * y are channels-last in memory. w is contiguous, with the dimensions [output channels, input
 * channels, height, width]. */
struct gt_cudnn_shape {
	enum gt_cudnn_kind kind; /* GT_CUDNN_FORWARD, _INPUT_GRAD or _WEIGHT_GRAD */
	enum gt_dtype dtype;     /* GT_F32, GT_BF16 or GT_F16 */
	int64_t x[4], w[4], y[4];
	int stride, pad;
	bool relaxed; /* allow algorithms with larger rounding errors: Winograd and FFT */
	bool tf32;    /* GT_F32: engines may round factors to TF32 */
};

/* The device for which plans are made. A plan is an engine that is prepared to run. `handle` is a
 * cuDNN handle of this device. If `handle` is NULL, the descriptor `properties`
 * (GT_CUDNN_PROPERTIES) describes the device instead. Then plans can be made without a GPU (cuDNN
 * 9.8 or later), but not run. */
struct gt_cudnn_target {
	void *handle, *properties;
};

struct gt_cudnn_conv;

/* Largest number of engines that gt_cudnn_conv_new() keeps. cuDNN proposes the best engines first.
 */
enum { GT_CUDNN_OFFERS = 6 };

/*
 * Describe a convolution and ask cuDNN for engines. Call gt_cudnn_open() first. The caller frees
 * *out with gt_cudnn_conv_free(). gtrain can use an engine if the engine is deterministic, sums in
 * float32, and does not round GT_F32 to TF32 unless shape->tf32 is set. Engines that use Winograd
 * or FFT also need shape->relaxed. *out holds the first GT_CUDNN_OFFERS of the engines that gtrain
 * can use, or fewer if cuDNN does not propose so many. If there are none, gt_cudnn_conv_count()
 * returns 0.
 *
 * Errors: GT_ENOMEM; GT_EDEVICE if the library rejects a descriptor.
 */
int gt_cudnn_conv_new(struct gt_cudnn_conv **out, const struct gt_cudnn_shape *shape,
    struct gt_cudnn_target target, struct gt_err *err);
void gt_cudnn_conv_free(struct gt_cudnn_conv *c);

/* gt_cudnn_conv_count() returns the number of engines. gt_cudnn_conv_choices() returns a borrowed
 * array with one element per engine, which names the engine and its settings. */
int gt_cudnn_conv_count(const struct gt_cudnn_conv *c);
const struct gt_choice *gt_cudnn_conv_choices(const struct gt_cudnn_conv *c);

/* Create the plan of engine i, unless it exists, and set *workspace_bytes to the size of its
 * workspace. If this fails, the plans of other engines may still succeed. Errors: GT_EDEVICE. */
int gt_cudnn_conv_plan(struct gt_cudnn_conv *c, int i, size_t *workspace_bytes, struct gt_err *err);

/* Store the device addresses that later runs use: those of the tensors x, w and y (struct
 * gt_cudnn_shape) and of the plan's workspace. Errors: GT_EDEVICE. */
int gt_cudnn_conv_bind(
    struct gt_cudnn_conv *c, void *x, void *w, void *y, void *workspace, struct gt_err *err);

/* Detach the target's handle from the stream of the last run. Call this before that stream is
 * destroyed. The caller must have locked the handle with gt_cudnn_enter(). */
void gt_cudnn_conv_finish(const struct gt_cudnn_conv *c);

/* Queue the plan of engine i on a stream. Call gt_cudnn_conv_plan() for this engine, and
 * gt_cudnn_conv_bind(), first. The caller must have locked the target's handle with
 * gt_cudnn_enter(). Errors: GT_EDEVICE. */
int gt_cudnn_conv_run(
    const struct gt_cudnn_conv *c, int i, cudaStream_t stream, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
