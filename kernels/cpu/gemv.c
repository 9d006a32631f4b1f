/* gemv.c - products of one row and a matrix: every element of the matrix is read once, in order. */
#include "kernels/cpu/parallel.h"

#include <omp.h>

/*
 * With one row there are two operations for each element of the matrix, so that the speed of memory
 * decides. Each thread reads a range of its own, in the order of memory, as fast as a bare loop
 * reads. The ranges begin at multiples of GT_COLUMN_BLOCK columns, and each sum has its own order,
 * so that results do not depend on the number of threads. oneDNN's kernels sum in another order:
 * training keeps those, and takes no row of this file.
 */
enum {
	LINE_BYTES = 64,
	LINES = 4,           /* of the cache, that a dot product takes together */
	NOTICE_BYTES = 1024, /* from a prefetch to its use: 10 % faster than without */
	TERMS = 8            /* rows of the matrix that are added to y together */
};

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

#define REAL_BITS 32
#include "kernels/cpu/gemv.inc"
#define REAL_BITS 64
#include "kernels/cpu/gemv.inc"

const struct gt_kernel GT_ISA(gt_cpu_gemv_kernels)[] = {
	GT_ROWS(matmul, .accepts = is_one_row),
	{ .op = NULL },
};
