/* conv.cu - conv2d and its gradients as products of matrices that are never written out. */
#include "kernels/cuda/conv/tile.cuh"
#include "kernels/cuda/conv/windows.cuh"

/*
 *   conv2d              y [pixel of y, o] = windows of x [pixel of y, tap c] by w [tap c, o]
 *   conv2d_input_grad   dx [pixel of x, c] = windows of dy [pixel of x, tap o] by w [tap o, c]
 *   conv2d_weight_grad  dw [o, tap c] = dy [pixel of y, o], transposed, by windows of x
 *
 * The first two write w into the workspace as they read it, as it changes with every step and is
 * small. The third one cuts the sum over the pixels into parts, for more blocks than there are
 * tiles of dw; a second kernel adds them up in their order. Source: Chetlur et al., "cuDNN:
 * Efficient primitives for deep learning", arXiv 1410.0759. cuDNN itself takes the place of these
 * kernels where it is there and faster (conv_ways.h). Convolutions with groups have kernels of
 * their own (conv_grouped.cu).
 */

/* ---- operands ---- */

struct tap {
	int row, column, channel;

	template <class T>
	__device__ __forceinline__ tap(const gt_conv_windows<T> &a, int number)
	    : row(number / a.channels / a.kernel[1]), column(number / a.channels % a.kernel[1]),
	      channel(number % a.channels)
	{
	}
};

/* The W channels from a tap's on, or zeros. */
template <class T, int W>
static __device__ __forceinline__ gt_pack<T, W> read_tap(
    const gt_conv_windows<T> &a, const gt_conv_start &from, const tap &t)
{
	const T *pixel = gt_conv_tap(a, from, t.row, t.column);

	if (!pixel)
		return {};
	return *(const gt_pack<T, W> *)(pixel + t.channel);
}

/* Pixels are the sides, taps are k. WHOLE: the channels are whole packs. */
template <class T, bool WHOLE> struct windows_by_tap {
	typedef gt_conv_windows<T> args;
	typedef gt_tile<T> tile;
	/* Without a limit, channels that are no whole packs would cost a multiprocessor a block. */
	enum { STEP = WHOLE ? (int)tile::W : 1, BLOCKS = WHOLE ? 0 : sizeof(T) == 8 ? 3 : 4 };
	const args &of;
	int64_t pixel;
	gt_conv_start from;
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
	typedef gt_conv_windows<T> args;
	typedef gt_tile<T> tile;
	enum { STEP = WHOLE ? (int)tile::W : 1 };
	const args &of;
	int first, left; /* taps */
	typename tile::pack v;

	__device__ __forceinline__ windows_by_pixel(const args &a, int64_t side)
	    : of(a), first((int)side + tile::side_by_side()),
	      left(a.kernel[0] * a.kernel[1] * a.channels - first)
	{
	}

	__device__ __forceinline__ void load(int64_t k, int64_t end)
	{
		int64_t pixel = k + tile::k_by_side();
		gt_conv_start from(of, pixel);

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
	enum { STEP = WHOLE ? (int)tile::W : 1, BLOCKS = 0 };
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

/* ---- conv2d and conv2d_input_grad ---- */

static int64_t up_to_packs(int64_t n, int64_t size)
{
	return gt_ceil_div(n, 16 / size) * (16 / size);
}

/* Rewrite w into the workspace and multiply. */
template <class T, bool SWAP>
static int multiply_windows(
    struct gt_call *call, const gt_conv_windows<T> &a, gt_tile_end<T> end, struct gt_err *err)
{
	struct gt_conv_weight s = gt_conv_weight_of(call, &call->in[1]);
	struct gt_tile_sizes sizes = { a.pixels, SWAP ? s.channels : s.outputs, s.taps * a.channels,
		s.taps * a.channels };
	T *w = (T *)call->workspace;

	if (!sizes.m || !sizes.n || !sizes.k)
		return 0;
	s.stride = up_to_packs(sizes.n, sizeof(T));
	end.stride = sizes.n;
	GT_LAUNCH((gt_conv_rewrite_weights<T, SWAP>), gt_conv_weight_blocks(sizes.k * s.stride),
	    GT_CONV_WEIGHT_THREADS, 0, call->stream->queue, w, gt_in_data<T>(call, 1), s);
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
	    call, gt_conv_windows_of_x<T>(call, &call->in[0], &call->out[0]), end, err);
}

template <class T> static int run_conv2d_input_grad(struct gt_call *call, struct gt_err *err)
{
	gt_tile_end<T> end = { gt_out_data<T>(call), nullptr, nullptr, 0, false };

	return multiply_windows<T, true>(
	    call, gt_conv_windows_of_dy<T>(call, &call->in[0], &call->out[0]), end, err);
}

static int prepare_conv2d(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *w = &call->in[1];
	int64_t size = (int64_t)gt_dtype_size(w->dtype);

	call->launches = 2;
	call->workspace_bytes = (size_t)(gt_tensor_elements(w) / (w->shape[0] ? w->shape[0] : 1) *
	                                 up_to_packs(w->shape[0], size) * size);
	return gt_conv_check_sizes(call, w, err);
}

static int prepare_conv2d_input_grad(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *w = &call->in[1];
	int64_t size = (int64_t)gt_dtype_size(w->dtype);

	call->launches = 2;
	call->workspace_bytes = (size_t)(gt_tensor_elements(w) / (w->shape[1] ? w->shape[1] : 1) *
	                                 up_to_packs(w->shape[1], size) * size);
	return gt_conv_check_sizes(call, w, err);
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
	struct gt_conv_weight w;
	struct gt_tile_sizes sizes;
	int64_t count;
};

static struct parts weight_grad_parts(const struct gt_call *call)
{
	const int64_t *y = call->in[1].shape, side = gt_tile<float>::SIDE;
	struct parts p = { gt_conv_weight_of(call, &call->out[0]), {}, 0 };
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
	gt_conv_windows<T> x = gt_conv_windows_of_x<T>(call, &call->in[0], &call->in[1]);

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
	GT_LAUNCH((gt_conv_add_parts<T, wide>), gt_conv_weight_blocks(p.sizes.m * p.sizes.n),
	    GT_CONV_WEIGHT_THREADS, 0, call->stream->queue, gt_out_data<T>(call),
	    (const wide *)call->workspace, p.count, p.w);
	return gt_cuda_launched(call->stream, "conv2d_weight_grad", err);
}

static int prepare_conv2d_weight_grad(struct gt_call *call, struct gt_err *err)
{
	struct parts p = weight_grad_parts(call);

	call->launches = p.count ? 2 : 1;
	call->workspace_bytes =
	    (size_t)(p.count * p.w.outputs * p.w.stride) * (call->out[0].dtype == GT_F64 ? 8 : 4);
	return gt_conv_check_sizes(call, &call->out[0], err);
}

const struct gt_kernel gt_cuda_conv_kernels[] = {
	GT_CONV_ROWS(conv2d, gt_tf32, gt_conv_accepts_images<false>),
	GT_CONV_ROWS(conv2d_input_grad, gt_tf32, gt_conv_accepts_images<false>),
	GT_CONV_ROWS(conv2d_weight_grad, gt_tf32, gt_conv_accepts_weight_grad<false>),
	{},
};
