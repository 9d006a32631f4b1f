/* virtual.c - the axis of virtual ranks: one rank does the work of several, for the same bits. */
#include "lib/parallel/axis.h"
#include "lib/parallel/state.h"
#include "lib/parallel/virtual/rewrite.h"

static int virtual_axis_size(const struct gt_parallel_options *o, int ranks)
{
	(void)ranks;
	return o->virtual_ranks > 1 ? o->virtual_ranks : 1;
}

static int check_virtual_axis(
    const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err)
{
	return o->reproducible ? gt_virtual_check(o, gt_axis_data.size(o, ranks), batch, err) : 0;
}

/*
 * Return the number of virtual ranks that each of `ranks` ranks simulates, if a micro-batch has
 * `batch` samples. gt_parallel_check() must have accepted the arguments. Without
 * options->reproducible the result is 1. With options->reproducible, all ranks together have a
 * number of virtual ranks that depends only on the number of samples in a step. It is the largest
 * power of two, at most GT_VIRTUAL_RANKS, that divides the number of samples.
 */
int gt_parallel_virtual_ranks(const struct gt_parallel_options *o, int ranks, int batch)
{
	int seats = gt_axis_data.size(o, ranks);

	return o->reproducible ? gt_virtual_ranks(gt_virtual_step_samples(o, seats, batch)) / seats
	                       : 1;
}

bool gt_parallel_parts_are_virtual(const struct gt_parallel *p)
{
	return p->axes[GT_AXIS_VIRTUAL]->size > 1;
}

static int parts(const struct gt_parallel *p, int batch, int chunks)
{
	(void)batch;
	return p->o.reproducible ? p->axes[GT_AXIS_VIRTUAL]->size : chunks;
}

/* The chunks of a pipeline are the virtual ranks, so only graphs without a pipeline change here. */
static int insert_virtual_ranks(
    struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err)
{
	if (!gt_parallel_parts_are_virtual(p) || p->axes[GT_AXIS_PIPELINE]->size > 1)
		return 0;
	return p->o.micro_batches > 1 ? gt_virtual_rewrite_in_turn(g, chunks, err)
	                              : gt_virtual_rewrite(g, chunks, NULL, 0, err);
}

const struct gt_axis_row gt_axis_virtual = { .name = "virtual",
	.size = virtual_axis_size,
	.check = check_virtual_axis,
	.parts = parts,
	.insert = insert_virtual_ranks };
