/* channels.cuh - helpers for kernels that work on image channels: launches, sums, layouts. */
#ifndef GT_KERNELS_CUDA_CORE_CHANNELS_CUH
#define GT_KERNELS_CUDA_CORE_CHANNELS_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * Images are channels-last: matrices with a row for each pixel and a column for each channel. Two
 * kernels compute two sums of each column, for example of dy and of dy (x - mean). In the first, a
 * block has a chunk of rows of some columns; a thread adds up GT_SOME_ROWS rows in the wide type,
 * and such sums in double. In the second, GT_FINISH_THREADS threads add the chunks of a column.
 * Chunks and order do not depend on the type, so 16-bit results are rounded float32 results.
 *
 * The kernels wait for memory, so a thread loads several rows at once. columns.cuh is for few rows:
 * its second kernel has one thread per column.
 */
enum {
	GT_SOME_ROWS = 64, /* rows summed in the wide type */
	/* a thread sums a multiple of this many rows of a chunk */
	GT_CHUNK_ROWS = 4,
	/* columns of a thread in the first kernel, or 1 if they do not divide */
	GT_CHANNEL_PACK = 8,
	GT_CHANNEL_BLOCKS = 132 * 8, /* about the largest number of blocks */
	GT_CHANNEL_THREADS = 256,    /* threads per block */
	GT_CHANNEL_COLUMNS = 32,     /* largest x dimension of a block */
	/* the second kernel */
	GT_FINISH_COLUMNS = 4, /* columns of a block */
	GT_FINISH_THREADS = 64 /* threads per column */
};

/* These read, or write, W neighbouring elements of a row (map.cuh). */
template <class T, int W>
using gt_reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W>
using gt_writer = typename gt_map_buffer<T, false, true>::template lanes<W>;

/* A matrix, and its chunks of rows. */
struct gt_channels {
	int64_t rows, cols;
	/* rows per chunk, fewer in the last; number of chunks */
	int64_t length, chunks;
};

static inline int64_t gt_ceil_div(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* The grid and block of a launch. */
struct gt_channel_shape {
	dim3 grid, block;
};

/* Return the launch for n rows at once, with W columns per thread. */
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

/* Return the columns of a thread in the first kernel. */
static inline int gt_sum_pack(const struct gt_channels *m)
{
	return m->cols % GT_CHANNEL_PACK ? 1 : GT_CHANNEL_PACK;
}

/* Return the matrix of x [N, C, H, W]. Without elements, only cols is set. */
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

/* Return the launch of the first kernel. */
static inline struct gt_channel_shape gt_sum_shape_of(const struct gt_channels *m)
{
	struct gt_channel_shape s = gt_channel_shape_of(m->cols, m->rows, gt_sum_pack(m));

	s.grid.y = (unsigned)m->chunks;
	return s;
}

/* The calling thread's columns and rows in such a launch. */
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

/* Rows that a thread loads at a time: up to 64 bytes. */
template <class T, int W>
constexpr int gt_rows_at_once = W * sizeof(T) > 32   ? 1
                                : W * sizeof(T) > 16 ? 2
                                                     : 4;

/* The first kernel: f(sums, at, stride, n) adds n rows, at most GT_SOME_ROWS, of this thread's W
 * columns, whose elements are at `at`, at + stride, ...: column k to sums[k] and sums[W + k].
 * partial is [chunks, 2, cols]. */
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

/* The second kernel, in all threads of a block: `sums` of threads with threadIdx.y = 0 gets the
 * sums of column c. Threads past the last column pass any column. */
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

/* Return the elements in 16 bytes: a thread's columns, if they divide all columns. */
template <class T> constexpr int gt_pack_elements()
{
	return 16 / (int)sizeof(T);
}

/* Return the bytes of `partial`. */
static inline size_t gt_channel_sums_bytes(const struct gt_channels *m)
{
	return (size_t)(2 * m->chunks * m->cols) * sizeof(double);
}

/* Return whether `t` is channels-last, absent or no image. */
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
