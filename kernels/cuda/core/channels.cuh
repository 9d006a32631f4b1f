/* channels.cuh - helpers for kernels that work on image channels: launches, sums, layouts. */
#ifndef GT_KERNELS_CUDA_CORE_CHANNELS_CUH
#define GT_KERNELS_CUDA_CORE_CHANNELS_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * Images are channels-last: in memory they are a matrix with a row for each pixel and a column for
 * each channel. The formulas of the ops are in lib/graph/ops/ops.h.
 *
 * Each column has two sums, for example of dy and of dy (x - mean). Two kernels compute both, one
 * after the other. In the first kernel, the rows are divided into chunks, and a block has one chunk
 * of some neighbouring columns. Each of its threads sums a few columns of every blockDim.y-th row.
 * It adds up GT_SOME_ROWS rows at a time in the wide type of the elements (gt_wide), and adds each
 * such sum to a sum in double. Then the block adds up the sums of its threads. In the second
 * kernel, GT_FINISH_THREADS threads add the sums of all chunks of one column. The chunks and the
 * order of additions do not depend on the type of the elements. So if 16-bit elements and float32
 * elements have the same values, the 16-bit result is the float32 result, rounded.
 *
 * All these kernels wait for memory, so a thread loads several rows before it uses the first of
 * them (gt_rows_at_once), and launches have enough blocks for a large GPU.
 *
 * columns.cuh also sums columns, but its second kernel has only one thread per column. That is slow
 * for millions of pixels with few channels.
 */
enum {
	GT_SOME_ROWS = 64, /* rows that are summed in the wide type before double */
	/* the number of rows that a thread sums in a chunk is a multiple of this, except in the
	 * last chunk */
	GT_CHUNK_ROWS = 4,
	/* in the first kernel, a thread has this many columns if the number of columns of the
	 * matrix is a multiple of this, else 1 column */
	GT_CHANNEL_PACK = 8,
	/* for launches with gt_channel_shape_of() */
	GT_CHANNEL_BLOCKS = 132 * 8, /* approximate limit of blocks */
	GT_CHANNEL_THREADS = 256,    /* threads per block */
	GT_CHANNEL_COLUMNS = 32,     /* largest x dimension of a block */
	/* for blocks of the second kernel */
	GT_FINISH_COLUMNS = 4, /* x dimension: columns */
	GT_FINISH_THREADS = 64 /* y dimension: threads per column */
};

/* gt_reader reads W neighbouring elements of a row together; gt_writer writes them together
 * (gt_map_buffer in map.cuh). */
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
};

/* Return n / size, rounded up. */
static inline int64_t gt_ceil_div(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* The grid and block of a launch. */
struct gt_channel_shape {
	dim3 grid, block;
};

/* Return the shape of a launch that works on n rows at once, with W columns per thread. */
static inline struct gt_channel_shape gt_channel_shape_of(int64_t cols, int64_t n, int w)
{
	int64_t packs = gt_ceil_div(cols, w), tiles;
	unsigned x = 1;

	while (x < packs && x < GT_CHANNEL_COLUMNS)
		x *= 2;
	tiles = gt_ceil_div(packs, x);
	return { dim3((unsigned)tiles, gt_min_blocks(gt_ceil_div(n, GT_CHANNEL_THREADS / x),
		                           gt_ceil_div(GT_CHANNEL_BLOCKS, tiles))),
		dim3(x, GT_CHANNEL_THREADS / x) };
}

/* Return the number of columns of a thread in the first kernel. */
static inline int gt_sum_pack(const struct gt_channels *m)
{
	return m->cols % GT_CHANNEL_PACK ? 1 : GT_CHANNEL_PACK;
}

/* Return the matrix of x [N, C, H, W] and its chunks. If x has no elements, all fields except cols
 * are 0. */
static inline struct gt_channels gt_channels_of(const struct gt_tensor *x)
{
	struct gt_channels m = {};
	struct gt_channel_shape s;

	m.cols = x->shape[1];
	if (!m.cols || !gt_tensor_elements(x))
		return m;
	m.rows = gt_tensor_elements(x) / m.cols;
	s = gt_channel_shape_of(m.cols, m.rows, gt_sum_pack(&m));
	m.length = s.block.y * GT_CHUNK_ROWS;
	m.length *= gt_ceil_div(m.rows, s.grid.y * m.length);
	m.chunks = gt_ceil_div(m.rows, m.length);
	return m;
}

/* Return the shape of a launch of the first kernel. */
static inline struct gt_channel_shape gt_sum_shape_of(const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_channel_shape_of(m->cols, m->rows, gt_sum_pack(m));

	s.grid.y = (unsigned)m->chunks;
	return s;
}

/* The work of the calling thread in a launch with gt_channel_shape_of(). gt_first_column() returns
 * the first of its W columns. gt_first_row() returns its first row, and gt_row_step() returns the
 * distance from each row of the thread to the next one. */
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

/* The number of rows of W elements that a thread loads at a time: up to 64 bytes. */
template <class T, int W>
constexpr int gt_rows_at_once = W * sizeof(T) > 32   ? 1
                                : W * sizeof(T) > 16 ? 2
                                                     : 4;

/* The first kernel calls this. f(sums, at, stride, n) must process n rows, at most GT_SOME_ROWS. In
 * each row it reads the W elements of this thread: they begin at index `at` in the first row, at
 * index at + stride in the second row, and so on. For column k of the W columns, f adds to the
 * first sum, sums[k], and to the second sum, sums[W + k]. partial is [chunks, 2, cols]. */
template <int W, class F>
static __device__ __forceinline__ void gt_sum_chunk(
    double *partial, const struct gt_channels &m, F f)
{
	GT_SHARED(double, shared, 2 * W * GT_CHANNEL_THREADS);
	int x = (int)blockDim.x, step = (int)blockDim.y;
	int thread = (int)threadIdx.y * x + (int)threadIdx.x;
	int64_t k = blockIdx.y, end = (k + 1) * m.length < m.rows ? (k + 1) * m.length : m.rows;
	int64_t c = gt_first_column<W>();
	double sums[2 * W] = {};

	/* A thread past the last column adds nothing, but takes part in the barrier. */
	if (c >= m.cols)
		end = 0;
	for (int64_t r = k * m.length + threadIdx.y; r < end; r += GT_SOME_ROWS * step) {
		int left = (int)(end - r + step - 1) / step;

		f(sums, r * m.cols + c, step * m.cols, left < GT_SOME_ROWS ? left : GT_SOME_ROWS);
	}
	for (int i = 0; i < 2 * W; i++)
		shared[i * GT_CHANNEL_THREADS + thread] = sums[i];
	__syncthreads();
	for (int j = thread; j < 2 * W * x; j += GT_CHANNEL_THREADS) {
		int i = j / x, lane = j % x;
		double sum = 0;

		c = ((int64_t)blockIdx.x * x + lane) * W + i % W;
		for (int y = 0; y < step; y++)
			sum += shared[i * GT_CHANNEL_THREADS + y * x + lane];
		if (c < m.cols)
			partial[(2 * k + i / W) * m.cols + c] = sum;
	}
}

/* The second kernel calls this, with all threads of a block [GT_FINISH_COLUMNS, GT_FINISH_THREADS].
 * In the threads with threadIdx.y = 0, `sums` gets the two sums of column c. c is the column of
 * this thread; if this thread is past the last column, pass any column of the matrix. */
static __device__ __forceinline__ void gt_add_chunks_up(
    double (&sums)[2], const double *partial, const struct gt_channels &m, int64_t c)
{
	enum { AT_ONCE = 4, SIZE = GT_FINISH_COLUMNS * GT_FINISH_THREADS };
	GT_SHARED(double, shared, 2 * SIZE);
	const double *at = partial + 2 * threadIdx.y * m.cols + c;
	double *own = shared + threadIdx.y * GT_FINISH_COLUMNS + threadIdx.x;

	sums[0] = sums[1] = 0;
	for (int64_t k = threadIdx.y; k < m.chunks; k += AT_ONCE * GT_FINISH_THREADS) {
		double v[2][AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++)
			for (int s = 0; s < 2; s++)
				v[s][i] = k + i * GT_FINISH_THREADS < m.chunks
				              ? at[2 * i * GT_FINISH_THREADS * m.cols + s * m.cols]
				              : 0;
		for (int i = 0; i < AT_ONCE; i++)
			for (int s = 0; s < 2; s++)
				sums[s] += v[s][i];
		at += 2 * AT_ONCE * GT_FINISH_THREADS * m.cols;
	}
	for (int s = 0; s < 2; s++)
		own[s * SIZE] = sums[s];
	for (int half = GT_FINISH_THREADS / 2; half; half /= 2) {
		__syncthreads();
		for (int s = 0; s < 2 && (int)threadIdx.y < half; s++)
			own[s * SIZE] += own[s * SIZE + half * GT_FINISH_COLUMNS];
	}
	for (int s = 0; s < 2; s++)
		sums[s] = own[s * SIZE];
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
