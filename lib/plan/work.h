/* work.h - the work of one rank in a training step, as a list, for predictions of its time. */
#ifndef GT_PLAN_WORK_H
#define GT_PLAN_WORK_H

#include "lib/device/dtype.h"
#include "lib/parallel/traffic.h"

/* A node of a plan, or a part of a step outside of plans. */
struct gt_work {
	/* borrowed: the op's name, or outside of the graph "norm", "update", "zero gradients" or
	 * "step" */
	const char *op;
	struct gt_traffic traffic;
	double flops, bytes; /* bytes: read and written */
	int launches;        /* kernels */
	/* the type of the first operand, in which a product computes */
	enum gt_dtype dtype;
	bool product; /* a matrix product or a convolution: tensor cores compute it */
	/* of a product: the shorter side of its smallest matrix; of a convolution, that of its
	 * weights; 0: not known */
	double width;
	bool update;   /* a pass over all parameters or gradients, outside of the graph */
	unsigned runs; /* enum gt_run_flags: the runs that have it; 0: all */
};

/* The work of a rank: all = list[0, first), then list[first, last) once for each run, then
 * list[last, count). */
struct gt_work_list {
	struct gt_work *list;
	size_t count, first, last;
	int runs;
	bool tf32; /* products of float32 are rounded to TF32 */
};

/* Return whether a run has an item of list[first, last); how often an item is done in a step. */
bool gt_work_is_in_run(const struct gt_work_list *work, size_t item, int run);
int gt_work_times(const struct gt_work_list *work, size_t item);

void gt_work_release(struct gt_work_list *work);

/* Return the bytes that the rank sends in a step to the ranks of an axis; GT_AXES: of all axes. The
 * sums of a few numbers outside of plans count, too. */
double gt_work_sent(const struct gt_work_list *work, enum gt_axis axis);

#endif
