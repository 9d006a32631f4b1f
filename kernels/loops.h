/* loops.h - tensors of one broadcast shape as nested loops over strides. */
#ifndef GT_KERNELS_LOOPS_H
#define GT_KERNELS_LOOPS_H

#include <stdbool.h>

#include "lib/graph/kernel.h"

enum { GT_LOOP_TENSORS = GT_MAX_INPUTS + 1 };

/* Element [i0, i1, ...] of tensor t is at the sum of i * stride[t][d]. A stride of 0 repeats. */
struct gt_loops {
	int ndim; /* at least 1 */
	int tensors;
	int64_t shape[GT_MAX_DIMS];
	int64_t stride[GT_LOOP_TENSORS][GT_MAX_DIMS];
};

/* Set stride[d] to the distance of neighbours along dimension d of a tensor, in elements. */
static inline void gt_tensor_strides(const struct gt_tensor *t, int64_t *stride)
{
	bool channels_last = t->layout == GT_CHANNELS_LAST && t->ndim == 4;
	int64_t step = 1;

	for (int k = t->ndim - 1; k >= 0; k--) {
		/* the dimensions in their order in memory: N, H, W, C */
		int d = !channels_last || k == 0 ? k : k == 3 ? 1 : k + 1;

		stride[d] = step;
		step *= t->shape[d];
	}
}

/* Add a tensor that is broadcast to the shape of the loops, and return its number. */
static inline int gt_loops_add(struct gt_loops *l, const struct gt_tensor *t)
{
	int64_t own[GT_MAX_DIMS], *stride = l->stride[l->tensors];
	int missing = l->ndim - t->ndim;

	gt_tensor_strides(t, own);
	for (int d = 0; d < l->ndim; d++)
		stride[d] = d < missing || t->shape[d - missing] == 1 ? 0 : own[d - missing];
	return l->tensors++;
}

/* Start with the shape of a tensor, which is tensor 0 of the loops. */
static inline void gt_loops_start(struct gt_loops *l, const struct gt_tensor *t)
{
	l->ndim = t->ndim;
	l->tensors = 0;
	for (int d = 0; d < t->ndim; d++)
		l->shape[d] = t->shape[d];
	gt_loops_add(l, t);
}

static inline void gt_loops_move(struct gt_loops *l, int from, int to)
{
	l->shape[to] = l->shape[from];
	for (int t = 0; t < l->tensors; t++)
		l->stride[t][to] = l->stride[t][from];
}

/* Exchange dimensions so that the strides of tensor 0 fall. */
static inline void gt_loops_sort(struct gt_loops *l)
{
	for (int d = 1; d < l->ndim; d++)
		for (int k = d; k > 0 && l->stride[0][k - 1] < l->stride[0][k]; k--) {
			struct gt_loops copy = *l;

			gt_loops_move(l, k - 1, k);
			l->shape[k - 1] = copy.shape[k];
			for (int t = 0; t < l->tensors; t++)
				l->stride[t][k - 1] = copy.stride[t][k];
		}
}

/*
 * Leave out dimensions of size 1, bring the others into the order of tensor 0 in memory, and join
 * neighbours where every tensor's elements follow on each other. Example: [4, 1, 8, 16] with a
 * tensor that repeats along the first dimension becomes [4, 128].
 */
static inline void gt_loops_join(struct gt_loops *l)
{
	int n = 0;

	for (int d = 0; d < l->ndim; d++)
		if (l->shape[d] != 1)
			gt_loops_move(l, d, n++);
	l->ndim = n;
	gt_loops_sort(l);
	n = 0;
	for (int d = 1; d < l->ndim; d++) {
		bool join = true;

		for (int t = 0; t < l->tensors; t++)
			join = join && l->stride[t][n] == l->stride[t][d] * l->shape[d];
		if (!join) {
			gt_loops_move(l, d, ++n);
			continue;
		}
		l->shape[n] *= l->shape[d];
		for (int t = 0; t < l->tensors; t++)
			l->stride[t][n] = l->stride[t][d];
	}
	if (l->ndim) {
		l->ndim = n + 1;
		return;
	}
	l->ndim = 1; /* one element */
	l->shape[0] = 1;
	for (int t = 0; t < l->tensors; t++)
		l->stride[t][0] = 1;
}

/* Return whether the elements of tensor t lie in memory in the order of the loops, without gaps. */
static inline bool gt_loops_are_whole(const struct gt_loops *l, int t)
{
	int64_t step = 1;

	for (int d = l->ndim - 1; d >= 0; d--) {
		if (l->stride[t][d] != step)
			return false;
		step *= l->shape[d];
	}
	return true;
}

/* Set *l to the loops of a call of the op map. Tensor 0 is the first output, tensor 1 + i is input
 * i. The other outputs lie in memory as the first one. */
static inline void gt_loops_of_map(struct gt_loops *l, const struct gt_call *call)
{
	gt_loops_start(l, &call->out[0]);
	for (int i = 0; i < call->inputs && call->in[i].present; i++)
		gt_loops_add(l, &call->in[i]);
	gt_loops_join(l);
}

/* Set *l to the loops of a call of the op sum. Tensor 0 is the input, tensor 1 the output, whose
 * stride is 0 in the dimensions that are summed, and in no others. */
static inline void gt_loops_of_sum(struct gt_loops *l, const struct gt_call *call)
{
	const struct gt_tensor *x = &call->in[0];
	struct gt_tensor y = call->out[0]; /* with the dimensions that the output lacks */

	for (int d = 0; y.ndim < x->ndim && d < x->ndim; d++)
		y.shape[d] = call->attrs.sum.dims >> d & 1 ? 1 : x->shape[d];
	y.ndim = x->ndim;
	gt_loops_start(l, x);
	gt_loops_add(l, &y);
	gt_loops_join(l);
}

/* Set *l to the batch of a call of the op batched_matmul: the dimensions before the matrices.
 * Tensor 0 is the output, tensors 1 and 2 are the inputs; strides count whole matrices. */
static inline void gt_loops_of_batch(struct gt_loops *l, const struct gt_call *call)
{
	const struct gt_tensor *tensors[] = { &call->out[0], &call->in[0], &call->in[1] };

	for (int t = 0; t < 3; t++) {
		struct gt_tensor batch = *tensors[t];

		batch.ndim -= 2;
		batch.layout = GT_PLAIN;
		if (t)
			gt_loops_add(l, &batch);
		else
			gt_loops_start(l, &batch);
	}
	gt_loops_join(l);
}

#endif
