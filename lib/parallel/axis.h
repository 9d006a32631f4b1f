/* axis.h - private: the axes of the grid of ranks, and the functions of each axis. */
#ifndef GT_PARALLEL_AXIS_H
#define GT_PARALLEL_AXIS_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/*
 * Ranks form a grid. Three axes (pipeline, data, tensor) are the dimensions of the grid. The seat
 * of a rank on an axis is its coordinate in this dimension, from 0 on:
 *
 *   rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat
 *
 * Two more axes are not dimensions of the grid. On the virtual axis, one rank simulates several
 * virtual ranks (virtual/rewrite.h). The sequence axis uses the ranks of the tensor axis.
 *
 * The axes divide the parameters one after the other, from the outermost axis to the innermost. In
 * the grid, the pipeline is the outermost axis: each of its seats, called a stage, holds some of
 * the parameters. The tensor axis is next: each of its seats holds a shard (lib/graph/sharding.h)
 * of each parameter of its stage. The data axis is the innermost: in the modes zero1 to zero3 (enum
 * gt_parallel_kind), each of its seats updates a range of this shard. The table of axes has the
 * order of enum gt_axis, the innermost axis first.
 *
 * Example: there are 2 stages, 2 seats on the tensor axis, and 2 seats on the data axis with the
 * mode zero1. Stage 1 holds a matrix of 2 x 4 elements, which is divided into 2 shards by columns.
 * The matrix, and the elements that each of the four ranks of stage 1 updates:
 *
 *   0 1 2 3    (stage 1, shard 0, data 0) updates 0 1    (stage 1, shard 1, data 0) updates 2 3
 *   4 5 6 7    (stage 1, shard 0, data 1) updates 4 5    (stage 1, shard 1, data 1) updates 6 7
 *
 * For one axis, held() returns the elements that a seat holds. With held(), the file whole.c
 * gathers tensors from all ranks to save them in files, and scatters tensors that were read from
 * files. With divides() and counts(), the file norm.c counts the square of each element of the
 * gradients exactly once.
 */

/* An axis. The members `name` and `size` are required. All other members may be NULL. */
struct gt_axis_row {
	const char *name;
	/* Return the number of seats on this axis if there are `ranks` ranks in all. */
	int (*size)(const struct gt_parallel_options *o, int ranks);
	/* Check that this axis supports the options for `ranks` ranks in all and micro-batches of
	 * `batch` samples each. */
	int (*check)(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err);
	/* Create the state of the axis. The groups of all axes already exist. release() frees the
	 * state. release() is called even if open() has failed or was not called. */
	int (*open)(struct gt_parallel *p, struct gt_err *err);
	void (*release)(struct gt_parallel *p);
	/* survey() reads a forward graph before any axis has changed it. After the survey() of all
	 * axes, rewrite() changes the graph. */
	int (*survey)(struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err);
	int (*rewrite)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* Prepare this axis and the store for each other: for example, change the layout of the
	 * store, lend it memory, or make groups. Called by gt_parallel_attach() (parallel.h). */
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	/* Besides the group of all its seats, the axis may have more groups for device memory
	 * (lib/comm/device_group.h). Add the device memory of these additional groups to *m. */
	void (*add_groups)(const struct gt_parallel *p, struct gt_group_memory *m);
	/* Return the number of parts into which a batch is divided (gt_parallel_chunks()). `chunks`
	 * is the result of the previous row of the table; 1 for the first row. */
	int (*parts)(const struct gt_parallel *p, int batch, int chunks);
	/* Change a graph with a backward pass (gt_parallel_insert()). prepare() changes the graph
	 * of one part of a batch. insert() turns it into the graph of all `chunks` parts, and adds
	 * collectives. finish() appends nodes at the end of the graph. insert() is called for the
	 * outermost axis first; prepare() and finish() are called for the innermost axis first. */
	int (*prepare)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);
	void (*finish)(struct gt_parallel *p, struct gt_graph *g);
	/* Change a graph without a backward pass (gt_parallel_insert_forward()). */
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* Return whether the seats hold different elements of a slot. The result is the same on all
	 * ranks. The data axis has no such function: it divides the layout of the store
	 * (gt_store_divide()), and so all planes that are cut. */
	bool (*cuts)(const struct gt_parallel *p, const struct gt_slot *slot);
	/* Called if cuts() is true. The outer axes have already divided the slot: this rank and the
	 * other seats of the axis share some elements of the slot. Return the slice of these
	 * elements that the seat `seat` holds. If the slice contains all of them, their order must
	 * not change. */
	struct gt_slice (*held)(const struct gt_parallel *p, const struct gt_slot *slot, int seat);
	/* Return whether the seats have different gradients. If so, the squares of the
	 * gradients are summed over all seats to compute the norm. */
	bool (*divides)(const struct gt_parallel *p);
	/* Return whether this rank counts its gradient of the slot in the norm. If several seats
	 * hold the same gradient, only the first of them counts it. NULL: every seat counts its
	 * gradients. */
	bool (*counts)(const struct gt_parallel *p, const struct gt_slot *slot);
	/* Return the number of bytes that a rank sends to other seats of the axis in a step. */
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches);
};

/* The table of axes, indexed by enum gt_axis, and its rows. */
extern const struct gt_axis_row *const gt_axis_rows[GT_AXES];
extern const struct gt_axis_row gt_axis_data, gt_axis_tensor, gt_axis_sequence, gt_axis_pipeline,
    gt_axis_virtual;

/* Return the number of ranks that together hold one copy of the model: tensor seats * pipeline
 * seats. */
int gt_axes_parts(const struct gt_parallel_options *o);

/* Make the groups of all axes and the state of each axis. A dry run only makes plans, and allocates
 * no memory. It has no groups; instead, gt_parallel.seats gives the rank and size on each axis. A
 * collective call. The caller calls gt_axes_close() in any case, even after an error. */
int gt_axes_open(struct gt_parallel *p, struct gt_err *err);
void gt_axes_close(struct gt_parallel *p);

/* Make the groups for device memory. p->device must be set. A collective call. */
int gt_axes_open_device(struct gt_parallel *p, struct gt_err *err);

/* Add the device memory of a group of `ranks` ranks to *m. */
void gt_axes_add_group(struct gt_group_memory *m, const struct gt_parallel *p, int ranks);

/* Find the gradients that this rank counts when all ranks compute the norm of the gradients. The
 * layout of the store must be final. Errors: GT_ENOMEM, and errors of the device. */
int gt_norm_attach(struct gt_parallel *p, struct gt_err *err);
void gt_norm_release(struct gt_parallel *p);

/* Call gt_optim_update() with the norm of the gradients of all ranks. A collective call. */
int gt_norm_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
