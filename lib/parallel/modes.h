/* modes.h - inside parallel: the table of modes, and what their functions are handed. */
#ifndef GT_PARALLEL_MODES_H
#define GT_PARALLEL_MODES_H

#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

struct gt_pipeline; /* pipeline_inside.h */

struct gt_parallel {
	const struct gt_parallel_mode *mode;
	struct gt_parallel_options o;
	struct gt_group *world;
	bool dry;               /* the world is `nobody`: take no memory of it, call nothing */
	struct gt_group nobody; /* rank 0 of as many as there will be */
	struct gt_group *axes[GT_AXES];
	struct gt_group seats[GT_AXES]; /* stand for groups that are not there */
	struct gt_store *store;
	struct gt_sharding *shardings; /* of the tensor axis */
	size_t sharding_count, sharding_capacity;
	int64_t tensor_bytes; /* sent on that axis in a run of the largest graph */
	bool communicates;
	bool stale; /* rank 0's weights have changed since the others got them */
	struct gt_parallel_event *events; /* [event_count], the mode's; NULL: none */
	size_t event_count;
	void *state;                  /* the mode's own */
	struct gt_pipeline *pipeline; /* NULL: none */
	uint32_t *sums;               /* replicas.c: of this rank's tensors, then of all ranks' */
	struct gt_step_scalars *scalars; /* device: gt_parallel_squares_*(); or NULL */
	const struct gt_device *device;  /* of the store, which is freed first */
	struct gt_plan_extra extra;
};

/* Functions as in parallel.h; NULL: nothing to be done. Kernels find the struct gt_parallel in
 * call->context. */
struct gt_parallel_mode {
	bool threads;    /* ranks are threads of one process */
	bool adds;       /* see gt_parallel_adds() */
	bool compresses; /* sends gradients as o.compress says */
	bool replicates; /* after an update, ranks of GT_AXIS_DATA hold the same parameters */
	bool main;       /* rank 0 has the samples, and gradients are added up there alone */
	void (*part)(const struct gt_parallel *p, int samples, int *first, int *count);
	int (*scatter)(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	bool (*in_parts)(
	    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what);
	/* For what is in parts; both, where in_parts() is there. */
	int (*collect)(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
	    const void *held, void *whole, struct gt_err *err);
	int (*deal)(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
	    void *held, const void *whole, struct gt_err *err);
	int (*refresh)(struct gt_parallel *p, struct gt_err *err);
	int (*update)(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);
	int (*publish)(struct gt_parallel *p, struct gt_err *err);
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches); /* bytes, in a step */
	void (*release)(struct gt_parallel *p); /* its state, which may be NULL */
};

extern const struct gt_parallel_mode gt_parallel_ddp, gt_parallel_mirrored, gt_parallel_dp,
    gt_parallel_zero1, gt_parallel_zero2, gt_parallel_zero3;

/* What a rank sends in a reduce-scatter, or an all-gather, of all gradients. */
int64_t gt_parallel_reduce_scatter_bytes(const struct gt_parallel *p);

/* The sum of the squares of some slots' gradients: begin, add slots, and have it on the host. Where
 * there are pipelines or parts of layers. */
int gt_parallel_squares_begin(const struct gt_parallel *p, struct gt_err *err);
int gt_parallel_squares_add(
    const struct gt_parallel *p, const struct gt_slot *slot, struct gt_err *err);
int gt_parallel_squares_end(
    const struct gt_parallel *p, double sum[GT_SQUARES], struct gt_err *err);

/* The kernels of all passes, ended by a row whose op is NULL. */
extern const struct gt_kernel gt_collective_kernels[], gt_ddp_kernels[], gt_scatter_kernels[],
    gt_zero_kernels[], gt_pipeline_kernels[], gt_pipeline_tied_kernels[];

#endif
