/* parallel.h - how the ranks of a run share its work. */
#ifndef GT_PARALLEL_PARALLEL_H
#define GT_PARALLEL_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/graph/plan.h"
#include "lib/optim/optim.h"

/*
 * This module combines the plans of all ranks into one training run: passes insert collectives into
 * a graph, and kernels execute these nodes. The training loop is elsewhere. In every mode it calls
 * the functions of this header at the points that their comments name.
 *
 * A mode is a row of functions (modes.h). All modes are SPMD: each rank is in a group, builds the
 * same graph, and calls the same functions in the same order.
 */

enum gt_parallel_kind {
	GT_PARALLEL_DDP,      /* every rank holds all weights; gradients are added up */
	GT_PARALLEL_MIRRORED, /* the same, with ranks that are threads of one process */
	GT_PARALLEL_DP,       /* threads; rank 0 reads, holds the weights and updates them: dp.h */
	GT_PARALLEL_ZERO1,    /* as ddp, but a rank updates only a shard of the weights: zero.h */
	GT_PARALLEL_ZERO2,    /* as zero1, and a rank keeps gradients only of its shard */
	GT_PARALLEL_ZERO3,    /* as zero2, and a rank holds only its shard of the weights */
	GT_PARALLEL_KINDS
};

/* "ddp", "mirrored", ..., NULL: the number of a name is its enum gt_parallel_kind. */
extern const char *const gt_parallel_names[GT_PARALLEL_KINDS + 1];

/* Whether ranks are threads of one process (comm/launch/threads.h), and not processes. */
bool gt_parallel_is_threads(enum gt_parallel_kind kind);

/* Whether rank 0 reads the samples of all: batches are then those of all ranks together. */
bool gt_parallel_reads_on_one(enum gt_parallel_kind kind);

/* The order in which a stage of a pipeline goes through the chunks of a batch. */
enum gt_pipeline_schedule { GT_PIPELINE_GPIPE, GT_PIPELINE_1F1B, GT_PIPELINE_SCHEDULES };

/* "gpipe", "1f1b", NULL: by enum gt_pipeline_schedule. */
extern const char *const gt_pipeline_schedule_names[GT_PIPELINE_SCHEDULES + 1];

/* The data type in which gradients are sent. */
enum gt_compress {
	GT_COMPRESS_NONE,
	GT_COMPRESS_FP16, /* those above 65504 become infinite, those below 3e-8 zero */
	GT_COMPRESS_BF16, /* any size, 8 bits of fraction */
	GT_COMPRESS_KINDS
};

/* "none", "fp16", "bf16", NULL: by enum gt_compress. */
extern const char *const gt_compress_names[GT_COMPRESS_KINDS + 1];

struct gt_parallel_options {
	enum gt_parallel_kind kind;
	int64_t bucket_bytes; /* bytes of gradients that one collective sums */
	int ranks, rank;      /* for a dry run, which has no world */
	int sharing;          /* likewise: ranks on this rank's device */
	bool forward;         /* nothing is trained: each rank holds all weights, no gradients */
	int stages;           /* of a pipeline; 0 or 1: none. They divide the ranks */
	int chunks;           /* parts of a batch in the pipeline; 0: as many as stages */
	enum gt_pipeline_schedule pipeline_schedule;
	enum gt_compress compress;
	bool sync_bn;      /* batch normalisation over all ranks' samples (sync_bn.h) */
	bool own_buffers;  /* every rank keeps its own running statistics */
	bool reproducible; /* give the same bits on 1, 2, 4 and 8 ranks: virtual/rewrite.h */
	int micro_batches; /* micro-batches of a step, which one run of the plan computes; 0 is 1 */
	int virtual_ranks; /* virtual ranks of this rank: gt_parallel_virtual_ranks(); 0 is 1 */
	int64_t check_every; /* steps between comparisons of the ranks' weights; 0: none */
	int tensor;          /* ranks that share each layer; 0 is 1 */
	bool sequence;       /* these ranks also divide the rows between layers: sequence.c */
	enum gt_dtype low;   /* mixed precision: as in struct gt_pass_options */
	bool low_sums;       /* likewise */
	/* way of device collectives (lib/comm/device_group.h); NULL: the fastest */
	const char *way;
	/* The optimizer that updates the weights. If ranks divide the updates, each tensor that
	 * this optimizer needs whole has one owner. */
	enum gt_optim_kind optimizer;
};

/* The ways in which ranks differ. Ranks of one axis differ only in the named way. */
enum gt_axis {
	GT_AXIS_DATA,   /* in the samples they read */
	GT_AXIS_TENSOR, /* in the shard of each layer that they hold: tensor.h */
	/* in nothing; it describes how ranks of the tensor axis work between layers */
	GT_AXIS_SEQUENCE,
	GT_AXIS_PIPELINE, /* in the part of the model they hold: pipeline.h */
	/* in nothing; one rank simulates several virtual ranks (virtual/rewrite.h) */
	GT_AXIS_VIRTUAL,
	GT_AXES
};

/* "data", "tensor", "sequence", "pipeline", "virtual" */
const char *gt_axis_name(enum gt_axis axis);

struct gt_parallel;
struct gt_device_way; /* lib/comm/device_group.h */

enum { GT_VIRTUAL_RANKS = 8 };

/*
 * The number of virtual ranks that each of `ranks` ranks simulates, with micro-batches of `batch`
 * samples. gt_parallel_check() has accepted the arguments. Without `reproducible` it is 1. With
 * `reproducible` the total number of virtual ranks is the largest power of two, at most
 * GT_VIRTUAL_RANKS, that divides the samples of a step; it does not depend on the number of ranks.
 */
int gt_parallel_virtual_ranks(const struct gt_parallel_options *options, int ranks, int batch);

/* Check that `ranks` ranks can train with these options and micro-batches of `batch` samples each.
 * Errors: GT_EINVAL, with the reason. */
int gt_parallel_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * The world is a grid. Each `tensor` neighbouring ranks share each layer; the ranks of a pipeline
 * stage have consecutive numbers; ranks that differ in nothing else form the data axis:
 *
 *   rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat
 *
 * Modes work on the data axis.
 *
 * gt_parallel_new() makes one rank's part in a run on the ranks of `world`, which outlives it.
 * NULL: a dry run of options->ranks ranks, whose plans are made but never run. In a world of one
 * rank, and with `forward`, every mode is the same: no collective is inserted. A collective call.
 * Errors: GT_ENOTSUP for `reproducible` on a world whose sums are not ordered (comm/group.h);
 * gt_parallel_attach() has the same error for `way`. Then, in this order: gt_parallel_rewrite() for
 * a graph, a store made of that graph, gt_parallel_attach(), memory for the store, programs.
 */
int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err);

/* Valid after gt_parallel_attach(): the kind of device groups that is used because a faster one
 * cannot be used, with the reason. NULL if the fastest kind, or the one that the caller asked for,
 * is used. */
const struct gt_device_way *gt_parallel_detour(const struct gt_parallel *p);

/* Device memory. */
struct gt_group_memory {
	uint64_t bytes;
	bool unknown; /* the memory of some groups is not known, and not in `bytes` */
};

/* Valid after gt_parallel_attach(): the device memory of this rank's groups, without that of
 * gt_group_alloc(), which is the store's. In a dry run, that of the groups which the ranks would
 * make. */
struct gt_group_memory gt_parallel_group_memory(const struct gt_parallel *p);

/* Give up collectives that were started and that no stream waits for, after an error. Call this
 * when the device's streams have ended their work, and before memory is freed. NULL is fine. */
void gt_parallel_stop(struct gt_parallel *p);

/* Free the store first. */
void gt_parallel_free(struct gt_parallel *p);

/* The ranks of an axis, as a group for host memory. If its size is 1, it may have no functions: do
 * not call it. */
struct gt_group *gt_parallel_axis(const struct gt_parallel *p, enum gt_axis axis);

/* The ranks whose losses and statistics must be added to get those of the model. Pipeline stages
 * that do not compute them have zeros. Ranks that share layers have equal values, so only one of
 * them is in the group. */
struct gt_group *gt_parallel_results(const struct gt_parallel *p);

/* This rank's number in the world. Rank 0 writes files. */
int gt_parallel_rank(const struct gt_parallel *p);

/* This rank's place on an axis, from 0 on. */
int gt_parallel_seat(const struct gt_parallel *p, enum gt_axis axis);

/* The fields of a sampler (lib/data/data.h) by which a rank reads the samples of training. */
struct gt_parallel_samples {
	int rank, world, batch, virtual_ranks;
	bool reads; /* otherwise rank 0 reads for it */
};

/* The fields for micro-batches of `batch` samples per rank. */
struct gt_parallel_samples gt_parallel_samples(const struct gt_parallel *p, int batch);

/* Rewrite a forward graph, before any other pass. Call this for the graph of the store's layout and
 * for every program. */
int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* The samples [*first, *first + *count) that this rank's model computes, of a training micro-batch
 * of `samples`: all of them, unless rank 0 reads for other ranks. */
void gt_parallel_part(const struct gt_parallel *p, int samples, int *first, int *count);

/* Call this after gt_parallel_rewrite() for a forward graph to train with. The graph is of a model
 * for this rank's samples (gt_parallel_part()), or for one sample if there are none. It becomes
 * this rank's part of a graph for `samples` samples. */
int gt_parallel_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);

/* Lay out a store, which has no memory yet, for the ranks: divide it as the axes do, and give it
 * memory that other ranks can access. This also opens the groups for device memory. A collective
 * call. */
int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);

/* The number of parts of a batch: one for each virtual rank of this rank, or the chunks of the
 * pipeline. These are options->chunks; if that does not divide the batch (a short last one), the
 * largest smaller number that does. */
int gt_parallel_chunks(const struct gt_parallel *p, int batch);

/* Whether these parts belong to virtual ranks. Then samples are distributed over the parts in turn,
 * and the gradients of the parts are summed as a tree. Otherwise parts are consecutive samples, and
 * their gradients add up like those of micro-batches. */
bool gt_parallel_parts_are_virtual(const struct gt_parallel *p);

/*
 * Rewrite a graph with a backward pass, after all other passes. The graph is for one of the
 * `chunks` parts of a batch; afterwards it computes all parts, with copies of its inputs and
 * outputs (replicate.h).
 */
int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);

/* The same for a graph without a backward pass. */
int gt_parallel_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Whether a forward pass is a collective call: ranks evaluate equal numbers of batches. */
bool gt_parallel_forward_together(const struct gt_parallel *p);

/* Whether the mode adds up the gradients of micro-batches: its graphs are those without
 * accumulation. */
bool gt_parallel_adds(const struct gt_parallel *p);

/* The kernels of the nodes that these passes make, for gt_plan_new(). */
const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p);

/*
 * The ranks hold three things for a slot: its data (parameters, buffers), the optimizer's states,
 * and its gradient after a step's last micro-batch, which is the sum over ranks. The store's slots
 * describe whole tensors; a rank may hold some elements of them, at places that the mode chooses.
 */
enum gt_held { GT_HELD_DATA, GT_HELD_STATE, GT_HELD_GRADIENT };

/* Whether rank 0 of the world may lack elements of the slot; the result is the same on all
 * ranks. */
bool gt_parallel_in_parts(
    const struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what);

/*
 * Gather a slot in host memory on rank 0 of the world, from the shards that ranks hold.
 *
 *   held   device: the flat memory of such things on this rank: the store's parameters, buffers
 *          or gradients, a state of the optimizer's
 *   whole  host: [slot->count]; on other ranks NULL
 *
 * A collective call of all ranks.
 */
int gt_parallel_collect(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    const void *held, void *whole, struct gt_err *err);

/* The other way: copy the elements that this rank holds from the whole, in host memory. Not a
 * collective call. */
int gt_parallel_deal(struct gt_parallel *p, const struct gt_slot *slot, enum gt_held what,
    void *held, const void *whole, struct gt_err *err);

/* Set the elements that this rank holds to their initial values, as gt_store_init() does. */
int gt_parallel_init(struct gt_parallel *p, uint64_t seed, struct gt_err *err);

/* Send rank 0's weights to all ranks, at the start of a run. If ranks hold shards of the
 * parameters, each rank has set its own, and only buffers are sent. A collective call. */
int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err);

/*
 * Send the buffers (running statistics) of rank 0 to all ranks, unless each rank keeps its own or
 * they are equal anyway. Call this before a step's first micro-batch, and before an evaluation. A
 * collective call. Source: torch.nn.parallel.DistributedDataParallel's broadcast_buffers.
 */
int gt_parallel_share_buffers(struct gt_parallel *p, struct gt_err *err);
bool gt_parallel_shares_buffers(const struct gt_parallel *p); /* whether it does anything */

/*
 * After the update of a step, counted from 1: compare checksums of each tensor, to check that all
 * ranks still have the same parameters (and buffers, if statistics are over all ranks). Every
 * check_every steps this is a collective call; in other steps it does nothing.
 *
 * Errors: GT_EDEVICE on all ranks, with the rank that differs, the step, and the tensor that
 *         differs first in the order of the state_dict. The weights of most ranks are right;
 *         where no more than half agree, those of rank 0.
 */
int gt_parallel_check_replicas(struct gt_parallel *p, int64_t step, struct gt_err *err);
bool gt_parallel_checks_replicas(const struct gt_parallel *p, int64_t step); /* likewise */

/*
 * After the micro-batches of a step: sum the losses and the requests to stop over all ranks, both
 * in scalars->result (device memory). The loss is zero on pipeline stages that do not compute it,
 * and equal on ranks that share layers. Queued; a collective call.
 */
int gt_parallel_agree(struct gt_parallel *p, struct gt_step_scalars *scalars, struct gt_err *err);

/* Bring the weights and buffers of all ranks up to date before an evaluation. A collective call. */
int gt_parallel_refresh(struct gt_parallel *p, struct gt_err *err);

/* Bytes that a rank sends in a step of `micro_batches` micro-batches. It receives as many. */
int64_t gt_parallel_sent(const struct gt_parallel *p, int micro_batches);

/* Update the weights once, when all gradients are complete: gt_optim_update(), or the mode's own
 * update. A collective call. */
int gt_parallel_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

/* Send the parameters that this rank updates to all ranks, after they were changed outside of an
 * update. A collective call. */
int gt_parallel_publish(struct gt_parallel *p, struct gt_err *err);

/* ---- for profiles ---- */

/* Whether nodes of this op communicate with other ranks, or wait for such nodes. */
bool gt_parallel_has_op(const char *name);

/* A collective that runs of plans and updates do in the background. */
struct gt_parallel_event {
	char what[48];       /* "bucket 3" is reduced, "gather of bucket 3" */
	struct gt_span span; /* the last time; 0 before */
};

/* [*count], in no order. */
const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count);

#endif
