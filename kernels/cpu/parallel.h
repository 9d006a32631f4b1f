/* parallel.h - how kernels cut their work, whatever the number of threads. */
#ifndef GT_KERNELS_CPU_PARALLEL_H
#define GT_KERNELS_CPU_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/graph/kernel.h"

enum {
	/* Elements from which a loop is worth a second thread: a fork takes some microseconds, the
	 * time in which one thread streams about this much. */
	GT_FORK_MIN = 32768,
	/* Elements of a piece of an elementwise loop: the last lanes of a piece may be computed by
	 * other instructions than the rest, so its ends must not move with the number of
	 * threads. */
	GT_GRAIN = 16384,
	/* Elements added up in float32 before the sum goes on in double. */
	GT_SUM_BLOCK = 4096,
	/* Columns that one thread takes at a time where the work is cut by columns. */
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
 * A row-major matrix [rows, cols] seen for sums over its rows. Several rows that lie side by side
 * count as one wide row, so that a matrix of three columns, too, is work for whole vectors; element
 * j of a wide row belongs to column j % cols. A chunk is some wide rows: short enough that its sums
 * may be float32, small enough for the first two caches.
 */
struct gt_columns {
	int64_t rows, cols;
	int64_t wide;   /* elements of a wide row, a multiple of cols */
	int64_t chunk;  /* elements of a chunk, the last one may have fewer */
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

/* Rows and columns as the ops of channels see them: the channel is dimension 1 of four, the last
 * otherwise, and in memory always the last. */
static inline struct gt_columns gt_columns_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_columns_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

/* accepts() of kernels that take images: every floating-point tensor of four dimensions lies
 * channels-last. */
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
