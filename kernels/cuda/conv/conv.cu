/* conv.cu - conv2d and its gradients as products of matrices that are never written out. */
#include "kernels/cuda/conv/conv_ways.h"
#include "kernels/cuda/conv/tile.cuh"
#include "kernels/cuda/core/channels.cuh"

/*
 * Images lie channels-last, weights as [O, C, k, k]. A tap is one of a window's k x k places.
 *
 *   conv2d              y [pixel of y, o] = windows of x [pixel of y, tap c] by w [tap c, o]
 *   conv2d_input_grad   dx [pixel of x, c] = windows of dy [pixel of x, tap o] by w [tap o, c]
 *   conv2d_weight_grad  dw [o, tap c] = dy [pixel of y, o], transposed, by windows of x
 *
 * The first two write w into the workspace as they read it, as it changes with every step and is
 * small. The third one cuts the sum over the pixels into parts, for more blocks than there are
 * tiles of dw; a second kernel adds them up in their order. Source: Chetlur et al., "cuDNN:
 * Efficient primitives for deep learning", arXiv 1410.0759. cuDNN itself takes the place of these
 * kernels where it is there and faster (conv_ways.h).
 */

/* ---- operands ---- */

/*
 * Windows of an image: for each pixel of another one, the taps that it meets. Tap u of the window
 * of row i is row (times i + offset + u step) / divide, where that is whole and inside. Example:
 * an image x of 4 rows, a kernel of 3, stride 2, padding 1, so y has 2 rows.
 *
 *   of x, for y    2 i - 1 + u     y 0: x -1 0 1          y 1: x 1 2 3
 *   of dy, for x   (i + 1 - u)/2   x 1: y 1 by tap 0, nothing by tap 1, y 0 by tap 2
 *
 * Both agree: x 1 is tap 2 of y 0, and tap 0 of y 1. Row -1 is padding, and reads as zeros.
 */
template <class T> struct window_args {
	const T *image;
	int channels, height, width;
	int kernel, step, divide, times, offset;
	int pixel_height, pixel_width; /* size of the other image */
	int64_t pixels;
};

/* Where the window of a pixel begins. */
struct window {
	int64_t image; /* first row of all images */
	int row, column;

	template <class T>
	__device__ __forceinline__ window(const window_args<T> &a, int64_t pixel)
	    : image(pixel / a.pixel_width / a.pixel_height * a.height),
	      row((int)(pixel / a.pixel_width % a.pixel_height) * a.times + a.offset),
	      column((int)(pixel % a.pixel_width) * a.times + a.offset)
	{
	}
};

struct tap {
	int row, column, channel;

	template <class T>
	__device__ __forceinline__ tap(const window_args<T> &a, int number)
	    : row(number / a.channels / a.kernel), column(number / a.channels % a.kernel),
	      channel(number % a.channels)
	{
	}
};

template <class T>
static __device__ __forceinline__ bool is_inside(const window_args<T> &a, int *at, int size)
{
	if (a.divide > 1) {
		if (*at % a.divide)
			return false;
		*at /= a.divide;
	}
	return *at >= 0 && *at < size;
}

/* The W channels from a tap's on, or zeros. */
template <class T, int W>
static __device__ __forceinline__ gt_pack<T, W> read_tap(
    const window_args<T> &a, const window &from, const tap &t)
{
	int row = from.row + t.row * a.step, column = from.column + t.column * a.step;

	if (!is_inside(a, &row, a.height) || !is_inside(a, &column, a.width))
		return {};
	return *(const gt_pack<T, W> *)(a.image +
	                                ((from.image + row) * a.width + column) * a.channels +
	                                t.channel);
}

/* Pixels are the sides, taps are k. WHOLE: the channels are whole packs. */
template <class T, bool WHOLE> struct windows_by_tap {
	typedef window_args<T> args;
	typedef gt_tile<T> tile;
	enum { STEP = WHOLE ? (int)tile::W : 1 };
	const args &of;
	int64_t pixel;
	window from;
	typename tile::pack v;

	__device__ __forceinline__ windows_by_tap(const args &a, int64_t side)
	    : of(a), pixel(side + tile::side_by_k()), from(a, pixel)
	{
	}

	__device__ __forceinline__ void load(int64_t k, int64_t end)
	{
		int64_t left = pixel < of.pixels ? end - k - tile::k_by_k() : 0;

		v = {};
		for (int i = 0; i < tile::W && i < left; i += STEP)
			gt_put_pack(&v, i,
			    read_tap<T, STEP>(of, from, tap(of, (int)k + tile::k_by_k() + i)));
	}

	__device__ __forceinline__ void put(T *shared) const
	{
		tile::put_by_k(shared, v);
	}
};

/* Taps are the sides, pixels are k. */
template <class T, bool WHOLE> struct windows_by_pixel {
	typedef window_args<T> args;
	typedef gt_tile<T> tile;
	enum { STEP = WHOLE ? (int)tile::W : 1 };
	const args &of;
	int first, left; /* taps */
	typename tile::pack v;

	__device__ __forceinline__ windows_by_pixel(const args &a, int64_t side)
	    : of(a), first((int)side + tile::side_by_side()),
	      left(a.kernel * a.kernel * a.channels - first)
	{
	}

	__device__ __forceinline__ void load(int64_t k, int64_t end)
	{
		int64_t pixel = k + tile::k_by_side();
		window from(of, pixel);

		v = {};
		for (int i = 0; i < tile::W && i < left && pixel < end; i += STEP)
			gt_put_pack(&v, i, read_tap<T, STEP>(of, from, tap(of, first + i)));
	}

	__device__ __forceinline__ void put(T *shared) const
	{
		tile::put_by_side(shared, v);
	}
};

/* A matrix [k, sides] in memory. WHOLE: rows are whole packs. */
template <class T> struct matrix_args {
	const T *p;
	int64_t sides;
};

template <class T, bool WHOLE> struct matrix_by_k {
	typedef matrix_args<T> args;
	typedef gt_tile<T> tile;
	enum { STEP = WHOLE ? (int)tile::W : 1 };
	const args &of;
	int64_t first;
	typename tile::pack v;

	__device__ __forceinline__ matrix_by_k(const args &a, int64_t side)
	    : of(a), first(side + tile::side_by_side())
	{
	}

	__device__ __forceinline__ void load(int64_t k, int64_t end)
	{
		const T *from = of.p + (k + tile::k_by_side()) * of.sides + first;
		int64_t left = k + tile::k_by_side() < end ? of.sides - first : 0;

		v = {};
		for (int i = 0; i < tile::W && i < left; i += STEP)
			gt_put_pack(&v, i, *(const gt_pack<T, STEP> *)(from + i));
	}

	__device__ __forceinline__ void put(T *shared) const
	{
		tile::put_by_side(shared, v);
	}
};

/* ---- weights: as conv2d or its input gradient reads them, and back ---- */

struct weight_sizes {
	int64_t outputs, channels, taps; /* taps: k x k */
	int64_t stride;                  /* elements of a row of the rewritten weights */
};

/* Rewrite w as `to` [tap c, o], or with SWAP [tap o, c]. The end of each row is filled with
 * zeros. */
template <class T, bool SWAP>
static __global__ void rewrite_weights(T *to, const T *w, struct weight_sizes s)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t inner = SWAP ? s.outputs : s.channels, side = i % s.stride, row = i / s.stride;
	int64_t tap = row / inner, o = SWAP ? row % inner : side, c = SWAP ? side : row % inner;

	if (tap >= s.taps)
		return;
	to[i] = o < s.outputs && c < s.channels ? w[(o * s.channels + c) * s.taps + tap] : T{};
}

/*
 * dw [o, c, tap] = the sum of all parts [part, o, stride], whose rows are [tap c]: the product is
 * by channels-last windows, dw is as PyTorch has it. In double, and in the order of the parts.
 */
template <class T, class V>
static __global__ void add_parts(T *dw, const V *parts, int64_t count, struct weight_sizes s)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, tap = i % s.taps;
	int64_t c = i / s.taps % s.channels, o = i / s.taps / s.channels;
	double sum = 0;

	if (o >= s.outputs)
		return;
	for (int64_t k = 0; k < count; k++)
		sum += (double)parts[(k * s.outputs + o) * s.stride + tap * s.channels + c];
	gt_store(dw + i, (V)sum);
}

enum { WEIGHT_THREADS = 256 };

static unsigned weight_blocks(int64_t elements)
{
	return (unsigned)gt_ceil_div(elements, WEIGHT_THREADS);
}

static int64_t up_to_packs(int64_t n, int64_t size)
{
	return gt_ceil_div(n, 16 / size) * (16 / size);
}

static struct weight_sizes weight_sizes_of(const struct gt_tensor *w)
{
	return { w->shape[0], w->shape[1], w->shape[2] * w->shape[3], 0 };
}

/* ---- rows ---- */

/* Windows of x for the pixels of y. */
template <class T>
static window_args<T> windows_of_x(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	return { (const T *)x->data, (int)x->shape[1], (int)x->shape[2], (int)x->shape[3],
		call->attrs.conv.kernel, 1, 1, call->attrs.conv.stride, -call->attrs.conv.pad,
		(int)y->shape[2], (int)y->shape[3], y->shape[0] * y->shape[2] * y->shape[3] };
}

/* Windows of dy for the pixels of dx: the outputs that each of these had a part in. */
template <class T>
static window_args<T> windows_of_dy(
    const struct gt_call *call, const struct gt_tensor *dy, const struct gt_tensor *dx)
{
	return { (const T *)dy->data, (int)dy->shape[1], (int)dy->shape[2], (int)dy->shape[3],
		call->attrs.conv.kernel, -1, call->attrs.conv.stride, 1, call->attrs.conv.pad,
		(int)dx->shape[2], (int)dx->shape[3], dx->shape[0] * dx->shape[2] * dx->shape[3] };
}

/* Rewrite w into the workspace and multiply. */
template <class T, bool SWAP>
static int multiply_windows(
    struct gt_call *call, const window_args<T> &a, gt_tile_end<T> end, struct gt_err *err)
{
	struct weight_sizes s = weight_sizes_of(&call->in[1]);
	struct gt_tile_sizes sizes = { a.pixels, SWAP ? s.channels : s.outputs, s.taps * a.channels,
		s.taps * a.channels };
	T *w = (T *)call->workspace;

	if (!sizes.m || !sizes.n || !sizes.k)
		return 0;
	s.stride = up_to_packs(sizes.n, sizeof(T));
	end.stride = sizes.n;
	GT_LAUNCH((rewrite_weights<T, SWAP>), weight_blocks(sizes.k * s.stride), WEIGHT_THREADS, 0,
	    call->stream->queue, w, gt_in_data<T>(call, 1), s);
	if (a.channels % gt_tile<T>::W == 0)
		gt_launch_tiles<T, T, windows_by_tap<T, true>, matrix_by_k<T, true>>(
		    call->stream, a, { w, s.stride }, end, sizes);
	else
		gt_launch_tiles<T, T, windows_by_tap<T, false>, matrix_by_k<T, true>>(
		    call->stream, a, { w, s.stride }, end, sizes);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

template <class T> static int run_conv2d(struct gt_call *call, struct gt_err *err)
{
	gt_tile_end<T> end = { gt_out_data<T>(call), gt_in_data<T>(call, 2), gt_in_data<T>(call, 3),
		0, call->attrs.conv.relu };

	return multiply_windows<T, false>(
	    call, windows_of_x<T>(call, &call->in[0], &call->out[0]), end, err);
}

template <class T> static int run_conv2d_input_grad(struct gt_call *call, struct gt_err *err)
{
	gt_tile_end<T> end = { gt_out_data<T>(call), nullptr, nullptr, 0, false };

	return multiply_windows<T, true>(
	    call, windows_of_dy<T>(call, &call->in[0], &call->out[0]), end, err);
}

/*
 * A product of nothing is 0, which these kernels would not write. Taps are numbered in int, and a
 * last step or a padded row counts past their end: hence half of the range.
 */
static int check_sizes(const struct gt_call *call, const struct gt_tensor *w, struct gt_err *err)
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

static int prepare_conv2d(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *w = &call->in[1];
	int64_t size = (int64_t)gt_dtype_size(w->dtype);

	call->launches = 2;
	call->workspace_bytes = (size_t)(gt_tensor_elements(w) / (w->shape[0] ? w->shape[0] : 1) *
	                                 up_to_packs(w->shape[0], size) * size);
	return check_sizes(call, w, err);
}

static int prepare_conv2d_input_grad(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *w = &call->in[1];
	int64_t size = (int64_t)gt_dtype_size(w->dtype);

	call->launches = 2;
	call->workspace_bytes = (size_t)(gt_tensor_elements(w) / (w->shape[1] ? w->shape[1] : 1) *
	                                 up_to_packs(w->shape[1], size) * size);
	return check_sizes(call, w, err);
}

/* ---- conv2d_weight_grad ---- */

enum { LEAST_PIXELS = 256, WANTED_BLOCKS = 132 * 4, PART_PACK = 4 };

/*
 * How the sum over the pixels is cut: the same for all types, and on all GPUs, because the order
 * of a sum decides its last bits. WANTED_BLOCKS is four for each of the 132 multiprocessors of an
 * H100. Example: dw of 64 x 576 elements is 1 x 9 tiles, so there may be 59 parts; of 100,352
 * pixels each has 1792, a multiple of LEAST_PIXELS, and there are 56.
 */
struct parts {
	struct weight_sizes w;
	struct gt_tile_sizes sizes;
	int64_t count;
};

static struct parts weight_grad_parts(const struct gt_call *call)
{
	const int64_t *y = call->in[1].shape, side = gt_tile<float>::SIDE;
	struct parts p = { weight_sizes_of(&call->out[0]), {}, 0 };
	int64_t tiles, max;

	p.sizes.m = p.w.outputs;
	p.sizes.n = p.w.taps * p.w.channels;
	p.sizes.k = y[0] * y[2] * y[3];
	p.w.stride = gt_ceil_div(p.sizes.n, PART_PACK) * PART_PACK;
	tiles = gt_ceil_div(p.sizes.m, side) * gt_ceil_div(p.sizes.n, side);
	max = gt_ceil_div(WANTED_BLOCKS, tiles ? tiles : 1);
	p.sizes.split = gt_ceil_div(gt_ceil_div(p.sizes.k, max), LEAST_PIXELS) * LEAST_PIXELS;
	p.count = p.sizes.k ? gt_ceil_div(p.sizes.k, p.sizes.split) : 0;
	return p;
}

template <class T, bool WHOLE_X, bool WHOLE_Y>
static void multiply_parts(struct gt_call *call, const struct parts &p)
{
	typedef typename gt_wide<T>::type wide;
	gt_tile_end<wide> end = { (wide *)call->workspace, nullptr, nullptr, p.w.stride, false };
	window_args<T> x = windows_of_x<T>(call, &call->in[0], &call->in[1]);

	gt_launch_tiles<T, wide, matrix_by_k<T, WHOLE_Y>, windows_by_pixel<T, WHOLE_X>>(
	    call->stream, { gt_in_data<T>(call, 1), p.w.outputs }, x, end, p.sizes);
}

template <class T> static int run_conv2d_weight_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct parts p = weight_grad_parts(call);
	bool whole_x = p.w.channels % gt_tile<T>::W == 0,
	     whole_y = p.w.outputs % gt_tile<T>::W == 0;

	if (p.count && whole_x && whole_y)
		multiply_parts<T, true, true>(call, p);
	else if (p.count && whole_y)
		multiply_parts<T, false, true>(call, p);
	else if (p.count)
		multiply_parts<T, false, false>(call, p);
	GT_LAUNCH((add_parts<T, wide>), weight_blocks(p.sizes.m * p.sizes.n), WEIGHT_THREADS, 0,
	    call->stream->queue, gt_out_data<T>(call), (const wide *)call->workspace, p.count, p.w);
	return gt_cuda_launched(call->stream, "conv2d_weight_grad", err);
}

static int prepare_conv2d_weight_grad(struct gt_call *call, struct gt_err *err)
{
	struct parts p = weight_grad_parts(call);

	call->launches = p.count ? 2 : 1;
	call->workspace_bytes =
	    (size_t)(p.count * p.w.outputs * p.w.stride) * (call->out[0].dtype == GT_F64 ? 8 : 4);
	return check_sizes(call, &call->out[0], err);
}

static bool accepts_conv2d(const struct gt_call *call)
{
	const struct gt_tensor *residual = gt_optional_input(call, 3);

	return gt_is_channels_last(&call->in[0]) && gt_is_channels_last(&call->out[0]) &&
	       (!residual || gt_is_channels_last(residual)) && call->in[1].layout == GT_PLAIN;
}

static bool accepts_input_grad(const struct gt_call *call)
{
	return gt_is_channels_last(&call->in[0]) && gt_is_channels_last(&call->out[0]) &&
	       call->in[1].layout == GT_PLAIN;
}

static bool accepts_weight_grad(const struct gt_call *call)
{
	return gt_is_channels_last(&call->in[0]) && gt_is_channels_last(&call->in[1]) &&
	       call->out[0].layout == GT_PLAIN;
}

/* ---- or by cuDNN ---- */

template <int (*PREPARE)(struct gt_call *, struct gt_err *)>
static int prepare_and_choose(struct gt_call *call, struct gt_err *err)
{
	int rc = PREPARE(call, err);

	return rc ? rc : gt_conv_choose(call, err);
}

template <int (*RUN)(struct gt_call *, struct gt_err *),
    int (*RUN_TF32)(struct gt_call *, struct gt_err *)>
static int run_chosen(struct gt_call *call, struct gt_err *err)
{
	if (call->state)
		return gt_conv_run(call, err);
	return call->attrs.conv.tf32 ? RUN_TF32(call, err) : RUN(call, err);
}

#define CONV_ROW(name, dtype, T, accepts)                                                          \
	{                                                                                          \
#name, dtype, accepts, prepare_and_choose < prepare_##name>, gt_conv_bind,         \
		    run_chosen < run_##name < T>, run_##name < gt_rounded < T> ::type>>,           \
		    gt_conv_release                                                                \
	}
#define CONV_ROWS(name, accepts)                                                                   \
	CONV_ROW(name, GT_F32, float, accepts), CONV_ROW(name, GT_F64, double, accepts),           \
	    CONV_ROW(name, GT_BF16, gt_bf16, accepts), CONV_ROW(name, GT_F16, gt_f16, accepts)

const struct gt_kernel gt_cuda_conv_kernels[] = {
	CONV_ROWS(conv2d, accepts_conv2d),
	CONV_ROWS(conv2d_input_grad, accepts_input_grad),
	CONV_ROWS(conv2d_weight_grad, accepts_weight_grad),
	{},
};
