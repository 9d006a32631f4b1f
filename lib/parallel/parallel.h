/* parallel.h - how the ranks of a run share its work. */
#ifndef GT_PARALLEL_PARALLEL_H
#define GT_PARALLEL_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/comm/group.h"
#include "lib/device/precision.h"
#include "lib/graph/plan.h"
#include "lib/optim/optim.h"

/* This module joins the plans (lib/graph/plan.h) of all ranks to one training run, by collectives
 * that it inserts into graphs. The training loop (lib/train) calls the same functions in every
 * mode, a kind of data parallelism (data/modes.h). "A collective call" means that all ranks call
 * the function together, in the same order. */

/* The modes. */
enum gt_parallel_kind {
	GT_PARALLEL_DDP,      /* ranks hold all weights, and add up gradients */
	GT_PARALLEL_MIRRORED, /* ranks are threads of one process; else as ddp */
	/* ranks are threads; rank 0 reads samples and updates weights (data/dp.h) */
	GT_PARALLEL_DP,
	/* each rank updates only its shard of the weights (data/zero.h); else as ddp */
	GT_PARALLEL_ZERO1,
	GT_PARALLEL_ZERO2, /* each rank also keeps only its shard of gradients */
	GT_PARALLEL_ZERO3, /* each rank also holds only its shard of weights */
	GT_PARALLEL_KINDS
};

/* "ddp", "mirrored", ...; NULL at the end. */
extern const char *const gt_parallel_names[GT_PARALLEL_KINDS + 1];

/* Return whether ranks are threads of one process (lib/comm/launch/threads.h). */
bool gt_parallel_is_threads(enum gt_parallel_kind kind);

/* Return whether rank 0 reads the samples of all ranks as one batch. */
bool gt_parallel_reads_on_one(enum gt_parallel_kind kind);

/* The order of a stage's chunks (pipeline/pipeline.h). */
enum gt_pipeline_schedule { GT_PIPELINE_GPIPE, GT_PIPELINE_1F1B, GT_PIPELINE_SCHEDULES };

/* "gpipe", "1f1b"; NULL at the end. */
extern const char *const gt_pipeline_schedule_names[GT_PIPELINE_SCHEDULES + 1];

/* The data type in which gradients are sent. */
enum gt_compress {
	GT_COMPRESS_NONE,
	/* float16: absolute values above 65504 become infinite, values below 3e-8 become 0 */
	GT_COMPRESS_FP16,
	GT_COMPRESS_BF16, /* bfloat16: the range of float32, but only 8 bits of precision */
	GT_COMPRESS_KINDS
};

/* "none", "fp16", "bf16"; NULL at the end. */
extern const char *const gt_compress_names[GT_COMPRESS_KINDS + 1];

struct gt_parallel_options {
	enum gt_parallel_kind kind;
	int64_t bucket_bytes; /* gradients that one collective sums */
	/* dry run: number of ranks; the rank whose plans are made */
	int ranks, rank;
	int sharing;  /* dry run: ranks that share the device */
	bool forward; /* no training, and all weights on each rank */
	int stages;   /* stages of a pipeline; 0 or 1: none */
	int chunks;   /* parts of a batch in it; 0: one per stage */
	enum gt_pipeline_schedule pipeline_schedule;
	enum gt_compress compress;
	bool sync_bn;     /* batch norm over all ranks' samples (data/sync_bn.h) */
	bool own_buffers; /* ranks keep their own running statistics */
	/* give the same bits on 1, 2, 4 and 8 ranks (virtual/rewrite.h) */
	bool reproducible;
	/* micro-batches in a step; 0 means 1; one run of a `reproducible` plan computes all */
	int micro_batches;
	/* virtual ranks per rank, from gt_parallel_virtual_ranks(); 0 means 1 */
	int virtual_ranks;
	int64_t check_every; /* steps between comparisons of weights; 0: never */
	int tensor;          /* ranks that share each layer; 0 means 1 */
	/* the ranks that share layers divide rows between them (tensor/sequence.c) */
	bool sequence;
	struct gt_precision precision; /* the types in which ranks compute */
	/* name of a way (lib/comm/device_group.h); NULL: the fastest */
	const char *way;
	/* some optimizers update tensors as a whole, each on one rank */
	enum gt_optim_kind optimizer;
};

/* The axes of the grid of ranks (gt_parallel_new()): ranks of an axis differ in this. */
enum gt_axis {
	GT_AXIS_DATA,   /* the samples */
	GT_AXIS_TENSOR, /* the shard of each layer (tensor/tensor.h) */
	/* not in the grid: the rows, on the tensor axis (tensor/sequence.c) */
	GT_AXIS_SEQUENCE,
	GT_AXIS_PIPELINE, /* the stage of the model (pipeline/pipeline.h) */
	/* not in the grid: virtual ranks (virtual/rewrite.h) */
	GT_AXIS_VIRTUAL,
	GT_AXES
};

/* Return "data", "tensor", "sequence", "pipeline" or "virtual". */
const char *gt_axis_name(enum gt_axis axis);

struct gt_parallel;
struct gt_device_way; /* lib/comm/device_group.h */

/* the most virtual ranks of all ranks together */
enum { GT_VIRTUAL_RANKS = 8 };

/* Return how many virtual ranks each of `ranks` ranks simulates, for micro-batches of `batch`
 * samples. gt_parallel_check() comes first. */
int gt_parallel_virtual_ranks(const struct gt_parallel_options *options, int ranks, int batch);

/* Return how many of `ranks` ranks have a place on the data axis: each of these takes a micro-batch
 * of its own. 0: there are too few ranks for one copy of the model. */
int gt_parallel_data_ranks(const struct gt_parallel_options *options, int ranks);

/* Check the options for `ranks` ranks and micro-batches of `batch` samples. Errors: GT_EINVAL, with
 * the reason. */
int gt_parallel_check(
    const struct gt_parallel_options *options, int ranks, int batch, struct gt_err *err);

/*
 * The world, the group of all ranks, is a grid of axes; the seat of a rank is its coordinate:
 *
 *   rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat
 *
 * Create the object of one rank. `world` outlives it; NULL is a dry run, which makes plans that
 * never run. With options->forward, and for one rank unless `reproducible`, no collectives are
 * inserted. A collective call; the caller frees *out. Errors: GT_ENOTSUP for `reproducible` with
 * groups that are not ordered (lib/comm/group.h), also from gt_parallel_attach().
 *
 * Call next: gt_parallel_rewrite() for a graph, gt_store_new() with it, gt_parallel_attach(),
 * gt_store_alloc(); then make the programs (lib/train/program.h).
 */
int gt_parallel_new(struct gt_parallel **out, const struct gt_parallel_options *options,
    struct gt_group *world, struct gt_err *err);

/* Return the way that the run uses (lib/comm/device_group.h) if it is neither the fastest nor asked
 * for, with the reasons in its `why`; else NULL. Valid after gt_parallel_attach(). */
const struct gt_device_way *gt_parallel_detour(const struct gt_parallel *p);

/* Return the name of the group of all ranks for device memory: "shm", "mpi", "ring", "nccl",
 * "staged". For several ranks, and no dry run. */
const char *gt_parallel_backend(const struct gt_parallel *p);

/* Device memory of groups; on a CPU, that of a pipeline's messages. */
struct gt_group_memory {
	uint64_t bytes;
	bool unknown; /* more memory of unknown size is used */
};

/* Return the device memory of this rank's groups, without that of gt_group_alloc(). Valid after
 * gt_parallel_attach(). */
struct gt_group_memory gt_parallel_group_memory(const struct gt_parallel *p);

/* After an error, when the device's streams have ended, and before memory is freed: cancel
 * collectives in the background. NULL is fine. */
void gt_parallel_stop(struct gt_parallel *p);

/* Free the object; NULL is fine. Free the store first. */
void gt_parallel_free(struct gt_parallel *p);

/* Return the group of an axis, for host memory, borrowed. If its size is 1, do not call its
 * functions. */
struct gt_group *gt_parallel_axis(const struct gt_parallel *p, enum gt_axis axis);

/* Return the group that sums losses and statistics, for host memory, borrowed. One of the ranks
 * that share layers is in it. */
struct gt_group *gt_parallel_results(const struct gt_parallel *p);

/* Return this rank's number. Rank 0 writes files. */
int gt_parallel_rank(const struct gt_parallel *p);

/* Return this rank's seat on an axis. */
int gt_parallel_seat(const struct gt_parallel *p, enum gt_axis axis);

/* Fields of struct gt_sampler (lib/data/core/data.h). */
struct gt_parallel_samples {
	int rank, world, batch, virtual_ranks;
	bool reads; /* false: rank 0 reads for it */
};

/* Return them for micro-batches of `batch` samples per rank. */
struct gt_parallel_samples gt_parallel_samples(const struct gt_parallel *p, int batch);

/* Rewrite a forward graph, before any other pass: that of gt_store_new(), and every program's. */
int gt_parallel_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Set *first and *count to this rank's samples of a training micro-batch: all, unless rank 0 reads
 * for all ranks. */
void gt_parallel_part(const struct gt_parallel *p, int samples, int *first, int *count);

/* Rewrite a training graph for this rank's samples (gt_parallel_part()), or for one if it has none,
 * to its part of a graph for `samples` samples, if rank 0 reads for all ranks. Call this after
 * gt_parallel_rewrite(). */
int gt_parallel_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);

/* Divide a store as the axes require, lend it memory of groups, ask it for working copies of whole
 * parameters, and open groups for device memory. The store has not allocated yet. A collective
 * call. */
int gt_parallel_attach(struct gt_parallel *p, struct gt_store *store, struct gt_err *err);

/* Return the parts of a batch of this rank: virtual ranks, chunks of a pipeline, or 1. */
int gt_parallel_chunks(const struct gt_parallel *p, int batch);

/* Return whether parts belong to virtual ranks: samples go to them one by one, and gradients are
 * summed as a tree. Otherwise parts are like micro-batches. */
bool gt_parallel_parts_are_virtual(const struct gt_parallel *p);

/* Rewrite the graph of one of `chunks` parts of a batch, with its backward pass, after all other
 * passes, to a graph of all parts, with inputs and outputs for each (replicate.h). */
int gt_parallel_insert(struct gt_parallel *p, struct gt_graph *g, int chunks, struct gt_err *err);

/* Rewrite a graph without a backward pass, after all other passes. */
int gt_parallel_insert_forward(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err);

/* Return whether a forward pass is a collective call of the data axis. */
bool gt_parallel_forward_together(const struct gt_parallel *p);

/* Return whether the mode adds up the gradients of micro-batches: make graphs without
 * gt_pass_options.accumulate, unless a batch has several parts that are not virtual. */
bool gt_parallel_adds(const struct gt_parallel *p);

/* Return the kernels of inserted nodes for gt_plan_new(), borrowed. */
const struct gt_plan_extra *gt_parallel_kernels(struct gt_parallel *p);

/* ---- whole.c: tensors, slots in planes (lib/store/store.h), of which ranks may hold parts ---- */

/* Return whether rank 0 may lack elements of a tensor. All ranks agree. */
bool gt_parallel_is_sharded(
    const struct gt_parallel *p, const struct gt_plane *plane, const struct gt_slot *slot);

/* Gather elements of a tensor to `out`, in host memory of rank 0. A collective call if it is
 * sharded. */
int gt_parallel_gather_slot(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err);

/* Copy the elements that this rank holds from `whole` [slot->count], in host memory. Not a
 * collective call. */
int gt_parallel_scatter_slot(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, const void *whole, struct gt_err *err);

/* ---- own.c: each rank writes a part of every tensor ---- */

/* Return whether all seats of the data axis have the same elements of a tensor, so that any of them
 * can write these. All ranks agree. */
bool gt_parallel_is_replicated(
    const struct gt_parallel *p, const struct gt_plane *plane, const struct gt_slot *slot);

/* A run: the elements [first, first + count) of a whole tensor. */
typedef int gt_parallel_run_fn(void *self, int64_t first, int64_t count, struct gt_err *err);

/* Call fn for each run of elements of a tensor that this rank is to write, in ascending order. The
 * ranks' runs together have each element once. `writer`: the data seat that writes elements which
 * all data seats hold; 0 unless the tensor is replicated. Stops at the first error of fn. */
int gt_parallel_walk_own(const struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int writer, gt_parallel_run_fn *fn, void *self, struct gt_err *err);

/* Read some of these elements, counted in the order of the runs, to host memory. Any thread may
 * call this. */
int gt_parallel_read_own(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err);

/* ---- serve.c: rank 0 reads tensors in any order ---- */

/* Other ranks: take part in gathers until gt_parallel_end_fetches(). */
int gt_parallel_serve(struct gt_parallel *p, struct gt_err *err);

/* Rank 0, meanwhile, in any thread: gt_parallel_gather_slot(). */
int gt_parallel_fetch(struct gt_parallel *p, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, void *out, struct gt_err *err);

/* Rank 0: let the others return. */
int gt_parallel_end_fetches(struct gt_parallel *p, struct gt_err *err);

/* ---- parallel.c, data/replicas.c: the run ---- */

/* Set the elements that this rank holds to the initial values of gt_store_init(). */
int gt_parallel_init(struct gt_parallel *p, uint64_t seed, struct gt_err *err);

/* Send what data seat 0 has to the other data seats, at the start of a run: parameters, unless they
 * are sharded, and buffers. A collective call. */
int gt_parallel_begin(struct gt_parallel *p, struct gt_err *err);

/* Send the buffers of data seat 0 to the other seats, unless options keep them apart or equal. Call
 * this before a step's first micro-batch, and before an evaluation. A collective call. */
int gt_parallel_share_buffers(struct gt_parallel *p, struct gt_err *err);
/* Return whether it sends anything. */
bool gt_parallel_shares_buffers(const struct gt_parallel *p);

/* Check after step `step`, counted from 1, that data seats have the same parameters. Every
 * options->check_every steps this is a collective call. GT_EDEVICE on all ranks names the ranks and
 * the tensor that differ. */
int gt_parallel_check_replicas(struct gt_parallel *p, int64_t step, struct gt_err *err);
/* Return whether it compares anything. */
bool gt_parallel_checks_replicas(const struct gt_parallel *p, int64_t step);

/* Queue sums over ranks, in device memory, after the micro-batches of a step: result.loss over
 * gt_parallel_results(), result.stop over all. A collective call. */
int gt_parallel_sum_scalars(
    struct gt_parallel *p, struct gt_step_scalars *scalars, struct gt_err *err);

/* Bring weights and buffers up to date for an evaluation. A collective call. */
int gt_parallel_refresh(struct gt_parallel *p, struct gt_err *err);

/* Return the bytes that a rank sends, and receives, in a step. */
int64_t gt_parallel_sent(const struct gt_parallel *p, int micro_batches);

/* Update the weights, when all gradients are complete. A collective call. */
int gt_parallel_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

/* Send the parameters that this rank updates to others, after other code has changed them. A
 * collective call. */
int gt_parallel_publish(struct gt_parallel *p, struct gt_err *err);

/* ---- for profiles ---- */

/* Return whether nodes of an op communicate with other ranks, or wait for it. */
bool gt_parallel_has_op(const char *name);

/* A collective in the background. */
struct gt_parallel_event {
	char what[48];       /* "bucket 3", or "gather of bucket 3" */
	struct gt_span span; /* the time span of the latest one; zeros: none */
};

/* Return these, [*count], borrowed. Groups for device memory set no spans here: see
 * gt_parallel_watch(). */
const struct gt_parallel_event *gt_parallel_events(const struct gt_parallel *p, size_t *count);

/* Return the collective of gt_parallel_events() that a node starts, or -1. */
int gt_parallel_started(const struct gt_parallel *p, const struct gt_node *node);

/* From now on, measure collective i of gt_parallel_events() by `marks` (lib/device/marks.h), and
 * write spans[i], for groups for device memory. NULL: stop. */
void gt_parallel_watch(struct gt_parallel *p, struct gt_marks *marks, struct gt_span *spans);

#endif
