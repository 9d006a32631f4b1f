/* channels.cuh - sums over the pixels of images for each channel, and other work by channel. */
#ifndef GT_KERNELS_CUDA_CHANNELS_CUH
#define GT_KERNELS_CUDA_CHANNELS_CUH

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.cuh"

/*
 * Images are channels-last: in memory they are a matrix with a row for each pixel and a column for
 * each channel. Formulas: lib/graph/ops/ops.h.
 *
 * Sums take two kernels. In the first kernel, the rows are divided into chunks, and a thread sums a
 * few neighbouring columns of one chunk at a time. The thread sums GT_SOME_ROWS rows at a time in
 * the wide type of the elements (gt_wide), and adds these sums in double. In the second kernel,
 * GT_FINISH_THREADS threads add the sums of all chunks of one column. The chunks and the order of
 * additions do not depend on the type. So a 16-bit result is the float32 result, rounded.
 *
 * columns.cuh does the same with one thread per column in the second kernel. That is slow for
 * millions of pixels with few channels.
 */
enum {
	GT_SOME_ROWS = 64,         /* rows that are summed in the wide type before double */
	GT_CHANNEL_CHUNKS = 4096,  /* largest number of chunks */
	GT_CHANNEL_SUMS = 1 << 19, /* approximate limit of chunks * columns */
	/* of launches with gt_channel_shape_of(): threads per block, largest x dimension of a
	 * block, largest y dimension of the grid */
	GT_CHANNEL_THREADS = 256,
	GT_CHANNEL_COLUMNS = 64,
	GT_CHANNEL_STRIPS = 1024,
	/* a block of the second kernel: columns (x dimension), threads per column (y dimension) */
	GT_FINISH_COLUMNS = 8,
	GT_FINISH_THREADS = 32
};

/* Types that read, or write, W neighbouring elements of a row at once (gt_map_buffer, map.cuh). */
template <class T, int W>
using gt_reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W>
using gt_writer = typename gt_map_buffer<T, false, true>::template lanes<W>;

/* The matrix of an image tensor, and its division into chunks of rows. */
struct gt_channels {
	int64_t rows, cols;
	/* length: rows per chunk (the last chunk may have fewer); chunks: number of chunks */
	int64_t length, chunks;

	/* For chunk k, return its first row, the row after its last row, or its number of rows. */
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

/* Return n / size, rounded up. */
static inline int64_t gt_ceil_div(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* Return the matrix of x [N, C, H, W] and its chunks. If x has no elements, all fields except cols
 * are 0. */
static inline struct gt_channels gt_channels_of(const struct gt_tensor *x)
{
	struct gt_channels m = {};
	int64_t max;

	m.cols = x->shape[1];
	if (!m.cols || !gt_tensor_elements(x))
		return m;
	m.rows = gt_tensor_elements(x) / m.cols;
	max = gt_min_blocks(GT_CHANNEL_SUMS / m.cols + 1, GT_CHANNEL_CHUNKS);
	m.length = gt_ceil_div(gt_ceil_div(m.rows, max), GT_SOME_ROWS) * GT_SOME_ROWS;
	m.chunks = gt_ceil_div(m.rows, m.length);
	return m;
}

/* The grid and block of a launch. */
struct gt_channel_shape {
	dim3 grid, block;
};

/* Return the shape of a launch that works on n rows or n chunks, with W columns per thread. */
template <int W>
static struct gt_channel_shape gt_channel_shape_of(const struct gt_channels *m, int64_t n)
{
	int64_t packs = gt_ceil_div(m->cols, W);
	unsigned x = 1;

	while (x < packs && x < GT_CHANNEL_COLUMNS)
		x *= 2;
	return { dim3((unsigned)gt_ceil_div(packs, x),
		     gt_min_blocks(gt_ceil_div(n, GT_CHANNEL_THREADS / x), GT_CHANNEL_STRIPS)),
		dim3(x, GT_CHANNEL_THREADS / x) };
}

/* Return the first column, and the first row or chunk, of the calling thread. Each next row or
 * chunk of the thread is gt_row_step() further. */
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

/* Return the sum of f(chunk) over all chunks, for the column of this thread. All threads of a block
 * [GT_FINISH_COLUMNS, GT_FINISH_THREADS] call this together. `shared` is shared memory with one
 * element per thread; it can be used again afterwards. */
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

/* Return the number of elements in 16 bytes. A thread works on this many columns if the number
 * of columns is a multiple of it; otherwise a thread works on one column. */
template <class T> constexpr int gt_pack_elements()
{
	return 16 / (int)sizeof(T);
}

/* Return the bytes of workspace for two sums in double per chunk and column. */
static inline size_t gt_channel_sums_bytes(const struct gt_channels *m)
{
	return (size_t)(2 * m->chunks * m->cols) * sizeof(double);
}

/* Return whether t is channels-last. True also for a tensor that is absent or not an image. */
static inline bool gt_is_channels_last(const struct gt_tensor *t)
{
	return !t->present || t->ndim != 4 || t->layout == GT_CHANNELS_LAST;
}

/* Return whether all images of a call are channels-last. */
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
