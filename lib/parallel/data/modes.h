/* modes.h - private: the kinds of data parallelism (modes), and the state of a rank. */
#ifndef GT_PARALLEL_DATA_MODES_H
#define GT_PARALLEL_DATA_MODES_H

#include <pthread.h>

#include "lib/comm/device_group.h"
#include "lib/graph/sharding.h"
#include "lib/parallel/parallel.h"

struct gt_pipeline; /* lib/parallel/pipeline/stage.h */
struct gt_shards;   /* lib/parallel/tensor/tensor.c */

/* The state of one rank, for all axes of the grid of ranks (lib/parallel/axis.h). Kernels find this
 * struct in call->context. */
struct gt_parallel {
	const struct gt_parallel_mode *mode; /* mode of the data axis */
	struct gt_parallel_options o;
	struct gt_group *world; /* all ranks; in a dry run it points to `nobody` */
	bool dry;               /* a dry run: allocate no memory, and call no function of a group */
	/* dry run: a group without functions; its rank and size are o.rank and o.ranks */
	struct gt_group nobody;
	/* axes[i] is the group of the ranks on axis i. If this group does not exist, axes[i] points
	 * to seats[i]. */
	struct gt_group *axes[GT_AXES];
	/* Groups without functions. Each has only a rank, the seat of this rank on the axis, and a
	 * size, the number of seats on the axis. */
	struct gt_group seats[GT_AXES];
	/* the group over which losses and statistics are summed (gt_parallel_results()) */
	struct gt_group *results;
	/* Groups for device memory, with the same ranks as world, axes and results. They exist from
	 * gt_parallel_attach() on. Kernels pass them a stream. If device memory is host memory,
	 * they are the groups above. */
	struct gt_group *device_world, *device_axes[GT_AXES], *device_results;
	/* the kind of the groups for device memory (lib/comm/device_group.h) */
	struct gt_device_way way;
	struct gt_store *store;
	/* mode dp: rank 0's weights have changed since rank 0 last sent them to all ranks */
	bool stale;
	struct gt_parallel_event *events; /* [event_count], see gt_buckets_events(); or NULL */
	size_t event_count;
	/* set by gt_parallel_watch(): `marks` measures the time span of each collective, which is
	 * then written to `spans`; marks NULL: no measurement */
	struct gt_marks *marks;
	struct gt_span *spans;
	void *state;                  /* private to the mode */
	struct gt_shards *shards;     /* private to tensor.c */
	bool divides_rows;            /* sequence axis: a graph has rows that ranks divide */
	struct gt_pipeline *pipeline; /* NULL: no pipeline */
	/* Checksums of the weights, [1 + ranks of the data axis][slots], for replicas.c. Row 0 has
	 * the checksums of this rank. Rows 1, 2, ... have those of all ranks of the data axis.
	 * NULL: weights are not compared. */
	uint32_t *sums;
	/* For norm.c, which computes the norm of the gradients: the ranges of the gradients whose
	 * squares this rank adds to the norm. norm_ranges[i].at is the index in store->gradients of
	 * the first element of range i. */
	struct gt_part *norm_ranges;
	size_t norm_range_count;
	/* this rank also holds gradients whose squares another rank adds to the norm */
	bool counts_some;
	/* device memory in which norm.c sums the squares of norm_ranges; NULL if counts_some is
	 * false */
	struct gt_step_scalars *scalars;
	pthread_mutex_t fetching; /* held by the thread that gathers for gt_parallel_fetch() */
	const struct gt_device *device; /* the store's device; the store is freed first */
	struct gt_plan_extra extra;     /* kernels of the nodes that this module inserts */
};

/* A mode of the data axis. Functions without a comment do the mode's part in the function of
 * parallel.h with the same name: for example, gt_parallel_attach() calls attach(). If `update` is
 * NULL, gt_norm_update() is called. If `part` is NULL, a rank computes all samples that it reads.
 * If any other function is NULL, the mode has nothing to do there. */
struct gt_parallel_mode {
	bool threads;    /* ranks are threads of one process */
	bool adds;       /* the mode itself adds up the gradients of micro-batches */
	bool compresses; /* can send gradients in the data type gt_parallel_options.compress */
	bool replicates; /* after an update, all ranks of the data axis hold the same parameters */
	bool main;       /* rank 0 reads all samples, and only rank 0 has the sum of gradients */
	/* gradients are divided into shards, and only one rank, the owner of a shard, has the
	 * summed gradient of the shard (zero.h) */
	bool divides;
	bool shards; /* can be combined with the tensor axis */
	bool stages; /* can be combined with a pipeline */
	void (*part)(const struct gt_parallel *p, int samples, int *first, int *count);
	int (*scatter)(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);
	int (*attach)(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);
	int (*insert)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*insert_forward)(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);
	int (*refresh)(struct gt_parallel *p, struct gt_err *err);
	int (*update)(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);
	int (*publish)(struct gt_parallel *p, struct gt_err *err);
	/* Return the number of bytes that a rank sends over the data axis in a step. */
	int64_t (*sent)(const struct gt_parallel *p, int micro_batches);
	void (*release)(struct gt_parallel *p); /* free p->state, which may be NULL */
};

/* The modes, and a list of them indexed by enum gt_parallel_kind. */
extern const struct gt_parallel_mode gt_parallel_ddp, gt_parallel_mirrored, gt_parallel_dp,
    gt_parallel_zero1, gt_parallel_zero2, gt_parallel_zero3;
extern const struct gt_parallel_mode *const gt_parallel_modes[GT_PARALLEL_KINDS];

/* Return the number of bytes that a rank sends in a reduce-scatter of all gradients. In an
 * all-gather of all parameters, a rank sends the same number of bytes. */
int64_t gt_parallel_reduce_scatter_bytes(const struct gt_parallel *p);

/* Queue a collective on the compute stream, in place: sum buffer[count] over the ranks of the group
 * (all-reduce), or copy it from rank 0 of the group to the other ranks (broadcast). `buffer` is in
 * device memory, and `group` is a group for device memory. */
int gt_parallel_all_reduce(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);
int gt_parallel_broadcast(const struct gt_parallel *p, struct gt_group *group, void *buffer,
    int64_t count, enum gt_dtype dtype, struct gt_err *err);

/* The kernel tables of the nodes that this module inserts into graphs. The last row of each table
 * has op NULL. */
extern const struct gt_kernel gt_collective_kernels[], gt_ddp_kernels[], gt_scatter_kernels[],
    gt_zero_kernels[], gt_pipeline_kernels[], gt_pipeline_tied_kernels[], gt_sequence_kernels[];

#endif
