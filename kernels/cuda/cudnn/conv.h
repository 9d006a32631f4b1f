/* conv.h - a convolution by cuDNN: its descriptors, the plans that cuDNN offers, and their runs. */
#ifndef GT_KERNELS_CUDA_CUDNN_CONV_H
#define GT_KERNELS_CUDA_CUDNN_CONV_H

#include <stdbool.h>

#include "kernels/cuda/choices.h"
#include "kernels/cuda/cudnn/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution or one of its gradients: conv2d's row in lib/graph/ops/ops.h, without bias,
 * residual and relu. Images lie channels-last, the weight as its shape says. */
struct gt_cudnn_shape {
	enum gt_cudnn_kind kind; /* GT_CUDNN_FORWARD, _INPUT_GRAD or _WEIGHT_GRAD */
	enum gt_dtype dtype;     /* F32, BF16 or F16 */
	int64_t x[4], w[4], y[4];
	int stride, pad;
	bool relaxed; /* an algorithm may round more often than a plain sum */
	bool tf32;    /* of F32: engines may round it to TF32 */
};

/* Where plans run: on the device of a handle, or, where that is NULL, on one with these properties:
 * a descriptor, which allows to plan without a GPU from version 9.8 on. */
struct gt_cudnn_target {
	void *handle, *properties;
};

struct gt_cudnn_conv;

/* Engines that are offered at most; cuDNN proposes the best ones first. */
enum { GT_CUDNN_OFFERS = 6 };

/*
 * After gt_cudnn_open(): describe a convolution and ask cuDNN for engines. The result has the first
 * ones that may be used: their results are the same each time, F32 is rounded to TF32 with `tf32`
 * alone, and sums are in float32. Without any of these its count is 0.
 *
 * Errors: GT_ENOMEM; GT_EDEVICE where the library refuses a descriptor.
 */
int gt_cudnn_conv_new(struct gt_cudnn_conv **out, const struct gt_cudnn_shape *shape,
    struct gt_cudnn_target target, struct gt_err *err);
void gt_cudnn_conv_free(struct gt_cudnn_conv *c);

/* How many engines there are, and for each the engine and its settings; borrowed. */
int gt_cudnn_conv_count(const struct gt_cudnn_conv *c);
const struct gt_choice *gt_cudnn_conv_choices(const struct gt_cudnn_conv *c);

/* Make the plan of engine i, unless it is made, and give the size of its workspace. Errors:
 * GT_EDEVICE; other engines may still work. */
int gt_cudnn_conv_plan(struct gt_cudnn_conv *c, int i, size_t *workspace_bytes, struct gt_err *err);

/* Set the memory of runs to come: x, w and y of the shape. Errors: GT_EDEVICE. */
int gt_cudnn_conv_bind(
    struct gt_cudnn_conv *c, void *x, void *w, void *y, void *workspace, struct gt_err *err);

/* Queue the plan of engine i. The caller has the handle of the target (gt_cudnn_enter()). Errors:
 * GT_EDEVICE. */
int gt_cudnn_conv_run(
    const struct gt_cudnn_conv *c, int i, cudaStream_t stream, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
