/* conv.h - convolutions by cuDNN: describe one, ask for engines (algorithms), and run one. */
#ifndef GT_KERNELS_CUDA_CUDNN_CONV_H
#define GT_KERNELS_CUDA_CUDNN_CONV_H

#include <stdbool.h>

#include "kernels/cuda/cudnn/api.h"
#include "kernels/cuda/library/choices.h"
#include "lib/graph/attrs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution or one of its gradients, without bias, residual and relu. x is the input [N, C, H,
 * W], w the weight, y the output; the operands of a gradient are in the same places. x and y are
 * channels-last, w is contiguous [out, in / groups, height, width], which tells the groups. */
struct gt_cudnn_shape {
	enum gt_cudnn_kind kind; /* GT_CUDNN_FORWARD, _INPUT_GRAD or _WEIGHT_GRAD */
	enum gt_dtype dtype;     /* GT_F32, GT_BF16 or GT_F16 */
	int64_t x[4], w[4], y[4];
	struct gt_window window; /* the kernel is that of w */
	bool relaxed;            /* allow Winograd and FFT, with larger rounding errors */
	bool tf32;               /* round factors of GT_F32 to TF32 */
};

/* The device of plans: a cuDNN handle, or, if it is NULL, the descriptor `properties`, for plans
 * that are made without a GPU (cuDNN 9.8) and never run. */
struct gt_cudnn_target {
	void *handle, *properties;
};

struct gt_cudnn_conv;

/* engines that are kept at most; cuDNN proposes the best first */
enum { GT_CUDNN_MAX_ENGINES = 6 };

/* Describe a convolution and ask cuDNN for engines, at most GT_CUDNN_MAX_ENGINES; there may be
 * none. gt_cudnn_open() comes first. The caller frees *out. */
int gt_cudnn_conv_new(struct gt_cudnn_conv **out, const struct gt_cudnn_shape *shape,
    struct gt_cudnn_target target, struct gt_err *err);
void gt_cudnn_conv_free(struct gt_cudnn_conv *c);

/* The number of engines, and a borrowed array that identifies them. */
int gt_cudnn_conv_count(const struct gt_cudnn_conv *c);
const struct gt_choice *gt_cudnn_conv_choices(const struct gt_cudnn_conv *c);

/* Create the plan of engine i, unless it exists. Other engines may still succeed. */
int gt_cudnn_conv_plan(struct gt_cudnn_conv *c, int i, size_t *workspace_bytes, struct gt_err *err);

/* Set the device addresses for later runs. */
int gt_cudnn_conv_bind(
    struct gt_cudnn_conv *c, void *x, void *w, void *y, void *workspace, struct gt_err *err);

/* Detach the locked handle from its stream, before that is destroyed. */
void gt_cudnn_conv_finish(const struct gt_cudnn_conv *c);

/* Queue the plan of engine i, after gt_cudnn_conv_plan() and gt_cudnn_conv_bind(), with the handle
 * locked. */
int gt_cudnn_conv_run(
    const struct gt_cudnn_conv *c, int i, cudaStream_t stream, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
