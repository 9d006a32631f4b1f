/* modes.h - private: the kinds of data parallelism (modes). */
#ifndef GT_PARALLEL_DATA_MODES_H
#define GT_PARALLEL_DATA_MODES_H

#include "lib/parallel/state.h"

/* A mode of the data axis. gt_parallel_X() (parallel.h) calls the function X. Functions may be
 * NULL; without `update`, gt_norm_update() is called. */
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
	void (*release)(
	    struct gt_parallel *p); /* free the state of the data axis, which may be NULL */
};

/* The modes, and a list of them indexed by enum gt_parallel_kind. */
extern const struct gt_parallel_mode gt_parallel_ddp, gt_parallel_mirrored, gt_parallel_dp,
    gt_parallel_zero1, gt_parallel_zero2, gt_parallel_zero3;
extern const struct gt_parallel_mode *const gt_parallel_modes[GT_PARALLEL_KINDS];

/* Return the number of bytes that a rank sends in a reduce-scatter of all gradients. In an
 * all-gather of all parameters, a rank sends the same number of bytes. */
int64_t gt_parallel_reduce_scatter_bytes(const struct gt_parallel *p);

#endif
