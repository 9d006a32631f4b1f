/* pool.cu - max_pool2d, avg_pool2d and their gradients, on channels-last images. */
#include "kernels/cuda/channels.cuh"

/* A thread has some neighbouring channels of an output; of an input in the gradients, which add up
 * the windows that it is in, in their order. Formulas: lib/graph/ops/ops.h. */
struct pool {
	int64_t channels, in_height, in_width, out_height, out_width;
	int kernel, stride, pad;
};

static struct pool pool_of(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	return { x->shape[1], x->shape[2], x->shape[3], y->shape[2], y->shape[3],
		call->attrs.pool.kernel, call->attrs.pool.stride, call->attrs.pool.pad };
}

/*
 * From `from` up to, not including, `to`; the first of a window may lie in the padding. Example:
 * rows 0 to 3, kernel 3, stride 2, padding 1.
 *
 *   span_of(0)    the window begins at -1: taps 1 and 2, which are rows 0 and 1
 *   span_of(1)    the window begins at 1: taps 0 to 2, rows 1 to 3
 *   cover_of(1)   row 1 is in both windows: outputs 0 and 1
 *
 * Gradients go over cover_of() for each input, so each element of dx is written by one thread,
 * without atomics, and windows that overlap add up in one order.
 */
struct span {
	int64_t start, from, to;
};

/* Which of a window's rows or columns lie inside of the image. */
static __device__ __forceinline__ struct span span_of(int64_t o, const struct pool &p, int64_t size)
{
	int64_t start = o * p.stride - p.pad;

	return { start, start < 0 ? -start : 0, p.kernel < size - start ? p.kernel : size - start };
}

/* Which outputs have a window with this row or column. */
static __device__ __forceinline__ struct span cover_of(
    int64_t i, const struct pool &p, int64_t outputs)
{
	int64_t start = i + p.pad, to = start / p.stride + 1;

	return { start, start < p.kernel ? 0 : (start - p.kernel) / p.stride + 1,
		to < outputs ? to : outputs };
}

/* The pixel that a thread has, of images of this size. */
struct pool_place {
	int64_t image, row, column;
};

static __device__ __forceinline__ struct pool_place place_of(
    int64_t i, int64_t height, int64_t width)
{
	return { i / width / height, i / width % height, i % width };
}

/* Which pack of channels a thread has; they are numbered pixel by pixel. */
static __device__ __forceinline__ int64_t pack_number()
{
	return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

template <class T, int W>
static __global__ void max_pool(T *y, uint8_t *index, const T *x, struct pool p, int64_t packs)
{
	typedef typename gt_wide<T>::type wide;
	int64_t i = pack_number(), each = p.channels / W;
	gt_reader<T, W> v = { (T *)x, {} };
	gt_writer<T, W> best = { y, {} };
	gt_pack<uint8_t, W> taps = {};
	bool first = true;

	if (i >= packs)
		return;
	struct pool_place at = place_of(i / each, p.out_height, p.out_width);
	struct span h = span_of(at.row, p, p.in_height), w = span_of(at.column, p, p.in_width);

	for (int64_t r = h.from; r < h.to; r++)
		for (int64_t c = w.from; c < w.to; c++) {
			int64_t row = at.image * p.in_height + h.start + r;

			v.load((row * p.in_width + w.start + c) * p.channels + i % each * W);
			for (int k = 0; k < W; k++) {
				wide was = best.v[k];

				/* Greater than the maximum so far, or the first NaN. */
				if (first || (!(v.v[k] <= was) && was == was)) {
					best.v[k] = v.v[k];
					taps.at[k] = (uint8_t)(r * p.kernel + c);
				}
			}
			first = false;
		}
	best.store(i * W);
	*(gt_pack<uint8_t, W> *)(index + i * W) = taps;
}

template <class T, int W>
static __global__ void max_pool_grad(
    T *dx, const T *dy, const uint8_t *index, struct pool p, int64_t packs)
{
	int64_t i = pack_number(), each = p.channels / W;
	gt_reader<T, W> v = { (T *)dy, {} };
	gt_writer<T, W> sum = { dx, {} };

	if (i >= packs)
		return;
	struct pool_place at = place_of(i / each, p.in_height, p.in_width);
	struct span h = cover_of(at.row, p, p.out_height), w = cover_of(at.column, p, p.out_width);

	for (int64_t r = h.from; r < h.to; r++)
		for (int64_t c = w.from; c < w.to; c++) {
			int64_t row = at.image * p.out_height + r;
			int64_t from = (row * p.out_width + c) * p.channels + i % each * W;
			int64_t tap = (h.start - r * p.stride) * p.kernel + w.start - c * p.stride;
			gt_pack<uint8_t, W> taps = *(const gt_pack<uint8_t, W> *)(index + from);

			v.load(from);
			for (int k = 0; k < W; k++)
				if (taps.at[k] == tap)
					sum.v[k] += v.v[k];
		}
	sum.store(i * W);
}

template <class T, int W>
static __global__ void avg_pool(T *y, const T *x, struct pool p, int64_t packs)
{
	typedef typename gt_wide<T>::type wide;
	int64_t i = pack_number(), each = p.channels / W;
	gt_reader<T, W> v = { (T *)x, {} };
	gt_writer<T, W> sum = { y, {} };

	if (i >= packs)
		return;
	struct pool_place at = place_of(i / each, p.out_height, p.out_width);
	struct span h = span_of(at.row, p, p.in_height), w = span_of(at.column, p, p.in_width);

	for (int64_t r = h.from; r < h.to; r++)
		for (int64_t c = w.from; c < w.to; c++) {
			int64_t row = at.image * p.in_height + h.start + r;

			v.load((row * p.in_width + w.start + c) * p.channels + i % each * W);
			for (int k = 0; k < W; k++)
				sum.v[k] += v.v[k];
		}
	for (int k = 0; k < W; k++)
		sum.v[k] /= (wide)(p.kernel * p.kernel);
	sum.store(i * W);
}

template <class T, int W>
static __global__ void avg_pool_grad(T *dx, const T *dy, struct pool p, int64_t packs)
{
	typedef typename gt_wide<T>::type wide;
	int64_t i = pack_number(), each = p.channels / W;
	gt_reader<T, W> v = { (T *)dy, {} };
	gt_writer<T, W> sum = { dx, {} };

	if (i >= packs)
		return;
	struct pool_place at = place_of(i / each, p.in_height, p.in_width);
	struct span h = cover_of(at.row, p, p.out_height), w = cover_of(at.column, p, p.out_width);

	for (int64_t r = h.from; r < h.to; r++)
		for (int64_t c = w.from; c < w.to; c++) {
			int64_t row = at.image * p.out_height + r;

			v.load((row * p.out_width + c) * p.channels + i % each * W);
			for (int k = 0; k < W; k++)
				sum.v[k] += v.v[k] / (wide)(p.kernel * p.kernel);
		}
	sum.store(i * W);
}

/* ---- rows ---- */

enum { POOL_THREADS = 256 };

static unsigned blocks_of(int64_t packs)
{
	return (unsigned)gt_ceil_div(packs, POOL_THREADS);
}

template <class T, int W> static void launch_max_pool(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->in[0], &call->out[0]);
	int64_t packs = gt_tensor_elements(&call->out[0]) / W;

	GT_LAUNCH((max_pool<T, W>), blocks_of(packs), POOL_THREADS, 0, call->stream->queue,
	    gt_out_data<T>(call), gt_out_data<uint8_t>(call, 1), gt_in_data<T>(call, 0), p, packs);
}

template <class T, int W> static void launch_max_pool_grad(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->out[0], &call->in[0]);
	int64_t packs = gt_tensor_elements(&call->out[0]) / W;

	GT_LAUNCH((max_pool_grad<T, W>), blocks_of(packs), POOL_THREADS, 0, call->stream->queue,
	    gt_out_data<T>(call), gt_in_data<T>(call, 0), gt_in_data<uint8_t>(call, 1), p, packs);
}

template <class T, int W> static void launch_avg_pool(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->in[0], &call->out[0]);
	int64_t packs = gt_tensor_elements(&call->out[0]) / W;

	GT_LAUNCH((avg_pool<T, W>), blocks_of(packs), POOL_THREADS, 0, call->stream->queue,
	    gt_out_data<T>(call), gt_in_data<T>(call, 0), p, packs);
}

template <class T, int W> static void launch_avg_pool_grad(struct gt_call *call)
{
	struct pool p = pool_of(call, &call->out[0], &call->in[0]);
	int64_t packs = gt_tensor_elements(&call->out[0]) / W;

	GT_LAUNCH((avg_pool_grad<T, W>), blocks_of(packs), POOL_THREADS, 0, call->stream->queue,
	    gt_out_data<T>(call), gt_in_data<T>(call, 0), p, packs);
}

/* run_NAME: packs of 16 bytes where the channels are whole ones. */
#define RUN_POOL(name, launch)                                                                     \
	template <class T> static int run_##name(struct gt_call *call, struct gt_err *err)         \
	{                                                                                          \
		if (!gt_tensor_elements(&call->out[0]))                                            \
			return 0;                                                                  \
		if (call->out[0].shape[1] % gt_pack_elements<T>() == 0)                            \
			launch<T, gt_pack_elements<T>()>(call);                                    \
		else                                                                               \
			launch<T, 1>(call);                                                        \
		return gt_cuda_launched(call->stream, #name, err);                                 \
	}

RUN_POOL(max_pool2d, launch_max_pool)
RUN_POOL(max_pool2d_grad, launch_max_pool_grad)
RUN_POOL(avg_pool2d, launch_avg_pool)
RUN_POOL(avg_pool2d_grad, launch_avg_pool_grad)

const struct gt_kernel gt_cuda_pool_kernels[] = {
	GT_ROWS(max_pool2d, gt_accepts_channels_last, nullptr),
	GT_ROWS(max_pool2d_grad, gt_accepts_channels_last, nullptr),
	GT_ROWS(avg_pool2d, gt_accepts_channels_last, nullptr),
	GT_ROWS(avg_pool2d_grad, gt_accepts_channels_last, nullptr),
	{},
};
