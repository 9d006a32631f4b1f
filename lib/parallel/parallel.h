/* parallel.h - how the ranks of a run share its work. */
#ifndef GT_PARALLEL_PARALLEL_H
#define GT_PARALLEL_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/device/precision.h"
#include "lib/graph/plan.h"
#include "lib/optim/optim.h"

/*
 * This module combines the plans (lib/graph/plan.h) of all ranks into one training run. Graph
 * passes (functions that rewrite a graph, lib/graph/pass.h) insert collectives into a graph, and
 * kernels execute them. The training loop is in lib/train. The comments of the functions say
 * when the loop calls them. The loop calls the same functions in every mode.
 *
 * A mode is a kind of data parallelism, implemented by a table of functions (data/modes.h). All
 * modes are SPMD (single program, multiple data): each rank is in a group, builds the same graph,
 * and calls the same functions in the same order. "A collective call" means: all ranks must call
 * the function together.
 */

/* The modes. */
enum gt_parallel_kind {
	GT_PARALLEL_DDP,      /* every rank holds all weights; ranks add up their gradients */
	GT_PARALLEL_MIRRORED, /* as ddp, but ranks are threads of one process */
	/* ranks are threads; rank 0 reads the samples, holds the weights and updates them
	 * (data/dp.h) */
	GT_PARALLEL_DP,
	/* as ddp, but a rank updates only its shard, a part of the weights (data/zero.h) */
	GT_PARALLEL_ZERO1,
	GT_PARALLEL_ZERO2, /* as zero1, but a rank also keeps only the gradients of its shard */
	GT_PARALLEL_ZERO3, /* as zero2, but a rank also holds only its shard of the weights */
	GT_PARALLEL_KINDS
};

/* The names, indexed by enum gt_parallel_kind: "ddp", "mirrored", ...; NULL at the end. */
extern const char *const gt_parallel_names[GT_PARALLEL_KINDS + 1];

/* Return true if ranks are threads of one process (lib/comm/launch/threads.h), and false if each
 * rank is a process. */
bool gt_parallel_is_threads(enum gt_parallel_kind kind);

/* Return whether rank 0 reads the samples of all ranks. If so, a batch that rank 0 reads has the
 * samples of all ranks together. */
bool gt_parallel_reads_on_one(enum gt_parallel_kind kind);

/* The order in which a stage of a pipeline runs the chunks of a batch (pipeline/pipeline.h). */
enum gt_pipeline_schedule { GT_PIPELINE_GPIPE, GT_PIPELINE_1F1B, GT_PIPELINE_SCHEDULES };

/* The names, indexed by enum gt_pipeline_schedule: "gpipe", "1f1b"; NULL at the end. */
extern const char *const gt_pipeline_schedule_names[GT_PIPELINE_SCHEDULES + 1];

/* The data type in which gradients are sent. */
enum gt_compress {
	GT_COMPRESS_NONE,
	/* float16: absolute values above 65504 become infinite, values below 3e-8 become 0 */
	GT_COMPRESS_FP16,
	GT_COMPRESS_BF16, /* bfloat16: the range of float32, but only 8 bits of precision */
	GT_COMPRESS_KINDS
};

/* The names, indexed by enum gt_compress: "none", "fp16", "bf16"; NULL at the end. */
extern const char *const gt_compress_names[GT_COMPRESS_KINDS + 1];

struct gt_parallel_options {
	enum gt_parallel_kind kind;
	int64_t bucket_bytes; /* bytes of gradients that one collective sums */
	/* only for a dry run (gt_parallel_new()): number of ranks; the rank whose plans are made */
	int ranks, rank;
	int sharing;  /* only for a dry run: number of ranks that share this rank's device */
	bool forward; /* no training: each rank holds all weights, and no gradients */
	int stages;   /* stages of a pipeline, a divisor of the ranks; 0 or 1: no pipeline */
	int chunks;   /* parts of a batch in the pipeline; 0: as many as stages */
	enum gt_pipeline_schedule pipeline_schedule;
	enum gt_compress compress;
	bool sync_bn;     /* batch normalization over the samples of all ranks (data/sync_bn.h) */
	bool own_buffers; /* every rank keeps its own running statistics */
	/* Give the same bits on 1, 2, 4 and 8 ranks. For this, the ranks simulate virtual ranks.
	 * The number of virtual ranks does not depend on the number of ranks
	 * (virtual/rewrite.h). */
	bool reproducible;
	/* Number of micro-batches in a step; 0 means 1. With `reproducible`, one run of the plan
	 * computes all of them. */
	int micro_batches;
	/* number of virtual ranks (virtual/rewrite.h) that each rank simulates, from
	 * gt_parallel_virtual_ranks(); 0 means 1 */
	int virtual_ranks;
	int64_t check_every; /* steps between two comparisons of the ranks' weights; 0: never */
	int tensor;          /* number of ranks that share each layer; 0 means 1 */
	/* between layers, the ranks that share layers divide the rows (tokens) among them
	 * (tensor/sequence.c) */
	bool sequence;
	struct gt_precision precision; /* in which the ranks compute */
	/* name of the kind of groups for device memory, called a way in lib/comm/device_group.h;
	 * NULL: the fastest way */
	const char *way;
	/* The optimizer that updates the weights. Some optimizers must update certain tensors as a
	 * whole. If ranks divide the updates, one rank updates all of such a tensor. */
	enum gt_optim_kind optimizer;
};

/* The axes of the grid of ranks (gt_parallel_new()). Ranks of one axis differ only in the property
 * that the comment names. */
enum gt_axis {
	GT_AXIS_DATA,   /* the samples that a rank reads */
	GT_AXIS_TENSOR, /* the shard of each layer that a rank holds (tensor/tensor.h) */
	/* not in the grid: uses the ranks of the tensor axis (tensor/sequence.c) */
	GT_AXIS_SEQUENCE,
	GT_AXIS_PIPELINE, /* the stage of the model that a rank holds (pipeline/pipeline.h) */
	/* not in the grid: one rank simulates several virtual ranks (virtual/rewrite.h) */
	GT_AXIS_VIRTUAL,
	GT_AXES
};

/* Return the name of an axis: "data", "tensor", "sequence", "pipeline", "virtual". */
const char *gt_axis_name(enum gt_axis axis);

struct gt_parallel;
struct gt_device_way; /* lib/comm/device_group.h */

/* The largest number of virtual ranks of all ranks together. */
enum { GT_VIRTUAL_RANKS = 8 };

/*
 * Return the number of virtual ranks that each of `ranks` ranks simulates, if a micro-batch has
 * `batch` samples. gt_parallel_check() must have accepted the arguments. Without
 * options->reproducible the result is 1. With options->reproducible, all ranks together have a
 * number of virtual ranks that depends only on the number of samples in a step. It is the largest
 * power of two, at most GT_VIRTUAL_RANKS, that divides the number of samples.
 */
int gt_parallel_virtual_ranks(const struct gt_parallel_options *options, int ranks, int batch);

/* Check that `ranks` ranks can train with these options and micro-batches of `batch` samples each.
 * Errors: GT_EINVAL, with the reason. */
int gt_parallel_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * The world, which is the group of all ranks, is a grid. Its dimensions are called axes. The seat
 * of a rank on an axis is its coordinate in this dimension, from 0 on:
 *
 *   rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat
 *
 * So the ranks that share layers have consecutive numbers, and so do the ranks of a pipeline stage.
 * Modes work on the data axis.
 *
 * gt_parallel_new() creates the object of one rank of `world`. `world` must outlive the object. If
 * `world` is NULL, this is a dry run of options->ranks ranks: plans are made, but never run. All
 * modes do the same, and insert no collectives, in two cases: options->forward is set; the world
 * has one rank, and options->reproducible is not set. A collective call. The caller frees *out.
 *
 * Errors: GT_ENOTSUP if `reproducible` is set, but `world` is not an ordered group, a group that
 * adds in a fixed order (lib/comm/group.h). gt_parallel_attach() returns GT_ENOTSUP if groups of
 * the kind options->way are not ordered.
 *
 * Call next, in this order: gt_parallel_rewrite() for a graph, gt_store_new() with that graph,
 * gt_parallel_attach(), gt_store_alloc(). After these calls, make the programs, which are graphs
 * with their plans (lib/train/program.h). The store (lib/store/store.h) holds the parameters,
 * gradients and buffers.
 */
int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err);

/* A way is a kind of groups for device memory (lib/comm/device_group.h). Return NULL if this run
 * uses the fastest way, or the way that options->way asks for. Otherwise, return the way that this
 * run uses; its member `why` has the reasons why no faster way can be used. Valid after
 * gt_parallel_attach(). */
const struct gt_device_way *gt_parallel_detour(const struct gt_parallel *p);

/* Return the name of the group for the memory of the device that all ranks of a run form: "shm",
 * "mpi", "ring", "nccl", "staged". Call this only if there are several ranks, and not for a dry
 * run. */
const char *gt_parallel_backend(const struct gt_parallel *p);

/* Device memory of groups. */
struct gt_group_memory {
	uint64_t bytes;
	bool unknown; /* some groups use memory of unknown size, which `bytes` does not include */
};

/* Return the device memory of this rank's groups. Memory from gt_group_alloc() is not included,
 * because it belongs to the store. A dry run returns the memory of the groups that a run would
 * make. Valid after gt_parallel_attach(). */
struct gt_group_memory gt_parallel_group_memory(const struct gt_parallel *p);

/* After an error: cancel all collectives that run in the background and that no stream waits for.
 * Call this when the device's streams have ended their work, and before memory is freed. NULL is
 * fine. */
void gt_parallel_stop(struct gt_parallel *p);

/* Free the object; NULL is fine. Free the store first. */
void gt_parallel_free(struct gt_parallel *p);

/* Return a group for host memory that consists of this rank and the other ranks of an axis. If the
 * size of the group is 1, do not call functions of the group, because the group may have no
 * functions. Borrowed from p. */
struct gt_group *gt_parallel_axis(const struct gt_parallel *p, enum gt_axis axis);

/* Return the group over which losses and statistics are summed; these sums are the results of the
 * model. It is a group for host memory. Pipeline stages that do not compute results have zeros.
 * Ranks that share layers have equal results, so only one of them is in the group. Borrowed from
 * p. */
struct gt_group *gt_parallel_results(const struct gt_parallel *p);

/* Return this rank's number in the world. Rank 0 writes files. */
int gt_parallel_rank(const struct gt_parallel *p);

/* Return this rank's seat on an axis. */
int gt_parallel_seat(const struct gt_parallel *p, enum gt_axis axis);

/* Fields of struct gt_sampler (lib/data/core/data.h), which chooses the training samples that a
 * rank reads. */
struct gt_parallel_samples {
	int rank, world, batch, virtual_ranks;
	bool reads; /* this rank reads samples; false: rank 0 reads for it */
};

/* Return the sampler fields for micro-batches of `batch` samples per rank. */
struct gt_parallel_samples gt_parallel_samples(const struct gt_parallel *p, int batch);

/* Rewrite a forward graph, before any other pass. Call this for the graph of gt_store_new(), and
 * for the graph of every program. */
int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Set *first and *count: this rank computes the samples [*first, *first + *count) of a training
 * micro-batch of `samples` samples. The range has all samples, unless rank 0 reads for all ranks.
 */
void gt_parallel_part(const struct gt_parallel *p, int samples, int *first, int *count);

/* Rewrite a forward graph for training if rank 0 reads for all ranks; otherwise do nothing. Before
 * the call, the graph is for the samples of this rank (gt_parallel_part()), or for one sample if
 * this rank has none. Afterwards it is this rank's part of a graph for `samples` samples. Call this
 * after gt_parallel_rewrite(). */
int gt_parallel_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);

/* Change the layout of a store for this rank: divide it as the axes require, and lend it memory
 * that other ranks can access. For mixed precision, also request working copies of the parameters
 * (gt_store_keep_copies()), unless the store holds only parts of them. Also open the groups for
 * device memory. The store must not have allocated its memory yet. A collective call. */
int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);

/* Return the number of parts into which a batch of this rank is divided. With `reproducible` it is
 * the number of virtual ranks of this rank. In a pipeline it is the largest divisor of `batch` that
 * is not above options->chunks (if that is 0, options->stages). In all other cases it is 1. */
int gt_parallel_chunks(const struct gt_parallel *p, int batch);

/* Return whether the parts of a batch belong to virtual ranks. If so, the samples are distributed
 * over the parts one by one (round robin), and the gradients of the parts are summed as a tree. If
 * not, each part has consecutive samples, and the gradients of the parts are added up one after the
 * other, as for micro-batches. */
bool gt_parallel_parts_are_virtual(const struct gt_parallel *p);

/*
 * Rewrite a graph with a backward pass, after all other passes. Before the call, the graph is for
 * one of the `chunks` parts of a batch. Afterwards it computes all parts, and has a copy of each
 * input and output for each part (replicate.h).
 */
int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);

/* Rewrite a graph without a backward pass, after all other passes. */
int gt_parallel_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Return whether a forward pass is a collective call of all ranks of the data axis. If so, these
 * ranks must evaluate the same number of batches. */
bool gt_parallel_forward_together(const struct gt_parallel *p);

/* Return whether the mode itself adds up the gradients of micro-batches. If so, make graphs without
 * gt_pass_options.accumulate. */
bool gt_parallel_adds(const struct gt_parallel *p);

/* Return the kernels of the nodes that gt_parallel_rewrite() and the other passes above insert, for
 * gt_plan_new(). Borrowed from p. */
const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p);

/* ---- whole.c: tensors of all ranks. A tensor is a slot in a plane (lib/store/store.h): the slot
 * describes the whole tensor, but a rank may hold only some of its elements. ---- */

/* Return whether rank 0 of the world may lack elements of the tensor. The result is the same on all
 * ranks. */
bool gt_parallel_is_sharded(
    const struct gt_parallel *p, const struct gt_plane *plane, const struct gt_slot *slot);

/* Gather the elements [first, first + count) of a tensor from all ranks, and write them to `out`,
 * host memory of rank 0 of the world; other ranks do not use `out`. A collective call, but for
 * tensors that are not sharded. */
int gt_parallel_gather_slot(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err);

/* The reverse for a whole tensor: copy the elements that this rank holds from `whole` to the plane.
 * `whole` has all elements, [slot->count], in host memory on every rank. Not a collective call. */
int gt_parallel_scatter_slot(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, const void *whole, struct gt_err *err);

/* ---- serve.c: rank 0 reads tensors in an order that the other ranks do not know ---- */

/* On ranks other than 0: take part in the gathers of gt_parallel_fetch(), until rank 0 calls
 * gt_parallel_end_fetches(). */
int gt_parallel_serve(struct gt_parallel *p, struct gt_err *err);

/* On rank 0, while the other ranks are in gt_parallel_serve(): gt_parallel_gather_slot(). Several
 * threads may call this at once. */
int gt_parallel_fetch(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err);

/* On rank 0: let the other ranks return from gt_parallel_serve(). */
int gt_parallel_end_fetches(struct gt_parallel *p, struct gt_err *err);

/* Set the elements that this rank holds to their initial values: the same values that
 * gt_store_init() sets in whole parameters. */
int gt_parallel_init(struct gt_parallel *p, uint64_t seed, struct gt_err *err);

/* Send the parameters and buffers of data seat 0 to the other seats of the data axis, at the start
 * of a run. If ranks hold shards of the parameters (zero3), each rank has already set its shard,
 * and only buffers are sent. A collective call. */
int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err);

/*
 * Send the buffers (running statistics) of data seat 0 to the other seats of the data axis. Do
 * nothing in three cases: options->own_buffers is set; options->sync_bn is set, which keeps the
 * buffers equal; the mode is dp, in which gt_parallel_refresh() sends the buffers. Call this before
 * the first micro-batch of a step, and before an evaluation. A collective call. Source:
 * broadcast_buffers of torch.nn.parallel.DistributedDataParallel.
 */
int gt_parallel_share_buffers(struct gt_parallel *p, struct gt_err *err);
/* Return whether gt_parallel_share_buffers() sends anything. */
bool gt_parallel_shares_buffers(const struct gt_parallel *p);

/*
 * Check that all ranks of the data axis still have the same parameters, by checksums of each
 * tensor. With sync_bn, buffers are compared too. Call this after the update of each step; steps
 * are counted from 1. Every options->check_every steps this is a collective call; in other steps it
 * does nothing.
 *
 * Errors: GT_EDEVICE on all ranks of the axis. The text names the ranks that differ, the step, and
 *         the first tensor that differs in the order of the state_dict. Ranks are compared with the
 *         majority. If no more than half of the ranks agree, they are compared with data seat 0.
 */
int gt_parallel_check_replicas(struct gt_parallel *p, int64_t step, struct gt_err *err);
/* Return whether gt_parallel_check_replicas() compares anything after this step. */
bool gt_parallel_checks_replicas(const struct gt_parallel *p, int64_t step);

/*
 * Queue two sums over ranks, in place: scalars->result.loss over gt_parallel_results(), and
 * scalars->result.stop (requests to stop) over all ranks. `scalars` is in device memory. Call this
 * after the micro-batches of a step. A collective call.
 */
int gt_parallel_sum_scalars(
    struct gt_parallel *p, struct gt_step_scalars *scalars, struct gt_err *err);

/* Bring the weights and buffers of all ranks up to date before an evaluation. A collective call. */
int gt_parallel_refresh(struct gt_parallel *p, struct gt_err *err);

/* Return the number of bytes that a rank sends in a step of `micro_batches` micro-batches. The rank
 * receives as many. */
int64_t gt_parallel_sent(const struct gt_parallel *p, int micro_batches);

/* Update the weights once, after all gradients are complete. Most modes call gt_optim_update() with
 * the norm of the gradients over all ranks. A collective call. */
int gt_parallel_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

/* Send the parameters that this rank updates to the other ranks that need them. Call this after
 * code other than gt_parallel_update() has changed parameters. A collective call. */
int gt_parallel_publish(struct gt_parallel *p, struct gt_err *err);

/* ---- for profiles ---- */

/* Return whether nodes of the op `name` communicate with other ranks, or wait for such nodes. */
bool gt_parallel_has_op(const char *name);

/* A collective that plans or updates run in the background. */
struct gt_parallel_event {
	char what[48];       /* "bucket 3" for its reduction, or "gather of bucket 3" */
	struct gt_span span; /* time span of the latest such collective; zeros if there was none */
};

/* Return the list of these collectives, [*count], in any order. Borrowed from p. Only groups for
 * host memory set the spans in this list. For groups for device memory, gt_parallel_watch() gives
 * the spans. */
const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count);

/* Watch the collectives of groups for device memory: from now on, measure the time span of
 * collective i of gt_parallel_events() with `marks` (lib/device/marks.h), and write it to spans[i].
 * `spans` has an element for each collective; if a collective does not run, its element is not set.
 * If `marks` is NULL, stop watching. */
void gt_parallel_watch(struct gt_parallel *p, struct gt_marks *marks, struct gt_span *spans);

#endif
