/* parallel.h - how kernels cut their work, whatever the number of threads. */
#ifndef GT_KERNELS_CPU_PARALLEL_H
#define GT_KERNELS_CPU_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/graph/kernel.h"

enum {
	/* Fewer elements than this are not worth a second thread: starting one takes some
	 * microseconds, in which one thread processes about this many elements. */
	GT_FORK_MIN = 32768,
	/* Elements in a piece of an elementwise loop. The compiler may compute the last elements of
	 * a piece with other instructions than the rest, so the ends of pieces must not depend on
	 * the number of threads. */
	GT_GRAIN = 16384,
	/* Elements added up in float32 before the sum goes on in double. */
	GT_SUM_BLOCK = 4096,
	/* Columns that one thread takes at a time if the work is cut by columns. */
	GT_COLUMN_BLOCK = 64
};

static inline int64_t gt_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t gt_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t gt_ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/*
 * How a row-major matrix [rows, cols] is cut for sums over its rows. Adjacent rows are joined to
 * one wide row, because a row of three columns would not fill a vector register. Element j of a
 * wide row belongs to column j % cols. A chunk is a few wide rows: few enough that float32 sums are
 * accurate, and that the chunk fits into the L1 and L2 caches.
 */
struct gt_columns {
	int64_t rows, cols;
	int64_t wide;   /* elements of a wide row, a multiple of cols */
	int64_t chunk;  /* elements of a chunk; the last chunk may have fewer */
	int64_t chunks; /* at least 1 */
};

enum { GT_WIDE_MIN = 128, GT_CHUNK_ROWS = 64 };

static inline struct gt_columns gt_columns_of(int64_t rows, int64_t cols)
{
	struct gt_columns s = { .rows = rows, .cols = cols };

	s.wide = gt_ceil_div(GT_WIDE_MIN, gt_max(cols, 1)) * cols;
	s.chunk = GT_CHUNK_ROWS * s.wide;
	s.chunks = gt_max(1, gt_ceil_div(rows * cols, gt_max(s.chunk, 1)));
	return s;
}

/* Elements of chunk k. */
static inline int64_t gt_chunk_length(const struct gt_columns *s, int64_t k)
{
	return gt_min(s->chunk, s->rows * s->cols - k * s->chunk);
}

/* Rows and columns for ops that work by channel. The channel is dimension 1 of a tensor of four
 * dimensions, and the last dimension of others. In memory it is always the last. */
static inline struct gt_columns gt_columns_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_columns_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

/* accepts() of kernels for images: true if every tensor of four dimensions is channels-last. */
static inline bool gt_accept_channels_last(const struct gt_call *call)
{
	for (int i = 0; i < call->inputs; i++)
		if (call->in[i].present && call->in[i].ndim == 4 &&
		    call->in[i].layout != GT_CHANNELS_LAST)
			return false;
	for (int i = 0; i < call->outputs; i++)
		if (call->out[i].present && call->out[i].ndim == 4 &&
		    call->out[i].layout != GT_CHANNELS_LAST)
			return false;
	return true;
}

#endif
