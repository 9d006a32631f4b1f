/* channels.cuh - sums over the pixels of images for each channel, and other work by channel. */
#ifndef GT_KERNELS_CUDA_CHANNELS_CUH
#define GT_KERNELS_CUDA_CHANNELS_CUH

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.cuh"

/*
 * Images lie channels-last: a matrix with a column for each channel. Formulas: lib/graph/ops/ops.h.
 *
 * A thread sums some neighbouring columns of one chunk of rows. It adds GT_SOME_ROWS rows at a time
 * in the type in which kernels compute, and adds these sums in double. Then GT_FINISH_THREADS
 * threads add the chunks of each column. Order and chunks do not depend on the type, so a result of
 * 16 bits is the float32 result, rounded. columns.cuh uses one thread per column for the last step,
 * which is slow for millions of pixels with few channels.
 */
enum {
	GT_SOME_ROWS = 64,
	GT_CHANNEL_CHUNKS = 4096,
	GT_CHANNEL_SUMS = 1 << 19, /* chunks times columns */
	GT_CHANNEL_THREADS = 256,
	GT_CHANNEL_COLUMNS = 64, /* most columns of threads in a block */
	GT_CHANNEL_STRIPS = 1024,
	GT_FINISH_COLUMNS = 8,
	GT_FINISH_THREADS = 32
};

template <class T, int W>
using gt_reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W>
using gt_writer = typename gt_map_buffer<T, false, true>::template lanes<W>;

struct gt_channels {
	int64_t rows, cols;
	int64_t length, chunks; /* rows per chunk (the last may have fewer); number of chunks */

	__device__ int64_t begin(int64_t k) const
	{
		return k * length;
	}

	__device__ int64_t end(int64_t k) const
	{
		return (k + 1) * length < rows ? (k + 1) * length : rows;
	}

	__device__ double rows_of(int64_t k) const
	{
		return (double)(end(k) - begin(k));
	}
};

static inline int64_t gt_parts(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

static inline struct gt_channels gt_channels_of(const struct gt_tensor *x)
{
	struct gt_channels m = {};
	int64_t most;

	m.cols = x->shape[1];
	if (!m.cols || !gt_tensor_elements(x))
		return m;
	m.rows = gt_tensor_elements(x) / m.cols;
	most = gt_at_most(GT_CHANNEL_SUMS / m.cols + 1, GT_CHANNEL_CHUNKS);
	m.length = gt_parts(gt_parts(m.rows, most), GT_SOME_ROWS) * GT_SOME_ROWS;
	m.chunks = gt_parts(m.rows, m.length);
	return m;
}

/* The shape of a launch for n rows or chunks, with W columns per thread. */
struct gt_channel_shape {
	dim3 grid, block;
};

template <int W>
static struct gt_channel_shape gt_channel_shape_of(const struct gt_channels *m, int64_t n)
{
	int64_t packs = gt_parts(m->cols, W);
	unsigned x = 1;

	while (x < packs && x < GT_CHANNEL_COLUMNS)
		x *= 2;
	return { dim3((unsigned)gt_parts(packs, x),
		     gt_at_most(gt_parts(n, GT_CHANNEL_THREADS / x), GT_CHANNEL_STRIPS)),
		dim3(x, GT_CHANNEL_THREADS / x) };
}

/* The first column, and the first row or chunk, of the calling thread. */
template <int W> static __device__ __forceinline__ int64_t gt_first_column()
{
	return ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * W;
}

static __device__ __forceinline__ int64_t gt_first_row()
{
	return (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
}

static __device__ __forceinline__ int64_t gt_row_step()
{
	return (int64_t)gridDim.y * blockDim.y;
}

/* The sum of f(chunk) for the column of this thread; `shared` has an element for each thread. */
template <class F> static __device__ double gt_sum_over_chunks(double *shared, int64_t chunks, F f)
{
	double sum = 0;

	for (int64_t k = threadIdx.y; k < chunks; k += GT_FINISH_THREADS)
		sum += f(k);
	shared[threadIdx.y * GT_FINISH_COLUMNS + threadIdx.x] = sum;
	__syncthreads();
	sum = 0;
	for (int i = 0; i < GT_FINISH_THREADS; i++)
		sum += shared[i * GT_FINISH_COLUMNS + threadIdx.x];
	__syncthreads();
	return sum;
}

/* Columns per thread if each row is a whole number of 16-byte packs; otherwise it is 1. */
template <class T> constexpr int gt_pack_of()
{
	return 16 / (int)sizeof(T);
}

static inline size_t gt_channel_sums_bytes(const struct gt_channels *m)
{
	return (size_t)(2 * m->chunks * m->cols) * sizeof(double);
}

static inline bool gt_is_channels_last(const struct gt_tensor *t)
{
	return !t->present || t->ndim != 4 || t->layout == GT_CHANNELS_LAST;
}

/* Whether all images of a call lie channels-last. */
static inline bool gt_accepts_channels_last(const struct gt_call *call)
{
	for (int i = 0; i < call->inputs; i++)
		if (!gt_is_channels_last(&call->in[i]))
			return false;
	for (int i = 0; i < call->outputs; i++)
		if (!gt_is_channels_last(&call->out[i]))
			return false;
	return true;
}

#endif
