/* axis.h - inside parallel: the table of axes, and the functions that an axis consists of. */
#ifndef GT_PARALLEL_AXIS_H
#define GT_PARALLEL_AXIS_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/*
 * Ranks form a grid with a dimension for each axis that takes ranks. A rank's seat on an axis is
 * its coordinate there:
 *
 *   rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat
 *
 * The axis of virtual ranks takes none, as one rank does the work of several; nor does that of
 * sequences, which has the ranks of the tensor axis.
 *
 * Rows are in the order of enum gt_axis, which is that from the inside to the outside of what a
 * rank holds: of all parameters those of its stage, of each of them a shard, of that (under zero1
 * to zero3) a range. 2 stages x 2 shards by columns x zero1 on 2 ranks, of a matrix that stage 1
 * holds:
 *
 *   0 1 2 3    (stage 1, shard 0, data 0) updates 0 1    (stage 1, shard 1, data 0) updates 2 3
 *   4 5 6 7    (stage 1, shard 0, data 1) updates 4 5    (stage 1, shard 1, data 1) updates 6 7
 *
 * held() tells this of one axis at a time. Gathering for files, scattering and what a norm counts
 * follow from it for all axes together (held.c, norm.c).
 */

/* Functions as in parallel.h. Optional but `name` and `size`; NULL: nothing is to be done. */
struct gt_axis_row {
	const char *name;
	/* The number of seats, where there are so many ranks. */
	int (*size)(const struct gt_parallel_options *o, int ranks);
	/* Whether the options can be combined with this axis. */
	int (*check)(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err);
	/* What the axis keeps; all groups are there. release() in any case. */
	int (*open)(struct gt_parallel *p, struct gt_err *err);
	void (*release)(struct gt_parallel *p);
	/* A forward graph: look at it before any axis has rewritten it; rewrite it. */
	int (*survey)(struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err);
	int (*rewrite)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	/* In how many parts a batch comes, given what the rows before say. */
	int (*parts)(const struct gt_parallel *p, int batch, int chunks);
	/* A graph with its backward pass: that of one part of the batch, from the first row to the
	 * last; then, from the last row to the first, make it one of all parts, with collectives. A
	 * call of finish() puts nodes behind all others. */
	int (*prepare)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);
	void (*finish)(struct gt_parallel *p, struct gt_graph *g);
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* Whether seats hold different elements of what the axes outside of this one leave of a
	 * slot; the same answer on all ranks. Then held() is there: the elements, of those, that a
	 * seat has. One that has all has them in the order of the whole. */
	bool (*cuts)(const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what);
	struct gt_slice (*held)(
	    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what, int seat);
	/* Whether squares of gradients differ from seat to seat, so that the norm's sum goes over
	 * the axis. */
	bool (*divides)(const struct gt_parallel *p);
	/* Then: whether this rank, which holds gradients of the slot, counts them. A seat before it
	 * does where both have the same. NULL: all count what they hold. */
	bool (*counts)(const struct gt_parallel *p, const struct gt_slot *slot);
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches);
};

/* By enum gt_axis. */
extern const struct gt_axis_row *const gt_axis_rows[GT_AXES];
extern const struct gt_axis_row gt_axis_data, gt_axis_tensor, gt_axis_sequence, gt_axis_pipeline,
    gt_axis_virtual;

/* Ranks that hold one model together: seats of the axes other than data. */
int gt_axes_parts(const struct gt_parallel_options *o);

/* Make the groups of all axes, or seats for a dry run. A collective call. */
int gt_axes_open(struct gt_parallel *p, struct gt_err *err);
void gt_axes_close(struct gt_parallel *p);

/* The groups for device memory, once the device is known. A collective call. */
int gt_axes_open_device(struct gt_parallel *p, struct gt_err *err);

/* Find the gradients whose squares this rank counts in the norm over all ranks. The layout of the
 * store is final. Errors: GT_ENOMEM, and those of the device. */
int gt_norm_attach(struct gt_parallel *p, struct gt_err *err);
void gt_norm_release(struct gt_parallel *p);

/* gt_optim_update() with the norm of all ranks' gradients. A collective call. */
int gt_norm_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
