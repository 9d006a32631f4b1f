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
 * Two axes have no ranks of their own: on the virtual axis one rank simulates several virtual
 * ranks, and the sequence axis uses the ranks of the tensor axis.
 *
 * Each axis may divide parameters among its seats. From the outermost axis to the innermost: a
 * stage of a pipeline holds some parameters, a seat of the tensor axis a shard of each of them, and
 * a seat of the data axis (under zero1 to zero3) a range of that shard. Rows are in the order of
 * enum gt_axis, the innermost axis first. 2 stages x 2 shards by columns x zero1 on 2 ranks, of a
 * matrix that stage 1 holds:
 *
 *   0 1 2 3    (stage 1, shard 0, data 0) updates 0 1    (stage 1, shard 1, data 0) updates 2 3
 *   4 5 6 7    (stage 1, shard 0, data 1) updates 4 5    (stage 1, shard 1, data 1) updates 6 7
 *
 * For one axis, held() returns the elements that a seat holds. With it held.c gathers tensors for
 * files, and scatters them, over all axes; and norm.c counts the square of each element once.
 */

/* The functions correspond to those of parallel.h. `name` and `size` are required; others may be
 * NULL. */
struct gt_axis_row {
	const char *name;
	/* The number of seats of a world of `ranks` ranks. */
	int (*size)(const struct gt_parallel_options *o, int ranks);
	/* Whether the options can be combined with this axis. */
	int (*check)(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err);
	/* Create the state of the axis. The groups of all axes exist. release() is called in any
	 * case. */
	int (*open)(struct gt_parallel *p, struct gt_err *err);
	void (*release)(struct gt_parallel *p);
	/* survey() reads a forward graph before any axis has changed it; rewrite() changes it. */
	int (*survey)(struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err);
	int (*rewrite)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	/* Add the groups for device memory that the axis has besides that of its ranks. */
	void (*add_groups)(const struct gt_parallel *p, struct gt_group_memory *m);
	/* The number of parts of a batch. `chunks` is the result of the rows before. */
	int (*parts)(const struct gt_parallel *p, int batch, int chunks);
	/* A graph with its backward pass. prepare(), from the first row to the last, changes the
	 * graph of one part of a batch. insert(), from the last row to the first, makes it the
	 * graph of all parts and adds collectives. finish() puts nodes behind all others. */
	int (*prepare)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);
	void (*finish)(struct gt_parallel *p, struct gt_graph *g);
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* Whether seats hold different elements of a slot; the result is the same on all ranks. If
	 * they do, held() returns the elements of a seat, as a slice of the elements that outer
	 * axes leave to the rank. A seat that holds all of them has them in this order. */
	bool (*cuts)(const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what);
	struct gt_slice (*held)(
	    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what, int seat);
	/* Whether the gradients of seats differ, so that the sum for the norm includes all
	 * seats. */
	bool (*divides)(const struct gt_parallel *p);
	/* If so: whether this rank counts its gradients of the slot. If several seats hold the same
	 * gradients, only the first counts them. NULL: every seat counts its gradients. */
	bool (*counts)(const struct gt_parallel *p, const struct gt_slot *slot);
	/* Bytes that a rank sends over the axis in a step. */
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches);
};

/* By enum gt_axis. */
extern const struct gt_axis_row *const gt_axis_rows[GT_AXES];
extern const struct gt_axis_row gt_axis_data, gt_axis_tensor, gt_axis_sequence, gt_axis_pipeline,
    gt_axis_virtual;

/* Ranks that hold one model together: seats of the axes other than data. */
int gt_axes_parts(const struct gt_parallel_options *o);

/* Make the groups of all axes, or seats for a dry run, and the state of each axis. A collective
 * call. Call gt_axes_close() in any case. */
int gt_axes_open(struct gt_parallel *p, struct gt_err *err);
void gt_axes_close(struct gt_parallel *p);

/* Make the groups for device memory, once p->device is known. A collective call. */
int gt_axes_open_device(struct gt_parallel *p, struct gt_err *err);

/* Add the device memory of a group of `ranks` ranks. */
void gt_axes_add_group(struct gt_group_memory *m, const struct gt_parallel *p, int ranks);

/* Find the gradients whose squares this rank counts in the norm over all ranks. The layout of the
 * store is final. Errors: GT_ENOMEM, and those of the device. */
int gt_norm_attach(struct gt_parallel *p, struct gt_err *err);
void gt_norm_release(struct gt_parallel *p);

/* gt_optim_update() with the norm of all ranks' gradients. A collective call. */
int gt_norm_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
