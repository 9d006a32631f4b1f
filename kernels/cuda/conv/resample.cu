/* resample.cu - images of another size, and the gradient, on channels-last images. */
#include "kernels/cuda/core/channels.cuh"

/* A thread has some neighbouring channels of a pixel that is written. In the gradient, it adds the
 * shares of all pixels that read its own, in their order, so there are no atomics. Formulas:
 * lib/graph/ops/resample.c. Places within an image are int (fits_resample()). */
enum { RESAMPLE_THREADS = 256 };

/* Rows or columns: `in` of the images that the forward op reads, `out` of its result. */
struct resample_axis {
	int in, out;
	float scale;
};

struct resample {
	int64_t images;
	int channels;
	bool linear, align;
	struct resample_axis rows, columns;
};

static struct resample_axis axis_of(
    const struct gt_call *call, int dim, const struct gt_tensor *x, const struct gt_tensor *y)
{
	return { (int)x->shape[2 + dim], (int)y->shape[2 + dim], call->attrs.resample.scale[dim] };
}

/* x is the forward op's input, or its gradient; y its output, or that one's. */
static struct resample resample_of(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	return { x->shape[0], (int)x->shape[1], call->attrs.resample.linear,
		call->attrs.resample.align, axis_of(call, 0, x, y), axis_of(call, 1, x, y) };
}

/* Row or column i of the result is (1 - weight) times place `from` + weight times place `to`.
 * Products in double are exact, so that they do not depend on multiply-adds; the nearest place is
 * of a product in float32. */
struct resample_tap {
	int from, to;
	double weight;

	/* The share of the tap that place `at` has. */
	__device__ __forceinline__ double share(int at) const
	{
		return (from == at ? 1 - weight : 0) + (to == at ? weight : 0);
	}
};

static __device__ __forceinline__ int at_most(int i, int most)
{
	return i < most ? i : most;
}

static __device__ __forceinline__ struct resample_tap tap_at(
    const struct resample &r, const struct resample_axis &a, int i)
{
	struct resample_tap t = {};
	double at = (double)a.scale * i;

	if (!r.linear) {
		t.from = at_most((int)floorf(a.scale * (float)i), a.in - 1);
		t.to = t.from;
		return t;
	}
	if (!r.align)
		at = fmax((double)a.scale * (i + 0.5) - 0.5, 0.0);
	t.from = at_most((int)at, a.in - 1);
	t.to = at_most(t.from + 1, a.in - 1);
	t.weight = fmin(at - t.from, 1.0);
	return t;
}

/* The taps [from, to), among which are all that read place `at`: those that come from a place
 * between at - 1 and at + 1, and one more on each side for rounding. */
struct resample_span {
	int from, to;
};

static __device__ __forceinline__ struct resample_span readers_of(
    const struct resample &r, const struct resample_axis &a, int at)
{
	float centre = r.linear && !r.align ? 0.5f : 0;
	int low = r.linear ? at - 1 : at;
	struct resample_span s = { 0, a.out };

	if (a.scale > 0 && low > 0)
		s.from = (int)floorf(((float)low + centre) / a.scale - centre) - 1;
	if (s.from < 0)
		s.from = 0;
	if (a.scale > 0 && at + 1 < a.in)
		s.to =
		    at_most((int)ceilf(fminf(((float)at + 1 + centre) / a.scale, 1e9f)) + 2, a.out);
	return s;
}

/* The pixel of a thread in an image with `height` x `width` of them, and its first channel. */
struct resample_place {
	int row, column, channel;
	bool exists;
};

template <int W>
static __device__ __forceinline__ struct resample_place resample_place_of(
    const struct resample &r, int height, int width)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, each = (unsigned)r.channels / W;
	unsigned pixel = i / each, row = pixel / (unsigned)width;

	return { (int)row, (int)(pixel % (unsigned)width), (int)(i % each * W), (int)row < height };
}

static __device__ __forceinline__ int64_t image_size(
    const struct resample &r, int height, int width)
{
	return (int64_t)height * width * r.channels;
}

template <class T, int W>
static __global__ void resample_pixels(T *y, const T *x, struct resample r)
{
	typedef typename gt_wide<T>::type wide;
	struct resample_place at = resample_place_of<W>(r, r.rows.out, r.columns.out);
	struct resample_tap h = tap_at(r, r.rows, at.row), w = tap_at(r, r.columns, at.column);
	int top = h.from * r.columns.in, bottom = h.to * r.columns.in;
	wide down = (wide)h.weight, across = (wide)w.weight;

	for (int64_t n = blockIdx.y; at.exists && n < r.images; n += gridDim.y) {
		const T *image = x + n * image_size(r, r.rows.in, r.columns.in);
		gt_reader<T, W> v[4] = { { (T *)image, {} }, { (T *)image, {} }, { (T *)image, {} },
			{ (T *)image, {} } };
		gt_writer<T, W> to = { y + n * image_size(r, r.rows.out, r.columns.out), {} };

		v[0].load((int64_t)(top + w.from) * r.channels + at.channel);
		if (r.linear) {
			v[1].load((int64_t)(top + w.to) * r.channels + at.channel);
			v[2].load((int64_t)(bottom + w.from) * r.channels + at.channel);
			v[3].load((int64_t)(bottom + w.to) * r.channels + at.channel);
		}
		for (int k = 0; k < W; k++) {
			wide a = (1 - across) * v[0].v[k] + across * v[1].v[k];
			wide b = (1 - across) * v[2].v[k] + across * v[3].v[k];

			to.v[k] = r.linear ? (1 - down) * a + down * b : v[0].v[k];
		}
		to.store(((int64_t)at.row * r.columns.out + at.column) * r.channels + at.channel);
	}
}

template <class T, int W>
static __global__ void resample_pixels_grad(T *dx, const T *dy, struct resample r)
{
	typedef typename gt_wide<T>::type wide;
	struct resample_place at = resample_place_of<W>(r, r.rows.in, r.columns.in);
	struct resample_span h = readers_of(r, r.rows, at.row),
	                     w = readers_of(r, r.columns, at.column);

	for (int64_t n = blockIdx.y; at.exists && n < r.images; n += gridDim.y) {
		gt_reader<T, W> v = { (T *)dy + n * image_size(r, r.rows.out, r.columns.out), {} };
		gt_writer<T, W> sum = { dx + n * image_size(r, r.rows.in, r.columns.in), {} };

		for (int i = h.from; i < h.to; i++) {
			wide down = (wide)tap_at(r, r.rows, i).share(at.row);

			for (int j = w.from; down != 0 && j < w.to; j++) {
				wide across = (wide)tap_at(r, r.columns, j).share(at.column);

				if (across == 0)
					continue;
				v.load(((int64_t)i * r.columns.out + j) * r.channels + at.channel);
				for (int k = 0; k < W; k++)
					sum.v[k] += down * across * v.v[k];
			}
		}
		sum.store(((int64_t)at.row * r.columns.in + at.column) * r.channels + at.channel);
	}
}

/* ---- rows ---- */

template <int W> static dim3 grid_of(const struct resample &r, int64_t height, int64_t width)
{
	const int64_t most = 65535; /* blocks in this dimension of a grid */

	return dim3((unsigned)gt_ceil_div(height * width * (r.channels / W), RESAMPLE_THREADS),
	    gt_min_blocks(r.images, most));
}

template <class T, int W> static void launch_resample(struct gt_call *call)
{
	struct resample r = resample_of(call, &call->in[0], &call->out[0]);

	GT_LAUNCH((resample_pixels<T, W>), grid_of<W>(r, r.rows.out, r.columns.out),
	    RESAMPLE_THREADS, 0, call->stream->queue, gt_out_data<T>(call), gt_in_data<T>(call, 0),
	    r);
}

template <class T, int W> static void launch_resample_grad(struct gt_call *call)
{
	struct resample r = resample_of(call, &call->out[0], &call->in[0]);

	GT_LAUNCH((resample_pixels_grad<T, W>), grid_of<W>(r, r.rows.in, r.columns.in),
	    RESAMPLE_THREADS, 0, call->stream->queue, gt_out_data<T>(call), gt_in_data<T>(call, 0),
	    r);
}

/* run_NAME: packs of 16 bytes where the channels are whole ones. */
#define RUN_RESAMPLE(name)                                                                         \
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

RUN_RESAMPLE(resample)
RUN_RESAMPLE(resample_grad)

static bool fits_resample(const struct gt_call *call)
{
	const struct gt_tensor *ends[] = { &call->in[0], &call->out[0] };

	for (const struct gt_tensor *t : ends)
		if (t->shape[1] * t->shape[2] * t->shape[3] > INT32_MAX)
			return false;
	return gt_accepts_channels_last(call);
}

const struct gt_kernel gt_cuda_resample_kernels[] = {
	GT_ROWS(resample, fits_resample, nullptr),
	GT_ROWS(resample_grad, fits_resample, nullptr),
	{},
};
