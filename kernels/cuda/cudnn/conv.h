/* conv.h - a convolution by cuDNN: its descriptors, the plans that cuDNN offers, and their runs. */
#ifndef GT_KERNELS_CUDA_CUDNN_CONV_H
#define GT_KERNELS_CUDA_CUDNN_CONV_H

#include <stdbool.h>

#include "kernels/cuda/choices.h"
#include "kernels/cuda/cudnn/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution or one of its gradients, as conv2d in lib/graph/ops/ops.h without bias, residual
 * and relu. Images are channels-last; the weight is in the order of its shape. */
struct gt_cudnn_shape {
	enum gt_cudnn_kind kind; /* GT_CUDNN_FORWARD, _INPUT_GRAD or _WEIGHT_GRAD */
	enum gt_dtype dtype;     /* F32, BF16 or F16 */
	int64_t x[4], w[4], y[4];
	int stride, pad;
	bool relaxed; /* algorithms that round more than a plain sum are allowed */
	bool tf32;    /* F32: engines may round factors to TF32 */
};

/* The device that plans are for. It is given by a handle. If `handle` is NULL, `properties`
 * describes the device, and plans can be made without a GPU (cuDNN 9.8 or later). */
struct gt_cudnn_target {
	void *handle, *properties;
};

struct gt_cudnn_conv;

/* The most engines that gt_cudnn_conv_new() returns. cuDNN proposes the best ones first. */
enum { GT_CUDNN_OFFERS = 6 };

/*
 * After gt_cudnn_open(): describe a convolution and ask cuDNN for engines. The result holds the
 * first engines that gtrain can use: they are deterministic, round F32 to TF32 only with `tf32`,
 * and sum in float32. If there are none, its count is 0.
 *
 * Errors: GT_ENOMEM; GT_EDEVICE where the library refuses a descriptor.
 */
int gt_cudnn_conv_new(struct gt_cudnn_conv **out, const struct gt_cudnn_shape *shape,
    struct gt_cudnn_target target, struct gt_err *err);
void gt_cudnn_conv_free(struct gt_cudnn_conv *c);

/* The number of engines; and for each, the engine and its settings, borrowed. */
int gt_cudnn_conv_count(const struct gt_cudnn_conv *c);
const struct gt_choice *gt_cudnn_conv_choices(const struct gt_cudnn_conv *c);

/* Make the plan of engine i, unless it exists, and return the size of its workspace. Errors:
 * GT_EDEVICE; other engines may still work. */
int gt_cudnn_conv_plan(struct gt_cudnn_conv *c, int i, size_t *workspace_bytes, struct gt_err *err);

/* Set the memory of later runs: x, w and y have the sizes in the shape. Errors: GT_EDEVICE. */
int gt_cudnn_conv_bind(
    struct gt_cudnn_conv *c, void *x, void *w, void *y, void *workspace, struct gt_err *err);

/* Queue the plan of engine i on a stream. The caller holds the target's handle (gt_cudnn_enter()).
 * Errors: GT_EDEVICE. */
int gt_cudnn_conv_run(
    const struct gt_cudnn_conv *c, int i, cudaStream_t stream, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
