/* parallel.h - divide a kernel's work into pieces that are the same for any number of threads. */
#ifndef GT_KERNELS_CPU_PARALLEL_H
#define GT_KERNELS_CPU_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/graph/kernel.h"

enum {
	/* A loop of fewer elements uses one thread: starting others takes as long as about so many
	 * elements. */
	GT_FORK_MIN = 32768,
	/* Elements per piece of an elementwise loop. Ends of pieces must not depend on the number
	 * of threads: their instructions may differ. */
	GT_GRAIN = 16384,
	/* elements added up in float32 before double */
	GT_SUM_BLOCK = 4096,
	/* columns per block, if columns are divided among threads */
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
 * A matrix [rows, cols], divided into chunks for sums of columns. Several rows form a wide row,
 * because a row of three columns, for example, would not fill a vector register; its element j
 * belongs to column j % cols. A chunk has few rows, so that float32 sums are accurate, and it fits
 * into the L2 cache.
 *
 * Example: 10000 rows of 3 columns are wide rows of 129 elements (43 rows), in 4 chunks of 8256
 * elements (2752 rows), the last one of 5232.
 */
struct gt_chunking {
	int64_t rows, cols;
	int64_t wide;   /* elements per wide row */
	int64_t chunk;  /* elements per chunk, fewer in the last */
	int64_t chunks; /* at least 1 */
};

enum {
	GT_WIDE_MIN = 128, /* least elements of a wide row */
	GT_CHUNK_ROWS = 64 /* wide rows per chunk */
};

static inline struct gt_chunking gt_chunking_of(int64_t rows, int64_t cols)
{
	struct gt_chunking s = { .rows = rows, .cols = cols };

	s.wide = gt_ceil_div(GT_WIDE_MIN, gt_max(cols, 1)) * cols;
	s.chunk = GT_CHUNK_ROWS * s.wide;
	s.chunks = gt_max(1, gt_ceil_div(rows * cols, gt_max(s.chunk, 1)));
	return s;
}

/* Return the elements of chunk k. */
static inline int64_t gt_chunk_length(const struct gt_chunking *s, int64_t k)
{
	return gt_min(s->chunk, s->rows * s->cols - k * s->chunk);
}

/* Return the division of a tensor whose columns are channels, last in memory: C of [N, C, H, W], or
 * the last dimension. */
static inline struct gt_chunking gt_chunking_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_chunking_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

/* gt_kernel.accepts for images: all are GT_CHANNELS_LAST. */
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
