/* conv_verify.cu - data for the trial of a convolution, and the distance of two results. */
#include "kernels/cuda/conv/conv_ways.h"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"

/* A block adds EACH elements. A tensor with more than BLOCKS * EACH elements has BLOCKS blocks,
 * which add more elements each. */
enum { BLOCKS = GT_CONV_SUMS / 2, THREADS = 128, EACH = 2048 };

static const char task[] = "timing a convolution";

/* ---- data ---- */

/* Numbers from -1 to 1: the upper bits of a multiplicative hash of the index (Knuth, The Art of
 * Computer Programming, volume 3, section 6.4). */
struct trial_data_f {
	uint32_t seed;

	__device__ bool begin()
	{
		return true;
	}

	template <class W> __device__ void operator()(W &x, int64_t i)
	{
		uint32_t hash = ((uint32_t)i + seed * 0x85ebca6bu) * 2654435761u;

		hash = (hash ^ hash >> 15) * 2654435761u;
		x = (W)(hash >> 8) * (W)0x1p-23 - 1;
	}
};

template <class T>
static int fill_trial_tensor(
    struct gt_stream *stream, const struct gt_tensor *t, uint32_t seed, struct gt_err *err)
{
	trial_data_f f = { seed };

	return gt_map(
	    stream, task, gt_tensor_elements(t), f, err, gt_out((T *)t->data), gt_index());
}

int gt_conv_fill(
    struct gt_stream *stream, const struct gt_tensor *t, uint32_t seed, struct gt_err *err)
{
	if (t->dtype == GT_F32)
		return fill_trial_tensor<float>(stream, t, seed, err);
	if (t->dtype == GT_BF16)
		return fill_trial_tensor<gt_bf16>(stream, t, seed, err);
	return fill_trial_tensor<gt_f16>(stream, t, seed, err);
}

/* ---- distance ---- */

/* sums[0] and sums[1] of each block: of (x - y)^2 and of y^2. */
template <class T> struct distance_args {
	const T *x, *y;
	int64_t count;
	double *sums;
};

template <class T> static __global__ void __launch_bounds__(THREADS) add_up(distance_args<T> a)
{
	GT_SHARED(double, shared, 32);
	double apart = 0, size = 0;

	for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.count;
	     i += (int64_t)gridDim.x * THREADS) {
		double x = gt_load(a.x[i]), y = gt_load(a.y[i]);

		apart += (x - y) * (x - y);
		size += y * y;
	}
	apart = gt_block_sum(apart, shared);
	size = gt_block_sum(size, shared);
	if (threadIdx.x == 0) {
		a.sums[2 * blockIdx.x] = apart;
		a.sums[2 * blockIdx.x + 1] = size;
	}
}

static unsigned blocks_for(const struct gt_tensor *x)
{
	return gt_min_blocks((gt_tensor_elements(x) + EACH - 1) / EACH, BLOCKS);
}

template <class T>
static int queue_distance(struct gt_stream *stream, const struct gt_tensor *x, const void *y,
    double *sums, struct gt_err *err)
{
	distance_args<T> a = { (const T *)x->data, (const T *)y, gt_tensor_elements(x), sums };

	GT_LAUNCH((add_up<T>), blocks_for(x), THREADS, 0, stream->queue, a);
	return gt_cuda_launched(stream, task, err);
}

int gt_conv_distance(struct gt_stream *stream, const struct gt_tensor *x, const void *y,
    double *sums, double *distance, struct gt_err *err)
{
	double of_blocks[GT_CONV_SUMS], apart = 0, size = 0;
	cudaError_t e;
	int rc = x->dtype == GT_F32    ? queue_distance<float>(stream, x, y, sums, err)
	         : x->dtype == GT_BF16 ? queue_distance<gt_bf16>(stream, x, y, sums, err)
	                               : queue_distance<gt_f16>(stream, x, y, sums, err);

	if (rc)
		return rc;
	e = cudaMemcpyAsync(
	    of_blocks, sums, sizeof(of_blocks), cudaMemcpyDeviceToHost, stream->queue);
	if (!e)
		e = cudaStreamSynchronize(stream->queue);
	for (unsigned i = 0; i < blocks_for(x) && !e; i++) {
		apart += of_blocks[2 * i];
		size += of_blocks[2 * i + 1];
	}
	*distance = sqrt(apart / size);
	return gt_cuda_check(e, stream->index, task, err);
}
