/* conv_grouped.cu - conv2d with groups and its gradients: a thread adds up each result. */
#include "kernels/cuda/conv/tile.cuh"
#include "kernels/cuda/conv/windows.cuh"

/*
 * A group has few channels, down to one (depthwise), so the tiles of a matrix product would be
 * nearly empty. Neighbouring threads have neighbouring channels of a pixel, and then neighbouring
 * pixels: they read x in whole lines, and the rows that windows share from the cache.
 */
enum { GROUPED_THREADS = 128 };

/* ---- conv2d and conv2d_input_grad ---- */

/* The input gradient is a sum over windows of dy as conv2d is over windows of x: `sources` are the
 * channels that a group of these has, `targets` those of a group of the result. */
struct group_sizes {
	int sources, targets;
	int channels; /* the result's, in all groups */
};

/* w is [tap source, channel]. A thread computes W channels of a pixel, which are in one group. */
template <class T, int W>
static __global__ void add_windows(
    gt_conv_windows<T> a, const T *w, gt_tile_end<T> end, struct group_sizes s)
{
	typedef typename gt_wide<T>::type wide;
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, packs = s.channels / W;
	int64_t pixel = i / packs;
	int channel = (int)(i % packs) * W, first = channel / s.targets * s.sources;
	wide sums[W] = {};

	if (pixel >= a.pixels)
		return;
	gt_conv_start from(a, pixel);
	for (int u = 0; u < a.kernel[0]; u++)
		for (int v = 0; v < a.kernel[1]; v++) {
			const T *x = gt_conv_tap(a, from, u, v);
			int64_t row = (int64_t)(u * a.kernel[1] + v) * s.sources;

			for (int q = 0; x && q < s.sources; q++) {
				gt_reader<T, W> weight = { (T *)w, {} };
				wide image = gt_load(x[first + q]);

				weight.load((row + q) * s.channels + channel);
				for (int k = 0; k < W; k++)
					sums[k] += weight.v[k] * image;
			}
		}
	end.template store<W>(pixel, channel, W, sums);
}

/*
 * Depthwise: a thread computes W channels of STRIP neighbouring pixels. For each row of the kernel
 * it goes over the columns of the image that these pixels see, reads each once, and adds it to the
 * pixels of which it is a tap. Example: kernel 3, stride 1, padding 1, pixels 4 to 7.
 *
 *   column 3   tap 0 of pixel 4
 *   column 4   tap 1 of pixel 4, tap 0 of pixel 5
 *   column 5   tap 2 of pixel 4, tap 1 of pixel 5, tap 0 of pixel 6
 */
enum { STRIP = 4 };

/* The columns [from, to) of the image that a strip sees, whose first pixel's window begins at
 * `start`. */
template <class T>
static __device__ __forceinline__ void find_columns(
    const gt_conv_windows<T> &a, int start, int *from, int *to)
{
	int reach = (a.kernel[1] - 1) * a.step[1];
	int low = start + (reach < 0 ? reach : 0);
	int high = start + (STRIP - 1) * a.times[1] + (reach > 0 ? reach : 0);

	*from = low <= 0 ? 0 : (low + a.divide[1] - 1) / a.divide[1];
	*to = high < 0 ? 0 : high / a.divide[1] + 1;
	if (*to > a.width)
		*to = a.width;
}

/* Return which tap of a window that begins at `start` column `at` of the image is; -1: none. */
template <class T>
static __device__ __forceinline__ int tap_of_column(const gt_conv_windows<T> &a, int start, int at)
{
	int distance = at * a.divide[1] - start, step = a.step[1];
	int tap = step == 1 ? distance : step == -1 ? -distance : distance / step;

	return tap * step == distance && tap >= 0 && tap < a.kernel[1] ? tap : -1;
}

/* w is [tap, channel]. */
template <class T, int W>
static __global__ void add_strip(gt_conv_windows<T> a, const T *w, gt_tile_end<T> end)
{
	typedef typename gt_wide<T>::type wide;
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, packs = a.channels / W;
	int64_t strips = (a.pixel_width + STRIP - 1) / STRIP, row = i / packs / strips;
	int channel = (int)(i % packs) * W, first = (int)(i / packs % strips) * STRIP, low, high;
	int64_t pixel = row * a.pixel_width + first;
	wide sums[STRIP][W] = {};

	if (pixel >= a.pixels)
		return;
	gt_conv_start from(a, pixel);
	find_columns(a, from.column, &low, &high);
	for (int u = 0; u < a.kernel[0]; u++) {
		int at = from.row + u * a.step[0];

		if (!gt_conv_is_inside(&at, a.divide[0], a.height))
			continue;
		for (int c = low; c < high; c++) {
			gt_reader<T, W> x = { (T *)a.image, {} }, weight = { (T *)w, {} };

			x.load(((from.image + at) * a.width + c) * a.channels + channel);
			GT_UNROLL
			for (int t = 0; t < STRIP; t++) {
				int v = tap_of_column(a, from.column + t * a.times[1], c);

				if (v < 0)
					continue;
				weight.load((int64_t)(u * a.kernel[1] + v) * a.channels + channel);
				for (int k = 0; k < W; k++)
					sums[t][k] += weight.v[k] * x.v[k];
			}
		}
	}
	GT_UNROLL
	for (int t = 0; t < STRIP; t++)
		if (first + t < a.pixel_width)
			end.template store<W>(pixel + t, channel, W, sums[t]);
}

static unsigned grouped_blocks(int64_t threads)
{
	return (unsigned)gt_ceil_div(threads, GROUPED_THREADS);
}

template <class T, int W>
static void launch_windows(struct gt_call *call, const gt_conv_windows<T> &a,
    const gt_tile_end<T> &end, const struct group_sizes &s)
{
	GT_LAUNCH((add_windows<T, W>), grouped_blocks(a.pixels * (s.channels / W)), GROUPED_THREADS,
	    0, call->stream->queue, a, (const T *)call->workspace, end, s);
}

template <class T, int W>
static void launch_strips(
    struct gt_call *call, const gt_conv_windows<T> &a, const gt_tile_end<T> &end)
{
	int64_t rows = a.pixels / a.pixel_width, strips = gt_ceil_div(a.pixel_width, STRIP);

	GT_LAUNCH((add_strip<T, W>), grouped_blocks(rows * strips * (a.channels / W)),
	    GROUPED_THREADS, 0, call->stream->queue, a, (const T *)call->workspace, end);
}

/* Rewrite w into the workspace and add up. */
template <class T, bool SWAP>
static int convolve_groups(
    struct gt_call *call, const gt_conv_windows<T> &a, gt_tile_end<T> end, struct gt_err *err)
{
	enum { W = gt_pack_elements<T>() };
	struct gt_conv_weight w = gt_conv_weight_of(call, &call->in[1]);
	struct group_sizes s = { (int)(SWAP ? w.outputs : w.channels),
		(int)(SWAP ? w.channels : w.outputs), (int)call->out[0].shape[1] };

	if (!a.pixels)
		return 0;
	end.stride = w.stride = s.channels;
	GT_LAUNCH((gt_conv_rewrite_weights<T, SWAP>),
	    gt_conv_weight_blocks(gt_tensor_elements(&call->in[1])), GT_CONV_WEIGHT_THREADS, 0,
	    call->stream->queue, (T *)call->workspace, gt_in_data<T>(call, 1), w);
	if (s.sources == 1 && s.targets == 1 && s.channels % W == 0)
		launch_strips<T, W>(call, a, end);
	else if (s.sources == 1 && s.targets == 1)
		launch_strips<T, 1>(call, a, end);
	else if (s.targets % W == 0)
		launch_windows<T, W>(call, a, end, s);
	else
		launch_windows<T, 1>(call, a, end, s);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

template <class T> static int run_conv2d(struct gt_call *call, struct gt_err *err)
{
	gt_tile_end<T> end = { gt_out_data<T>(call), gt_in_data<T>(call, 2), gt_in_data<T>(call, 3),
		0, call->attrs.conv.relu };

	return convolve_groups<T, false>(
	    call, gt_conv_windows_of_x<T>(call, &call->in[0], &call->out[0]), end, err);
}

template <class T> static int run_conv2d_input_grad(struct gt_call *call, struct gt_err *err)
{
	gt_tile_end<T> end = { gt_out_data<T>(call), nullptr, nullptr, 0, false };

	return convolve_groups<T, true>(
	    call, gt_conv_windows_of_dy<T>(call, &call->in[0], &call->out[0]), end, err);
}

static int prepare_conv2d(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *w = &call->in[1];

	call->launches = 2;
	call->workspace_bytes = (size_t)gt_tensor_elements(w) * gt_dtype_size(w->dtype);
	return gt_conv_check_sizes(call, w, err);
}

static int prepare_conv2d_input_grad(struct gt_call *call, struct gt_err *err)
{
	return prepare_conv2d(call, err);
}

/* ---- conv2d_weight_grad ---- */

enum { GROUPED_BLOCKS = 132 * 8 };

/* How the sum over the rows of all images is cut: the same for all types, and on all GPUs, as in
 * conv.cu. */
struct row_parts {
	struct gt_conv_weight w;
	int64_t elements, rows; /* dw has `elements`, dy has `rows` */
	int64_t split, count;   /* rows of a part, parts */
};

static struct row_parts row_parts_of(const struct gt_call *call)
{
	const int64_t *y = call->in[1].shape;
	struct row_parts p = { gt_conv_weight_of(call, &call->out[0]),
		gt_tensor_elements(&call->out[0]), y[0] * y[2], 0, 0 };
	int64_t blocks = gt_ceil_div(p.elements, GROUPED_THREADS);

	p.w.stride = p.w.taps * p.w.channels;
	p.split = gt_ceil_div(p.rows, gt_ceil_div(GROUPED_BLOCKS, blocks ? blocks : 1));
	p.count = p.split ? gt_ceil_div(p.rows, p.split) : 0;
	return p;
}

/* Neighbouring threads have neighbouring outputs o. A row is added in the wide type, rows in
 * double. */
template <class T, class V>
static __global__ void add_rows(V *parts, const T *dy, gt_conv_windows<T> x, struct row_parts p)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t outputs = p.w.outputs * p.w.groups, o = i % outputs, side = i / outputs;
	int64_t c = o / p.w.outputs * p.w.channels + side % p.w.channels;
	int64_t end = (blockIdx.y + 1) * p.split < p.rows ? (blockIdx.y + 1) * p.split : p.rows;
	int tap = (int)(side / p.w.channels), v = tap % x.kernel[1] * x.step[1] + x.offset[1];
	double sum = 0;

	if (i >= p.elements)
		return;
	for (int64_t r = blockIdx.y * p.split; r < end; r++) {
		gt_conv_start from(x, r * x.pixel_width);
		int row = from.row + tap / x.kernel[1] * x.step[0];
		const T *image = x.image + (from.image + row) * x.width * x.channels + c;
		const T *d = dy + r * x.pixel_width * outputs + o;
		V of_row = 0;

		for (int j = 0; row >= 0 && row < x.height && j < x.pixel_width; j++) {
			int column = j * x.times[1] + v;

			if (column >= 0 && column < x.width)
				of_row += gt_load(d[j * outputs]) *
				          gt_load(image[(int64_t)column * x.channels]);
		}
		sum += of_row;
	}
	parts[(blockIdx.y * outputs + o) * p.w.stride + side] = (V)sum;
}

template <class T> static int run_conv2d_weight_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct row_parts p = row_parts_of(call);
	unsigned blocks = grouped_blocks(p.elements);

	if (p.count)
		GT_LAUNCH((add_rows<T, wide>), dim3(blocks, (unsigned)p.count), GROUPED_THREADS, 0,
		    call->stream->queue, (wide *)call->workspace, gt_in_data<T>(call, 1),
		    gt_conv_windows_of_x<T>(call, &call->in[0], &call->in[1]), p);
	GT_LAUNCH((gt_conv_add_parts<T, wide>), gt_conv_weight_blocks(p.elements),
	    GT_CONV_WEIGHT_THREADS, 0, call->stream->queue, gt_out_data<T>(call),
	    (const wide *)call->workspace, p.count, p.w);
	return gt_cuda_launched(call->stream, "conv2d_weight_grad", err);
}

static int prepare_conv2d_weight_grad(struct gt_call *call, struct gt_err *err)
{
	struct row_parts p = row_parts_of(call);

	call->launches = p.count ? 2 : 1;
	call->workspace_bytes =
	    (size_t)(p.count * p.elements) * (call->out[0].dtype == GT_F64 ? 8 : 4);
	return gt_conv_check_sizes(call, &call->out[0], err);
}

/* These kernels have no use for TF32. */
const struct gt_kernel gt_cuda_conv_grouped_kernels[] = {
	GT_CONV_ROWS(conv2d, float, gt_conv_accepts_images<true>),
	GT_CONV_ROWS(conv2d_input_grad, float, gt_conv_accepts_images<true>),
	GT_CONV_ROWS(conv2d_weight_grad, float, gt_conv_accepts_weight_grad<true>),
	{},
};
