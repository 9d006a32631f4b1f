/* pool.cu - max_pool2d, avg_pool2d and their gradients, on channels-last images. */
#include <type_traits>

#include "kernels/cuda/core/channels.cuh"

/* A thread has some neighbouring channels of an output; of an input in the gradients, which add up
 * the windows that it is in, in their order. Formulas: lib/graph/ops/pool.c. Places within an image
 * are int, which a GPU divides several times as fast as int64_t (fits_pool()). */
enum { POOL_THREADS = 256 };

/* The usual windows have instances of the kernels without the arithmetic of the others: those with
 * dilation, those that divide the image, and means of a part of the window. */
enum pool_form { POOL_PLAIN, POOL_GENERAL };

/* One dimension of a pooling. */
struct pool_axis {
	int kernel, stride, pad, dilation;
	int size, windows; /* size: rows or columns in the image */
};

struct pool {
	int64_t images;
	int channels;
	struct pool_axis rows, columns;
	bool divided, exclude_pad;
};

static struct pool_axis axis_of(const struct gt_call *call, int dim, int64_t size, int64_t windows)
{
	const struct gt_window *w = &call->attrs.pool.window;

	return { w->kernel[dim], w->stride[dim], w->pad[dim], w->dilation[dim], (int)size,
		(int)windows };
}

static struct pool pool_of(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	return { x->shape[0], (int)x->shape[1], axis_of(call, 0, x->shape[2], y->shape[2]),
		axis_of(call, 1, x->shape[3], y->shape[3]), call->attrs.pool.parts[0] > 0,
		call->attrs.pool.exclude_pad };
}

/*
 * The indices from `from` up to, not including, `to`. A window's first one may lie in the padding.
 * Example: rows 0 to 3, kernel 3, stride 2, padding 1.
 *
 *   span_of(0)       the window begins at -1: taps 1 and 2, which are rows 0 and 1
 *   span_of(1)       the window begins at 1: taps 0 to 2, rows 1 to 3
 *   cover_of(1, 1)   row 1 is in both windows: outputs 0 and 1
 *   cover_of(2, 3)   row 2 is in window 1, row 3 too: output 1
 *
 * Gradients go over cover_of() for each input, so each element of dx is written by one thread,
 * without atomics, and windows that overlap add up in one order.
 */
struct span {
	int start, from, to;
};

static __device__ __forceinline__ int64_t ceil_div(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* Which taps of a window lie inside of the image. `a` is the rows or the columns of p. */
template <pool_form FORM>
static __device__ __forceinline__ struct span span_of(
    int window, const struct pool &p, const struct pool_axis &a)
{
	int start = window * a.stride - a.pad, before = start < 0 ? -start : 0;
	int left = a.size - start;

	if (FORM == POOL_GENERAL && p.divided) {
		start = (int)((int64_t)window * a.size / a.windows);
		left = (int)ceil_div(((int64_t)window + 1) * a.size, a.windows) - start;
		return { start, 0, left };
	}
	if (FORM == POOL_GENERAL) {
		before = (before + a.dilation - 1) / a.dilation;
		left = (left + a.dilation - 1) / a.dilation;
	}
	return { start, before, a.kernel < left ? a.kernel : left };
}

/* Which outputs have a window that reaches over a row or column from `first` to `last`. */
template <pool_form FORM>
static __device__ __forceinline__ struct span cover_of(
    int first, int last, const struct pool &p, const struct pool_axis &a)
{
	unsigned start = (unsigned)(first + a.pad), stride = (unsigned)a.stride;
	unsigned reach =
	    (unsigned)(FORM == POOL_GENERAL ? (a.kernel - 1) * a.dilation + 1 : a.kernel);
	unsigned past = start < reach ? 0 : start - reach + stride;
	int from, to;

	if (FORM == POOL_GENERAL && p.divided) {
		from = (int)((int64_t)first * a.windows / a.size);
		to = (int)ceil_div(((int64_t)last + 1) * a.windows, a.size);
	} else {
		from = (int)(past / stride);
		to = (int)((unsigned)(last + a.pad) / stride) + 1;
	}
	return { (int)start, from, to < a.windows ? to : a.windows };
}

/* Where in a window a row or column is that cover_of() gave `start`. */
template <pool_form FORM>
static __device__ __forceinline__ int place_in(
    int window, int start, const struct pool &p, const struct pool_axis &a)
{
	if (FORM == POOL_GENERAL && p.divided)
		return start - (int)((int64_t)window * a.size / a.windows);
	return start - window * a.stride;
}

/* The number of elements that a mean is of: the rows, or the columns, of a window that count. */
template <pool_form FORM>
static __device__ __forceinline__ int count_taps(
    int window, const struct pool &p, const struct pool_axis &a)
{
	struct span s;
	int left;

	if (FORM == POOL_PLAIN)
		return a.kernel;
	s = span_of<FORM>(window, p, a);
	left = a.size + a.pad - s.start;
	if (p.divided || p.exclude_pad)
		return s.to - s.from;
	return a.kernel < left ? a.kernel : left;
}

/* The same of a whole window. */
template <pool_form FORM>
static __device__ __forceinline__ int64_t elements_of(int row, int column, const struct pool &p)
{
	return (int64_t)count_taps<FORM>(row, p, p.rows) * count_taps<FORM>(column, p, p.columns);
}

/* The pixel, or the patch of pixels, that a thread has in an image with this many of them, and the
 * first of its W channels. */
struct pool_place {
	int row, column, channel;
	bool exists;
};

template <int W>
static __device__ __forceinline__ struct pool_place pixel_place(
    const struct pool &p, int height, int width)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, each = (unsigned)p.channels / W;
	unsigned pixel = i / each, row = pixel / (unsigned)width;

	return { (int)row, (int)(pixel % (unsigned)width), (int)(i % each * W), (int)row < height };
}

/* Where the channels of a thread lie, for a pixel of images with `width` columns. */
static __device__ __forceinline__ int element_of(
    const struct pool &p, int width, int row, int column, int channel)
{
	return (row * width + column) * p.channels + channel;
}

static __device__ __forceinline__ int64_t in_image(const struct pool &p)
{
	return (int64_t)p.rows.size * p.columns.size * p.channels;
}

static __device__ __forceinline__ int64_t out_image(const struct pool &p)
{
	return (int64_t)p.rows.windows * p.columns.windows * p.channels;
}

/* Number of loads that run at the same time: taps of a row of a window, and windows of a patch. */
enum { TAPS_AT_ONCE = 3, WINDOWS_AT_ONCE = 2 };

/* The maximum so far, and which tap it is. */
template <class T, int W> struct pool_best {
	gt_writer<T, W> best;
	int taps[W];

	/* An element replaces a maximum that is less, and the first NaN replaces any number. */
	__device__ __forceinline__ void take(const gt_reader<T, W> &v, int tap)
	{
		for (int k = 0; k < W; k++)
			if (!(v.v[k] <= best.v[k]) && best.v[k] == best.v[k]) {
				best.v[k] = v.v[k];
				taps[k] = tap;
			}
	}

	__device__ __forceinline__ void store_taps(uint8_t *to) const
	{
		gt_pack<uint8_t, W> pack;

		for (int k = 0; k < W; k++)
			pack.at[k] = (uint8_t)taps[k];
		*(gt_pack<uint8_t, W> *)to = pack;
	}
};

/* With dilation a window may have no tap inside of the image: the maximum is then -inf. */
template <class T, int W, pool_form FORM>
static __global__ void max_pool(T *y, uint8_t *index, const T *x, struct pool p)
{
	typedef typename gt_wide<T>::type wide;
	struct pool_place at = pixel_place<W>(p, p.rows.windows, p.columns.windows);
	struct span h = span_of<FORM>(at.row, p, p.rows),
	            w = span_of<FORM>(at.column, p, p.columns);
	int to = element_of(p, p.columns.windows, at.row, at.column, at.channel);
	int down = FORM == POOL_GENERAL ? p.rows.dilation : 1;
	int across = FORM == POOL_GENERAL ? p.columns.dilation : 1;

	for (int64_t n = blockIdx.y; at.exists && n < p.images; n += gridDim.y) {
		pool_best<T, W> b = { { y + n * out_image(p), {} }, {} };

		for (int k = 0; k < W; k++) {
			b.best.v[k] = -(wide)INFINITY;
			b.taps[k] = h.from * p.columns.kernel + w.from;
		}
		for (int r = h.from; r < h.to; r++)
			for (int c = w.from; c < w.to; c += TAPS_AT_ONCE) {
				gt_reader<T, W> v[TAPS_AT_ONCE];

				for (int i = 0; i < TAPS_AT_ONCE; i++) {
					int column =
					    w.start + (c + i < w.to ? c + i : w.to - 1) * across;

					v[i].p = (T *)x + n * in_image(p);
					v[i].load(element_of(p, p.columns.size, h.start + r * down,
					    column, at.channel));
				}
				/* Past the end of the row, v[i] repeats the last tap. That changes
				 * nothing: the maximum is already at least as large, or NaN. */
				for (int i = 0; i < TAPS_AT_ONCE; i++)
					b.take(v[i], r * p.columns.kernel + c + i);
			}
		b.best.store(to);
		b.store_taps(index + n * out_image(p) + to);
	}
}

/*
 * A thread computes a patch of SIDE x SIDE pixels of dx. Overlapping windows contain several of
 * these pixels, and the thread reads each window once for all of them. Example: kernel 3, stride 2,
 * padding 1, so window 1 has rows 1 to 3, and window 2 has rows 3 to 5.
 *
 *   pixel (2, 2)   window (1, 1)
 *   pixel (2, 3)   windows (1, 1) and (1, 2)
 *   pixel (3, 2)   windows (1, 1) and (2, 1)
 *   pixel (3, 3)   windows (1, 1), (1, 2), (2, 1) and (2, 2)
 */
enum { SIDE = 2 };

static __device__ __forceinline__ int patches_of(int size)
{
	return (size + SIDE - 1) / SIDE;
}

/* For each of W channels, the tap that is the window's maximum: a byte each. If W is a multiple of
 * 4, four of them are read as one word, and is() compares one byte of the word with a tap. */
template <int W> struct pool_taps {
	typedef typename std::conditional<W % 4 == 0, uint32_t, uint8_t>::type word;
	enum { EACH = sizeof(word) };
	gt_pack<word, W / EACH> words;

	__device__ __forceinline__ void load(const uint8_t *from)
	{
		words = *(const gt_pack<word, W / EACH> *)from;
	}

	__device__ __forceinline__ bool is(int k, unsigned tap) const
	{
		word all = (word)(tap * 0x01010101u);

		return !((words.at[k / EACH] ^ all) & 0xffu << k % EACH * 8);
	}
};

template <class T, int W, pool_form FORM> struct pool_patch {
	gt_writer<T, W> dx[SIDE][SIDE];

	/* Add a window's gradients to the pixels that are its maxima. Pixel (0, 0) is at (row,
	 * column) of the window, or outside of it. With `height` 0 there is no window, else it is
	 * that of the kernel. */
	__device__ __forceinline__ void add(const gt_reader<T, W> &dy, const pool_taps<W> &taps,
	    int row, int column, unsigned height, const struct pool &p)
	{
		unsigned down = (unsigned)p.rows.dilation, across = (unsigned)p.columns.dilation;
		unsigned width = (unsigned)p.columns.kernel;

		for (int i = 0; i < SIDE; i++)
			for (int j = 0; j < SIDE; j++) {
				unsigned r = (unsigned)(row + i), c = (unsigned)(column + j);

				if (FORM == POOL_GENERAL) {
					if (row + i < 0 || column + j < 0 || r % down || c % across)
						continue;
					r /= down;
					c /= across;
				}
				if (r >= height || c >= width)
					continue;
				for (int k = 0; k < W; k++)
					if (taps.is(k, r * width + c))
						dx[i][j].v[k] += dy.v[k];
			}
	}

	/* `image` is that of dx. */
	__device__ __forceinline__ void store(
	    T *image, const struct pool &p, int row, int column, int channel)
	{
		for (int i = 0; i < SIDE; i++)
			for (int j = 0; j < SIDE; j++) {
				dx[i][j].p = image;
				if (row + i < p.rows.size && column + j < p.columns.size)
					dx[i][j].store(element_of(
					    p, p.columns.size, row + i, column + j, channel));
			}
	}
};

/* The 3 limits a thread's registers so that three blocks fit on a multiprocessor. Without it the
 * compiler uses more registers, and only two blocks fit. */
template <class T, int W, pool_form FORM>
static __global__ void __launch_bounds__(POOL_THREADS, 3)
    max_pool_grad(T *dx, const T *dy, const uint8_t *index, struct pool p)
{
	/* The compiler does not unroll loops of the general form, which is longer: arrays of two
	 * windows would be in memory. */
	enum { AT_ONCE = FORM == POOL_GENERAL ? 1 : WINDOWS_AT_ONCE };
	struct pool_place at =
	    pixel_place<W>(p, patches_of(p.rows.size), patches_of(p.columns.size));
	int row = at.row * SIDE, column = at.column * SIDE;
	struct span h = cover_of<FORM>(row, row + SIDE - 1, p, p.rows),
	            w = cover_of<FORM>(column, column + SIDE - 1, p, p.columns);

	for (int64_t n = blockIdx.y; at.exists && n < p.images; n += gridDim.y) {
		pool_patch<T, W, FORM> patch = {};

		for (int r = h.from; r < h.to; r++)
			for (int c = w.from; c < w.to; c += AT_ONCE) {
				gt_reader<T, W> v[AT_ONCE];
				pool_taps<W> taps[AT_ONCE];

				for (int i = 0; i < AT_ONCE; i++) {
					int from = element_of(p, p.columns.windows, r,
					    c + i < w.to ? c + i : w.to - 1, at.channel);

					v[i].p = (T *)dy + n * out_image(p);
					v[i].load(from);
					taps[i].load(index + n * out_image(p) + from);
				}
				for (int i = 0; i < AT_ONCE; i++)
					patch.add(v[i], taps[i],
					    place_in<FORM>(r, h.start, p, p.rows),
					    place_in<FORM>(c + i, w.start, p, p.columns),
					    c + i < w.to ? (unsigned)p.rows.kernel : 0, p);
			}
		patch.store(dx + n * in_image(p), p, row, column, at.channel);
	}
}

template <class T, int W, pool_form FORM>
static __global__ void avg_pool(T *y, const T *x, struct pool p)
{
	typedef typename gt_wide<T>::type wide;
	struct pool_place at = pixel_place<W>(p, p.rows.windows, p.columns.windows);
	struct span h = span_of<FORM>(at.row, p, p.rows),
	            w = span_of<FORM>(at.column, p, p.columns);
	int64_t count = elements_of<FORM>(at.row, at.column, p);

	for (int64_t n = blockIdx.y; at.exists && n < p.images; n += gridDim.y) {
		gt_reader<T, W> v = { (T *)x + n * in_image(p), {} };
		gt_writer<T, W> sum = { y + n * out_image(p), {} };

		for (int r = h.from; r < h.to; r++)
			for (int c = w.from; c < w.to; c++) {
				v.load(element_of(
				    p, p.columns.size, h.start + r, w.start + c, at.channel));
				for (int k = 0; k < W; k++)
					sum.v[k] += v.v[k];
			}
		for (int k = 0; k < W; k++)
			sum.v[k] /= (wide)count;
		sum.store(element_of(p, p.columns.windows, at.row, at.column, at.channel));
	}
}

template <class T, int W, pool_form FORM>
static __global__ void avg_pool_grad(T *dx, const T *dy, struct pool p)
{
	typedef typename gt_wide<T>::type wide;
	struct pool_place at = pixel_place<W>(p, p.rows.size, p.columns.size);
	struct span h = cover_of<FORM>(at.row, at.row, p, p.rows),
	            w = cover_of<FORM>(at.column, at.column, p, p.columns);

	for (int64_t n = blockIdx.y; at.exists && n < p.images; n += gridDim.y) {
		gt_reader<T, W> v = { (T *)dy + n * out_image(p), {} };
		gt_writer<T, W> sum = { dx + n * in_image(p), {} };

		for (int r = h.from; r < h.to; r++)
			for (int c = w.from; c < w.to; c++) {
				int64_t count = elements_of<FORM>(r, c, p);

				v.load(element_of(p, p.columns.windows, r, c, at.channel));
				for (int k = 0; k < W; k++)
					sum.v[k] += v.v[k] / (wide)count;
			}
		sum.store(element_of(p, p.columns.size, at.row, at.column, at.channel));
	}
}

/* ---- rows ---- */

/* A thread for each pack of channels of each pixel, or patch, of an image; blocks go on to further
 * images, as a grid has fewer of them in this dimension. */
template <int W> static dim3 grid_of(const struct pool &p, int64_t height, int64_t width)
{
	const int64_t most = 65535;

	return dim3((unsigned)gt_ceil_div(height * width * (p.channels / W), POOL_THREADS),
	    gt_min_blocks(p.images, most));
}

template <class T, int W, pool_form FORM> static void launch_max_pool(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->in[0], &call->out[0]);

	GT_LAUNCH((max_pool<T, W, FORM>), grid_of<W>(p, p.rows.windows, p.columns.windows),
	    POOL_THREADS, 0, call->stream->queue, gt_out_data<T>(call),
	    gt_out_data<uint8_t>(call, 1), gt_in_data<T>(call, 0), p);
}

template <class T, int W, pool_form FORM> static void launch_max_pool_grad(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->out[0], &call->in[0]);

	GT_LAUNCH((max_pool_grad<T, W, FORM>),
	    grid_of<W>(p, gt_ceil_div(p.rows.size, SIDE), gt_ceil_div(p.columns.size, SIDE)),
	    POOL_THREADS, 0, call->stream->queue, gt_out_data<T>(call), gt_in_data<T>(call, 0),
	    gt_in_data<uint8_t>(call, 1), p);
}

template <class T, int W, pool_form FORM> static void launch_avg_pool(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->in[0], &call->out[0]);

	GT_LAUNCH((avg_pool<T, W, FORM>), grid_of<W>(p, p.rows.windows, p.columns.windows),
	    POOL_THREADS, 0, call->stream->queue, gt_out_data<T>(call), gt_in_data<T>(call, 0), p);
}

template <class T, int W, pool_form FORM> static void launch_avg_pool_grad(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->out[0], &call->in[0]);

	GT_LAUNCH((avg_pool_grad<T, W, FORM>), grid_of<W>(p, p.rows.size, p.columns.size),
	    POOL_THREADS, 0, call->stream->queue, gt_out_data<T>(call), gt_in_data<T>(call, 0), p);
}

static bool is_general(const struct gt_call *call)
{
	const int *dilation = call->attrs.pool.window.dilation;

	return call->attrs.pool.parts[0] || call->attrs.pool.ceil_mode ||
	       call->attrs.pool.exclude_pad || dilation[0] != 1 || dilation[1] != 1;
}

/* run_NAME: packs of 16 bytes where the channels are whole ones. */
#define RUN_POOL(name, launch)                                                                     \
	template <class T, int W> static void launch_##name(struct gt_call *call)                  \
	{                                                                                          \
		if (is_general(call))                                                              \
			launch<T, W, POOL_GENERAL>(call);                                          \
		else                                                                               \
			launch<T, W, POOL_PLAIN>(call);                                            \
	}                                                                                          \
	template <class T> static int run_##name(struct gt_call *call, struct gt_err *err)         \
	{                                                                                          \
		if (!gt_tensor_elements(&call->out[0]))                                            \
			return 0;                                                                  \
		if (call->out[0].shape[1] % gt_pack_elements<T>() == 0)                            \
			launch_##name<T, gt_pack_elements<T>()>(call);                             \
		else                                                                               \
			launch_##name<T, 1>(call);                                                 \
		return gt_cuda_launched(call->stream, #name, err);                                 \
	}

RUN_POOL(max_pool2d, launch_max_pool)
RUN_POOL(max_pool2d_grad, launch_max_pool_grad)
RUN_POOL(avg_pool2d, launch_avg_pool)
RUN_POOL(avg_pool2d_grad, launch_avg_pool_grad)

/* Places within an image are int. A patch at its end, and a window, may reach past it. */
static bool fits_pool(const struct gt_call *call)
{
	const struct gt_tensor *ends[] = { &call->in[0], &call->out[0] };

	for (const struct gt_tensor *t : ends)
		if (t->shape[1] * (t->shape[2] + SIDE) * (t->shape[3] + SIDE) > INT32_MAX)
			return false;
	return gt_accepts_channels_last(call);
}

const struct gt_kernel gt_cuda_pool_kernels[] = {
	GT_ROWS(max_pool2d, fits_pool, nullptr),
	GT_ROWS(max_pool2d_grad, fits_pool, nullptr),
	GT_ROWS(avg_pool2d, fits_pool, nullptr),
	GT_ROWS(avg_pool2d_grad, fits_pool, nullptr),
	{},
};
