/* columns.cuh - sums over the rows of a matrix, for each of its columns, in a fixed order. */
#ifndef GT_KERNELS_CUDA_CORE_COLUMNS_CUH
#define GT_KERNELS_CUDA_CORE_COLUMNS_CUH

#include "kernels/cuda/core/gpu.cuh"
#include "kernels/cuda/cuda.h"

/* In the first kernel, a thread sums one column of a chunk of rows, in the wide type. In the
 * second, a thread adds the chunks of one column, in their order and in double. */
struct gt_column_chunks {
	int64_t rows, cols;
	int64_t length; /* rows per chunk, fewer in the last */
	int64_t count;  /* number of chunks */
};

enum {
	GT_COLUMN_THREADS = 128, /* threads per block */
	GT_COLUMN_ROWS = 64,     /* least rows per chunk */
	GT_COLUMN_CHUNKS = 32768 /* most chunks */
};

/* Divide a matrix into chunks. */
static inline struct gt_column_chunks gt_column_chunks_of(int64_t rows, int64_t cols)
{
	const int64_t least = GT_COLUMN_ROWS;
	int64_t length = (rows + GT_COLUMN_CHUNKS - 1) / GT_COLUMN_CHUNKS;

	length = length < least ? least : length;
	return { rows, cols, length, (rows + length - 1) / length };
}

/* Return the bytes of `partial`, for `sums` sums per column. */
static inline size_t gt_column_bytes(
    const struct gt_column_chunks *m, int sums, enum gt_dtype dtype)
{
	return (size_t)(m->count * m->cols * sums) * (dtype == GT_F64 ? 8 : 4);
}

/* The first kernel: f(sums, row, column) adds an element's terms. partial is [chunks, SUMS,
 * cols]. */
template <int SUMS, class W, class F>
__global__ void gt_sum_chunks(W *partial, F f, struct gt_column_chunks m)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t begin = (int64_t)blockIdx.y * m.length;
	int64_t end = begin + m.length < m.rows ? begin + m.length : m.rows;
	W sums[SUMS] = {};

	if (c >= m.cols)
		return;
	for (int64_t r = begin; r < end; r++)
		f(sums, r, c);
	for (int k = 0; k < SUMS; k++)
		partial[((int64_t)blockIdx.y * SUMS + k) * m.cols + c] = sums[k];
}

/* The second kernel: write out[cols]. Chunk k begins at partial + k * stride. */
template <class T, class W>
__global__ void gt_add_chunks(
    T *out, const W *partial, int64_t stride, int64_t chunks, int64_t cols)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	double sum = 0;

	if (c >= cols)
		return;
	for (int64_t k = 0; k < chunks; k++)
		sum += (double)partial[k * stride + c];
	gt_store(out + c, (typename gt_wide<T>::type)sum);
}

/* Sums of the elements of x. */
template <class T> struct gt_column_f {
	const T *x;
	int64_t cols;

	__device__ void operator()(typename gt_wide<T>::type *sums, int64_t r, int64_t c) const
	{
		sums[0] += gt_load(x[r * cols + c]);
	}
};

/* Queue both kernels. out[k] [cols] gets sum k of each column, unless it is NULL. */
template <int SUMS, class T, class W, class F>
static void gt_sum_columns(struct gt_stream *stream, T *const (&out)[SUMS], W *partial, F f,
    const struct gt_column_chunks *m)
{
	unsigned tiles = (unsigned)((m->cols + GT_COLUMN_THREADS - 1) / GT_COLUMN_THREADS);

	if (!m->cols)
		return;
	if (m->count)
		GT_LAUNCH((gt_sum_chunks<SUMS, W, F>), dim3(tiles, (unsigned)m->count),
		    GT_COLUMN_THREADS, 0, stream->queue, partial, f, *m);
	for (int k = 0; k < SUMS; k++)
		if (out[k])
			GT_LAUNCH((gt_add_chunks<T, W>), tiles, GT_COLUMN_THREADS, 0, stream->queue,
			    out[k], partial + k * m->cols, SUMS * m->cols, m->count, m->cols);
}

#endif
