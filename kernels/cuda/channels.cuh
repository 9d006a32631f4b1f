/* channels.cuh - helpers for kernels that work on image channels: launches, sums, layouts. */
#ifndef GT_KERNELS_CUDA_CHANNELS_CUH
#define GT_KERNELS_CUDA_CHANNELS_CUH

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.cuh"

/*
 * Images are channels-last: in memory they are a matrix with a row for each pixel and a column for
 * each channel. The formulas of the ops are in lib/graph/ops/ops.h.
 *
 * Sums take two kernels. In the first kernel, the rows are divided into chunks, and a thread sums a
 * few neighbouring columns of one chunk at a time. The thread sums GT_SOME_ROWS rows at a time in
 * the wide type of the elements (gt_wide), and adds these sums in double. In the second kernel,
 * GT_FINISH_THREADS threads add the sums of all chunks of one column. The chunks and the order of
 * additions do not depend on the type of the elements. So if 16-bit elements and float32 elements
 * have the same values, the 16-bit result is the float32 result, rounded.
 *
 * columns.cuh also sums columns, but its second kernel has only one thread per column. That is slow
 * for millions of pixels with few channels.
 */
enum {
	GT_SOME_ROWS = 64,         /* rows that are summed in the wide type before double */
	GT_CHANNEL_CHUNKS = 4096,  /* largest number of chunks */
	GT_CHANNEL_SUMS = 1 << 19, /* approximate limit of chunks * columns */
	/* for launches with gt_channel_shape_of() */
	GT_CHANNEL_THREADS = 256, /* threads per block */
	GT_CHANNEL_COLUMNS = 64,  /* largest x dimension of a block */
	GT_CHANNEL_STRIPS = 1024, /* largest y dimension of the grid */
	/* for blocks of the second kernel */
	GT_FINISH_COLUMNS = 8, /* x dimension: columns */
	GT_FINISH_THREADS = 32 /* y dimension: threads per column */
};

/* gt_reader reads, and gt_writer writes, W neighbouring elements of a row at once (gt_map_buffer in
 * map.cuh). */
template <class T, int W>
using gt_reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W>
using gt_writer = typename gt_map_buffer<T, false, true>::template lanes<W>;

/* The matrix of an image tensor, and its division into chunks of rows. */
struct gt_channels {
	int64_t rows, cols;
	/* `length` is the number of rows per chunk; the last chunk may have fewer. `chunks` is the
	 * number of chunks. */
	int64_t length, chunks;

	/* Three functions about chunk k: begin() returns its first row, end() returns the row after
	 * its last row, and rows_of() returns its number of rows. */
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

/* The work of the calling thread in a launch with gt_channel_shape_of(). gt_first_column() returns
 * the first of its W columns. gt_first_row() returns its first row or chunk, and gt_row_step()
 * returns the distance from each row or chunk of the thread to the next one. */
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
 * element per thread. The caller may use this memory again after the call. */
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

/* Return the number of elements of type T in 16 bytes. If the number of columns is a multiple of
 * this number, each thread works on this many columns. Otherwise each thread works on one
 * column. */
template <class T> constexpr int gt_pack_elements()
{
	return 16 / (int)sizeof(T);
}

/* Return the size, in bytes, of a workspace with two double sums for each column of each chunk. */
static inline size_t gt_channel_sums_bytes(const struct gt_channels *m)
{
	return (size_t)(2 * m->chunks * m->cols) * sizeof(double);
}

/* Return whether `t` is channels-last. Also return true if `t` is absent or not an image. */
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
