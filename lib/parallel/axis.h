/* axis.h - private: the axes of the grid of ranks, and the functions of each axis. */
#ifndef GT_PARALLEL_AXIS_H
#define GT_PARALLEL_AXIS_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

/* The pipeline, data and tensor axes are the dimensions of a grid of ranks (gt_parallel_new()); a
 * seat is a coordinate. The virtual axis has the ranks that one rank simulates (virtual/rewrite.h),
 * the sequence axis the ranks of the tensor axis. The axes divide parameters from the outermost to
 * the innermost: pipeline, tensor, data. axes.c has an example. */

/* An axis. All members but `name` and `size` may be NULL. */
struct gt_axis_row {
	const char *name;
	/* Return the number of seats, of `ranks` ranks in all. */
	int (*size)(const struct gt_parallel_options *o, int ranks);
	/* Check the options, for micro-batches of `batch` samples. */
	int (*check)(const struct gt_parallel_options *o, int ranks, int batch, struct gt_err *err);
	/* Create the axis's state, after all groups. release() is called in any case. */
	int (*open)(struct gt_parallel *p, struct gt_err *err);
	void (*release)(struct gt_parallel *p);
	/* After the survey() of all axes, rewrite() changes a forward graph. */
	int (*survey)(struct gt_parallel *p, const struct gt_graph *g, struct gt_err *err);
	int (*rewrite)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* Prepare the axis and the store for each other (gt_parallel_attach()). */
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	/* Add the device memory of groups other than that of all seats. */
	void (*add_groups)(const struct gt_parallel *p, struct gt_group_memory *m);
	/* Return the parts of a batch (gt_parallel_chunks()). `chunks` is the result of the row
	 * before, 1 at first. */
	int (*parts)(const struct gt_parallel *p, int batch, int chunks);
	/* gt_parallel_insert(): prepare() changes the graph of one part, insert() makes it that of
	 * all parts, with collectives, and finish() appends nodes. insert() goes from the outermost
	 * axis to the innermost, the others go the other way. */
	int (*prepare)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);
	void (*finish)(struct gt_parallel *p, struct gt_graph *g);
	/* gt_parallel_insert_forward() */
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* Return whether seats hold different elements of a slot, the same on all ranks. The data
	 * axis has none: it divides the store's layout. */
	bool (*cuts)(const struct gt_parallel *p, const struct gt_slot *slot);
	/* If cuts(): return the slice of a seat, among the elements that outer axes leave. A slice
	 * of all elements keeps their order. */
	struct gt_slice (*held)(const struct gt_parallel *p, const struct gt_slot *slot, int seat);
	/* Return whether seats have different gradients, whose squares the norm sums. */
	bool (*divides)(const struct gt_parallel *p);
	/* Return whether this rank counts its gradient of a slot in the norm, as one seat of
	 * several with the same gradient does. NULL: always. */
	bool (*counts)(const struct gt_parallel *p, const struct gt_slot *slot);
	/* Return the bytes that a rank sends to other seats in a step. */
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches);
};

/* The table, indexed by enum gt_axis, and its rows. */
extern const struct gt_axis_row *const gt_axis_rows[GT_AXES];
extern const struct gt_axis_row gt_axis_data, gt_axis_tensor, gt_axis_sequence, gt_axis_pipeline,
    gt_axis_virtual;

/* Return the ranks that hold one copy of the model: tensor seats * pipeline seats. */
int gt_axes_parts(const struct gt_parallel_options *o);

/* Make all groups and states; for a dry run, only ranks and sizes (gt_parallel.seats). A collective
 * call. gt_axes_close() follows in any case. */
int gt_axes_open(struct gt_parallel *p, struct gt_err *err);
void gt_axes_close(struct gt_parallel *p);

/* Make the groups for the memory of p->device. A collective call. */
int gt_axes_open_device(struct gt_parallel *p, struct gt_err *err);

/* Add the device memory of a group of `ranks` ranks. */
void gt_axes_add_group(struct gt_group_memory *m, const struct gt_parallel *p, int ranks);

/* Find the gradients that this rank counts in the norm. The store's layout is final. */
int gt_norm_attach(struct gt_parallel *p, struct gt_err *err);
void gt_norm_release(struct gt_parallel *p);

/* Call gt_optim_update() with the norm over all ranks. A collective call. */
int gt_norm_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
