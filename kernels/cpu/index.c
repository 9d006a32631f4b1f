/* index.c - elements of rows by indices: the largest ones, gather and scatter. */
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "lib/graph/fault.h"

/* The first index outside of rows of `size` elements is an error. */
static int check_indices(const struct gt_tensor *ids, int64_t size, struct gt_err *err)
{
	const int32_t *id = ids->data;
	int64_t n = gt_tensor_elements(ids), at = 0;
	int bad = 0;

#pragma omp simd reduction(| : bad)
	for (int64_t i = 0; i < n; i++)
		bad |= (id[i] < 0) | (id[i] >= size);
	if (!bad)
		return 0;
	while (id[at] >= 0 && id[at] < size)
		at++;
	return gt_fault_set(
	    err, &(struct gt_fault){ GT_FAULT_INDEX, { id[at], at / gt_tensor_last(ids), size } });
}

/* Up to so many elements of a row are found by insertion, more by sorting the row. */
enum { INSERT_MOST = 16 };

/* To sort, each row needs twice as many indices as it has elements. */
static int prepare_topk(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	if (call->attrs.index.size > INSERT_MOST)
		call->workspace_bytes =
		    2 * (size_t)gt_tensor_elements(&call->in[0]) * sizeof(int32_t);
	return 0;
}

#define REAL_BITS 32
#include "kernels/cpu/index.inc"
#define REAL_BITS 64
#include "kernels/cpu/index.inc"

const struct gt_kernel GT_ISA(gt_cpu_index_kernels)[] = {
	GT_ROWS(topk, .prepare = prepare_topk),
	GT_ROWS(index_gather),
	GT_ROWS(index_scatter),
	{ .op = NULL },
};
