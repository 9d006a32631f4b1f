/* modes.h - inside parallel: the modes of the data axis, and the state of all axes. */
#ifndef GT_PARALLEL_DATA_MODES_H
#define GT_PARALLEL_DATA_MODES_H

#include "lib/comm/device_group.h"
#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

struct gt_pipeline; /* pipeline/stage.h */
struct gt_shards;   /* tensor.c */

struct gt_parallel {
	const struct gt_parallel_mode *mode;
	struct gt_parallel_options o;
	struct gt_group *world;
	/* a dry run: `world` is `nobody`. Allocate no memory, and call no function of the group */
	bool dry;
	/* a group without functions: rank 0 of the number of ranks to plan for */
	struct gt_group nobody;
	struct gt_group *axes[GT_AXES];
	/* take the place of groups that do not exist; never called */
	struct gt_group seats[GT_AXES];
	struct gt_group *results; /* gt_parallel_results() */
	/* The groups of the same ranks for device memory. They exist from gt_parallel_attach() on;
	 * kernels call them with a stream. If device memory is host memory, they are the groups
	 * above. */
	struct gt_group *device_world, *device_axes[GT_AXES], *device_results;
	struct gt_device_way way; /* chosen for these groups (device_group.h) */
	struct gt_store *store;
	bool stale; /* rank 0's weights have changed since they were last sent to all ranks */
	struct gt_parallel_event *events; /* [event_count] of the mode; NULL: none */
	size_t event_count;
	void *state; /* private to the mode */
	struct gt_shards *shards;
	bool divides_rows;            /* sequence.c: some graph divides rows among ranks */
	int64_t sequence_bytes;       /* sent by sequence.c in a run of the largest graph */
	struct gt_pipeline *pipeline; /* NULL: none */
	uint32_t *sums;               /* replicas.c: of this rank's tensors, then of all ranks' */
	/* norm.c: the ranges of the gradients that this rank counts; `at` is where they lie. */
	struct gt_part *norm_ranges;
	size_t norm_range_count;
	/* this rank also holds gradients that another rank counts */
	bool counts_some;
	struct gt_step_scalars *scalars; /* device: then, to sum up their squares; else NULL */
	const struct gt_device *device;  /* memory of the store, which is freed before */
	struct gt_plan_extra extra;
};

/* The functions correspond to those of parallel.h. NULL: there is nothing to do. Kernels find the
 * struct gt_parallel in call->context. */
struct gt_parallel_mode {
	bool threads;    /* ranks are threads of one process */
	bool adds;       /* see gt_parallel_adds() */
	bool compresses; /* supports o.compress for the gradients that it sends */
	bool replicates; /* after an update, ranks of GT_AXIS_DATA hold the same parameters */
	bool main;       /* rank 0 has the samples, and only rank 0 has the sum of gradients */
	bool divides;    /* only the owner of a parameter has its complete gradient */
	bool shards;     /* can be combined with the tensor axis */
	bool stages;     /* can be combined with a pipeline */
	void (*part)(const struct gt_parallel *p, int samples, int *first, int *count);
	int (*scatter)(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	/* As in struct gt_axis_row; and where this rank's elements begin in flat memory. */
	bool (*cuts)(const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what);
	struct gt_slice (*held)(
	    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what, int seat);
	int64_t (*place)(
	    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what);
	int (*refresh)(struct gt_parallel *p, struct gt_err *err);
	int (*update)(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);
	int (*publish)(struct gt_parallel *p, struct gt_err *err);
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches); /* bytes, in a step */
	void (*release)(struct gt_parallel *p); /* its state, which may be NULL */
};

extern const struct gt_parallel_mode gt_parallel_ddp, gt_parallel_mirrored, gt_parallel_dp,
    gt_parallel_zero1, gt_parallel_zero2, gt_parallel_zero3;

/* By enum gt_parallel_kind. */
extern const struct gt_parallel_mode *const gt_parallel_modes[GT_PARALLEL_KINDS];

/* Bytes that a rank sends in a reduce-scatter, or an all-gather, of all gradients. */
int64_t gt_parallel_reduce_scatter_bytes(const struct gt_parallel *p);

/* Queue a sum of device memory over the ranks of one of these groups, or a broadcast from the first
 * of them, on the compute stream. */
int gt_parallel_all_reduce(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);
int gt_parallel_broadcast(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);

/* The kernels of all passes, ended by a row whose op is NULL. */
extern const struct gt_kernel gt_collective_kernels[], gt_ddp_kernels[], gt_scatter_kernels[],
    gt_zero_kernels[], gt_pipeline_kernels[], gt_pipeline_tied_kernels[], gt_sequence_kernels[];

#endif
