/* windows.cuh - windows over images, weights in the order of kernels, and rows of convolutions. */
#ifndef GT_KERNELS_CUDA_CONV_WINDOWS_CUH
#define GT_KERNELS_CUDA_CONV_WINDOWS_CUH

#include "kernels/cuda/conv/conv_ways.h"
#include "kernels/cuda/core/channels.cuh"
#include "kernels/cuda/core/mma.cuh"

/* Images lie channels-last, weights as [O, C / groups, kh, kw]. */

/* ---- windows ---- */

/*
 * Windows of an image: for each pixel of another one, the taps that it meets. Tap u of the window
 * of row i is row (times i + offset + u step) / divide, where that is whole and inside. Example:
 * an image x of 4 rows, a kernel of 3, stride 2, padding 1, so y has 2 rows.
 *
 *   of x, for y    2 i - 1 + u     y 0: x -1 0 1          y 1: x 1 2 3
 *   of dy, for x   (i + 1 - u)/2   x 1: y 1 by tap 0, nothing by tap 1, y 0 by tap 2
 *
 * Both agree: x 1 is tap 2 of y 0, and tap 0 of y 1. Row -1 is padding, and reads as zeros. With a
 * dilation, u step is that many times as large. Pairs are for rows and columns.
 */
template <class T> struct gt_conv_windows {
	const T *image;
	int channels, height, width;
	int kernel[2], step[2], divide[2], times[2], offset[2];
	int pixel_height, pixel_width; /* size of the other image */
	int64_t pixels;
};

/* Where the window of a pixel begins. */
struct gt_conv_start {
	int64_t image; /* first row of all images */
	int row, column;

	template <class T>
	__device__ __forceinline__ gt_conv_start(const gt_conv_windows<T> &a, int64_t pixel)
	    : image(pixel / a.pixel_width / a.pixel_height * a.height),
	      row((int)(pixel / a.pixel_width % a.pixel_height) * a.times[0] + a.offset[0]),
	      column((int)(pixel % a.pixel_width) * a.times[1] + a.offset[1])
	{
	}
};

/* Divide *at by `divide`. Return false if that leaves a rest, or the result is not in [0, size). */
static __device__ __forceinline__ bool gt_conv_is_inside(int *at, int divide, int size)
{
	if (divide > 1) {
		if (*at % divide)
			return false;
		*at /= divide;
	}
	return *at >= 0 && *at < size;
}

/* Return the first channel of the pixel that is tap (row, column) of a window; nullptr: there is
 * none. */
template <class T>
static __device__ __forceinline__ const T *gt_conv_tap(
    const gt_conv_windows<T> &a, const gt_conv_start &from, int row, int column)
{
	row = from.row + row * a.step[0];
	column = from.column + column * a.step[1];
	if (!gt_conv_is_inside(&row, a.divide[0], a.height) ||
	    !gt_conv_is_inside(&column, a.divide[1], a.width))
		return nullptr;
	return a.image + ((from.image + row) * a.width + column) * a.channels;
}

/* Return the windows of `image` for the pixels of `other`. The caller sets the pairs. */
template <class T>
static gt_conv_windows<T> gt_conv_windows_of(
    const struct gt_call *call, const struct gt_tensor *image, const struct gt_tensor *other)
{
	const int *kernel = call->attrs.conv.window.kernel;

	return { (const T *)image->data, (int)image->shape[1], (int)image->shape[2],
		(int)image->shape[3], { kernel[0], kernel[1] }, {}, {}, {}, {},
		(int)other->shape[2], (int)other->shape[3],
		other->shape[0] * other->shape[2] * other->shape[3] };
}

/* Return the windows of x for the pixels of y. */
template <class T>
static gt_conv_windows<T> gt_conv_windows_of_x(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	const struct gt_window *w = &call->attrs.conv.window;
	gt_conv_windows<T> a = gt_conv_windows_of<T>(call, x, y);

	for (int i = 0; i < 2; i++) {
		a.step[i] = w->dilation[i];
		a.divide[i] = 1;
		a.times[i] = w->stride[i];
		a.offset[i] = -w->pad[i];
	}
	return a;
}

/* Return the windows of dy for the pixels of dx: the outputs that each of these had a part in. */
template <class T>
static gt_conv_windows<T> gt_conv_windows_of_dy(
    const struct gt_call *call, const struct gt_tensor *dy, const struct gt_tensor *dx)
{
	const struct gt_window *w = &call->attrs.conv.window;
	gt_conv_windows<T> a = gt_conv_windows_of<T>(call, dy, dx);

	for (int i = 0; i < 2; i++) {
		a.step[i] = -w->dilation[i];
		a.divide[i] = w->stride[i];
		a.times[i] = 1;
		a.offset[i] = w->pad[i];
	}
	return a;
}

/* ---- weights: as conv2d or its input gradient reads them, and back ---- */

struct gt_conv_weight {
	int64_t outputs, channels; /* of a group */
	int64_t taps;              /* kh x kw */
	int64_t stride;            /* elements of a row of the rewritten weights */
	int64_t groups;
};

static inline struct gt_conv_weight gt_conv_weight_of(
    const struct gt_call *call, const struct gt_tensor *w)
{
	int64_t groups = call->attrs.conv.groups;

	return { w->shape[0] / groups, w->shape[1], w->shape[2] * w->shape[3], 0, groups };
}

/*
 * Rewrite w as `to` [tap c, o of all groups], or with SWAP [tap o, c of all groups]. The end of
 * each row is filled with zeros.
 */
template <class T, bool SWAP>
static __global__ void gt_conv_rewrite_weights(T *to, const T *w, struct gt_conv_weight s)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t inner = SWAP ? s.outputs : s.channels, sides = SWAP ? s.channels : s.outputs;
	int64_t side = i % s.stride, row = i / s.stride, tap = row / inner, group = side / sides;
	int64_t o = group * s.outputs + (SWAP ? row % inner : side % sides);
	int64_t c = SWAP ? side % sides : row % inner;

	if (tap >= s.taps)
		return;
	to[i] = group < s.groups ? w[(o * s.channels + c) * s.taps + tap] : T{};
}

/*
 * dw [o, c, tap] = the sum of all parts [part, o, stride], whose rows are [tap c]: the product is
 * by channels-last windows, dw is as PyTorch has it. In double, and in the order of the parts.
 */
template <class T, class V>
static __global__ void gt_conv_add_parts(
    T *dw, const V *parts, int64_t count, struct gt_conv_weight s)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, tap = i % s.taps;
	int64_t c = i / s.taps % s.channels, o = i / s.taps / s.channels;
	int64_t outputs = s.outputs * s.groups;
	double sum = 0;

	if (o >= outputs)
		return;
	for (int64_t k = 0; k < count; k++)
		sum += (double)parts[(k * outputs + o) * s.stride + tap * s.channels + c];
	gt_store(dw + i, (V)sum);
}

enum { GT_CONV_WEIGHT_THREADS = 256 };

static inline unsigned gt_conv_weight_blocks(int64_t elements)
{
	return (unsigned)gt_ceil_div(elements, GT_CONV_WEIGHT_THREADS);
}

/* ---- rows ---- */

/*
 * A product of nothing is 0, which these kernels would not write. Taps are numbered in int, and a
 * last step or a padded row counts past their end: hence half of the range.
 */
static inline int gt_conv_check_sizes(
    const struct gt_call *call, const struct gt_tensor *w, struct gt_err *err)
{
	const int64_t max = INT32_MAX / 2;

	for (int i = 0; i < 4; i++)
		if (w->shape[i] < 1)
			return gt_err_set(
			    err, GT_ENOTSUP, "%s: a weight without elements", call->kernel->op);
	if (gt_tensor_elements(w) > max)
		return gt_err_set(err, GT_ENOTSUP, "%s: a weight of %lld elements, at most %lld",
		    call->kernel->op, (long long)gt_tensor_elements(w), (long long)max);
	return 0;
}

/* Return whether a call has groups as the kernel wants them, and images and weights as above.
 * `images` and `weight` are its tensors. */
template <bool GROUPED>
static bool gt_conv_accepts(const struct gt_call *call, const struct gt_tensor *const (&images)[2],
    const struct gt_tensor *weight)
{
	const struct gt_tensor *residual = gt_optional_input(call, 3);

	return (call->attrs.conv.groups > 1) == GROUPED && gt_is_channels_last(images[0]) &&
	       gt_is_channels_last(images[1]) && (!residual || gt_is_channels_last(residual)) &&
	       weight->layout == GT_PLAIN;
}

/* gt_kernel.accepts of conv2d and of its input gradient, and that of its weight gradient. */
template <bool GROUPED> static bool gt_conv_accepts_images(const struct gt_call *call)
{
	return gt_conv_accepts<GROUPED>(call, { &call->in[0], &call->out[0] }, &call->in[1]);
}

template <bool GROUPED> static bool gt_conv_accepts_weight_grad(const struct gt_call *call)
{
	return gt_conv_accepts<GROUPED>(call, { &call->in[0], &call->in[1] }, &call->out[0]);
}

template <int (*PREPARE)(struct gt_call *, struct gt_err *)>
static int gt_conv_prepare(struct gt_call *call, struct gt_err *err)
{
	int rc = PREPARE(call, err);

	return rc ? rc : gt_conv_choose(call, err);
}

template <int (*RUN)(struct gt_call *, struct gt_err *),
    int (*RUN_TF32)(struct gt_call *, struct gt_err *)>
static int gt_conv_run_chosen(struct gt_call *call, struct gt_err *err)
{
	if (call->state)
		return gt_conv_run(call, err);
	return call->attrs.conv.tf32 ? RUN_TF32(call, err) : RUN(call, err);
}

/* A row: gtrain's kernel prepare_NAME(), run_NAME<T>() and, for the attribute tf32,
 * run_NAME<TF32>(), or cuDNN's. */
#define GT_CONV_ROW(name, dtype, T, TF32, accepts)                                                 \
	{                                                                                          \
#name, dtype, accepts, gt_conv_prepare < prepare_##name>, gt_conv_bind,            \
		    gt_conv_run_chosen < run_##name < T>, run_##name < TF32>>, gt_conv_release     \
	}
#define GT_CONV_ROWS(name, TF32, accepts)                                                          \
	GT_CONV_ROW(name, GT_F32, float, TF32, accepts),                                           \
	    GT_CONV_ROW(name, GT_F64, double, double, accepts),                                    \
	    GT_CONV_ROW(name, GT_BF16, gt_bf16, gt_bf16, accepts),                                 \
	    GT_CONV_ROW(name, GT_F16, gt_f16, gt_f16, accepts)

#endif
