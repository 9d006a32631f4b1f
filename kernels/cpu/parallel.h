/* parallel.h - divide a kernel's work into pieces that are the same for any number of threads. */
#ifndef GT_KERNELS_CPU_PARALLEL_H
#define GT_KERNELS_CPU_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/graph/kernel.h"

enum {
	/* The smallest number of elements for which a loop uses several threads. Starting threads
	 * takes some microseconds. In that time one thread processes about this many elements. */
	GT_FORK_MIN = 32768,
	/* Elements per piece of an elementwise loop. One thread computes a whole piece. The
	 * compiler may compute the last elements of a piece with other instructions than the rest,
	 * so the ends of pieces must not depend on the number of threads. */
	GT_GRAIN = 16384,
	/* Elements that are added up in float32 before their sum is added to a sum in double. */
	GT_SUM_BLOCK = 4096,
	/* Columns per block in kernels that divide the columns of a matrix among threads. */
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
 * The division of a row-major matrix [rows, cols] into chunks, for the sum of each column.
 *
 * Several rows that follow each other in memory form one wide row, because a row of, for example,
 * three columns would not fill a vector register. Element j of a wide row belongs to column `j %
 * cols`. A chunk consists of GT_CHUNK_ROWS wide rows. Chunks have few rows for two reasons: float32
 * sums over a chunk are accurate; and with up to some hundred columns, a chunk fits into the L2
 * cache.
 *
 * Example: 10000 rows, 3 columns. A wide row has 129 elements (43 rows). A chunk has 8256 elements
 * (2752 rows). There are 4 chunks, and the last one has 5232 elements.
 */
struct gt_chunking {
	int64_t rows, cols;
	int64_t wide;   /* elements per wide row: a multiple of `cols` */
	int64_t chunk;  /* elements per chunk; the last chunk may have fewer */
	int64_t chunks; /* number of chunks, at least 1 */
};

enum {
	GT_WIDE_MIN = 128, /* a wide row has at least this many elements */
	GT_CHUNK_ROWS = 64 /* wide rows per chunk */
};

/* Return the division of a matrix [rows, cols]. */
static inline struct gt_chunking gt_chunking_of(int64_t rows, int64_t cols)
{
	struct gt_chunking s = { .rows = rows, .cols = cols };

	s.wide = gt_ceil_div(GT_WIDE_MIN, gt_max(cols, 1)) * cols;
	s.chunk = GT_CHUNK_ROWS * s.wide;
	s.chunks = gt_max(1, gt_ceil_div(rows * cols, gt_max(s.chunk, 1)));
	return s;
}

/* Return the number of elements of chunk k. */
static inline int64_t gt_chunk_length(const struct gt_chunking *s, int64_t k)
{
	return gt_min(s->chunk, s->rows * s->cols - k * s->chunk);
}

/*
 * Return the division of a tensor into chunks, for ops that work by channel: the columns are the
 * channels. The channels are the dimension C of a tensor [N, C, H, W], and the last dimension of
 * any other tensor. In memory the channels must come last (gt_accept_channels_last()).
 */
static inline struct gt_chunking gt_chunking_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_chunking_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

/* Return true if every tensor of four dimensions in the call has the layout GT_CHANNELS_LAST.
 * Kernels for images use this function as accepts() (struct gt_kernel). */
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
