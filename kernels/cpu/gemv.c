/* gemv.c - products of one row and a matrix: every element of the matrix is read once, in order. */
#include "kernels/cpu/parallel.h"

#include <omp.h>

/* A product with one row has two operations for each element of the matrix, so that the speed of
 * memory decides. Each thread reads a range of its own, in the order of memory, as fast as a bare
 * loop reads. A transposed matrix is divided into blocks of its rows, each of which makes one sum.
 * Otherwise all rows add to all sums, so the matrix is divided into pieces of some rows, whose sums
 * are then added up. (Ranges of columns read pieces of a row here and there: the processor fetches
 * ahead beyond their ends, so that two threads got 3/4 of the speed.) How it is divided into pieces
 * depends on its shape, so results do not depend on the number of threads. oneDNN's kernels sum in
 * another order: training keeps those, and takes no row of this file. */
enum {
	LINE_BYTES = 64,
	LINES = 4,           /* cache lines that a dot product takes together */
	NOTICE_BYTES = 1024, /* bytes from a prefetch to its use: 10 % faster than without */
	TERMS = 8,           /* rows of the matrix that are added to y together */
	PIECES = 24          /* most pieces: shared evenly by 2, 3, 4, 6, 8 and 12 threads */
};

/* Rows of a piece of a matrix [k, n]; all of them, where threads would not share the work. */
static int64_t piece_rows(int64_t k, int64_t n)
{
	return k * n < GT_FORK_MIN ? k : gt_ceil_div(gt_ceil_div(k, PIECES), TERMS) * TERMS;
}

/* How many threads share `blocks` pieces of work that read `count` elements. */
static int gemv_threads(int64_t blocks, int64_t count)
{
	if (count < GT_FORK_MIN)
		return 1;
	return (int)gt_min(blocks, omp_get_max_threads());
}

static bool is_one_row(const struct gt_call *call)
{
	return call->attrs.matmul.relaxed && !call->attrs.matmul.trans_a &&
	       gt_tensor_rows(&call->in[0]) == 1;
}

static int prepare_gemv(struct gt_call *call, struct gt_err *err)
{
	int64_t k = gt_tensor_last(&call->in[0]), n = gt_tensor_last(&call->out[0]);
	int64_t rows = piece_rows(k, n);

	(void)err;
	if (!call->attrs.matmul.trans_b && rows < k)
		call->workspace_bytes =
		    (size_t)(gt_ceil_div(k, rows) * n) * gt_dtype_size(call->in[0].dtype);
	return 0;
}

#define REAL_BITS 32
#include "kernels/cpu/gemv.inc"
#define REAL_BITS 64
#include "kernels/cpu/gemv.inc"

const struct gt_kernel GT_ISA(gt_cpu_gemv_kernels)[] = {
	GT_ROWS(matmul, .accepts = is_one_row, .prepare = prepare_gemv),
	{ .op = NULL },
};
