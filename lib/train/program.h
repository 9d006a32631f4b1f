/* program.h - an executable model for one batch size and purpose: graph, passes, plan. */
#ifndef GT_TRAIN_PROGRAM_H
#define GT_TRAIN_PROGRAM_H

#include "lib/data/core/data.h"
#include "lib/graph/pass.h"
#include "lib/graph/plan.h"
#include "lib/model/model.h"
#include "lib/parallel/parallel.h"

/*
 * The programs of a model share a store, the memory of weights and gradients (lib/store/store.h).
 * They also share an arena, the memory of temporary values, because only one program runs at a
 * time.
 *
 * In training, a plan may compute a batch in several chunks: the chunks of a pipeline
 * (gt_parallel_chunks()), or one chunk for each virtual rank. Virtual ranks are ranks that this
 * rank simulates for --reproducible (lib/parallel/virtual/rewrite.h). Each chunk has its own inputs
 * and outputs.
 */
struct gt_program {
	struct gt_graph *graph;
	struct gt_model_io io; /* inputs and outputs of chunk 0 */
	struct gt_plan *plan;
	/* samples in a batch; if rank 0 reads for all ranks, the samples of all ranks */
	int batch;
	int chunks; /* number of chunks in a batch */
	/* if rank 0 reads for all ranks, and a batch has several chunks: the number of ranks to
	 * which rank 0 scatters the batch; otherwise 1 */
	int rank_parts;
	/* the blocks of the model that are computed again in the backward pass, to save memory: how
	 * many can be computed again, and how many are computed again (pass.h) */
	struct gt_recompute recompute;
	bool virtual_parts; /* chunks belong to virtual ranks: gt_parallel_parts_are_virtual() */
	/* [chunks - 1] inputs and outputs of the chunks after chunk 0 */
	struct gt_model_io *others;
	size_t input_bytes, target_bytes; /* sizes of the input and of the targets of a batch */

	const struct gt_device *device;

	/* gt_program_bind() allocates the memory and the events below. */

	/* device memory [input_bytes + target_bytes]: a batch is stored in it, and then copied to
	 * the inputs. NULL if device memory is host memory */
	char *staging;
	/* device memory [chunks]: copies of the losses of all chunks, to be added up. NULL if there
	 * is only one chunk */
	float *losses;
	/* Pinned host memory: [setting_count][setting_bytes]. A row holds the loss weight and the
	 * random number counters of one run of the plan. Calls of gt_program_set() use the rows in
	 * turn. */
	char *settings;
	size_t setting_bytes;
	int setting_count;
	/* set: number of calls of gt_program_set() so far; fed: number of calls of
	 * gt_program_feed() so far */
	int64_t set, fed;
	/* [setting_count]: event i is done when row i of `settings` has been copied to the
	 * device */
	struct gt_event **settings_copied;
	/* Done when a batch has been copied from host memory. Calls of gt_program_feed() use the
	 * two events in turn. */
	struct gt_event *batch_copied[2];
	struct gt_event *staging_read; /* done when the batch has been copied from `staging` */
};

/* Make a request for opening a data set, with the sample shape that the model expects. Each of
 * `ranks` ranks of this host opens the data set; together the ranks may use half of the host's
 * memory. `seed` is the seed of the run. */
void gt_data_request_of(
    struct gt_data_request *out, const struct gt_model *model, uint64_t seed, int ranks);

/* Make the store that all programs of this model share. The positions of all tensors in the store
 * are set, but the store has no memory yet. The caller frees *out by gt_store_free(). A collective
 * call of the ranks of `parallel`. */
int gt_program_store(struct gt_store **out, const struct gt_model *model,
    const struct gt_model_input *in, const struct gt_device *device, bool with_gradients,
    struct gt_parallel *parallel, struct gt_err *err);

struct gt_program_options {
	const struct gt_model *model;
	const struct gt_model_input *input;
	enum gt_model_purpose purpose;
	struct gt_store *store; /* from gt_program_store() */
	/* the gradients of several runs of the plan, or of several chunks, are added up in a
	 * step */
	bool accumulate;
	int runs; /* runs of the plan in a step; 0 means 1 */
	/* largest number of blocks of the model to compute again in the backward pass */
	int recompute;
	struct gt_parallel *parallel; /* as passed to gt_program_store() */
	struct gt_precision precision;
};

/* Build the graph of a program for `batch` samples, run the passes on it, and make its plan. If the
 * graph has caches of keys and values (GT_MODEL_CONTINUE), call this before the store gets its
 * memory. On failure, this function zeroes *out. */
int gt_program_init(struct gt_program *out, const struct gt_program_options *options, int batch,
    struct gt_err *err);
void gt_program_release(struct gt_program *p);

/* Let the plan use the memory `arena`, which is borrowed. Allocate device memory for batches and
 * losses, and pinned host memory for settings. Errors: any error of the backend. */
int gt_program_bind(struct gt_program *p, void *arena, struct gt_err *err);

/* ---- the functions up to the heading feeder.c queue work on the device's compute stream ---- */

/*
 * Copy a batch to the inputs of this rank's plan. The batch must have exactly p->batch samples. An
 * input or targets that the plan does not have, as in some pipeline stages, are not copied. The
 * memory of the batch is in use until the event of gt_program_fed() is done.
 *
 * If the device has its own memory, the batch is first copied to staging memory on the device's
 * copy stream. So the copy can run during the previous run of the plan.
 */
int gt_program_feed(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);

/* Return the event that is done when the batch of the last gt_program_feed() has been copied. The
 * program owns the event. The next call of gt_program_feed() uses another event; the call after
 * that uses this event again. */
struct gt_event *gt_program_fed(const struct gt_program *p);

/* Set the weight of each target's loss, and the random number counters `rng` of the batch's first
 * sample (enum gt_rng_field). Call this before each run in training. */
int gt_program_set(
    struct gt_program *p, float weight, const int64_t rng[GT_RNG_FIELDS], struct gt_err *err);

/* Copy the loss scale from scalars->result.scale, in device memory, to the plan's input. Call this
 * before each run in training. It does nothing if gt_program_options.precision.scaled was false. */
int gt_program_set_scale(
    struct gt_program *p, const struct gt_step_scalars *scalars, struct gt_err *err);

/* Add the batch's loss to scalars->result.loss, in device memory. Call this after each run in
 * training. */
int gt_program_add_loss(struct gt_program *p, struct gt_step_scalars *scalars, struct gt_err *err);

/* ---- feeder.c ---- */

/* A feeder takes batches from a loader and copies them to programs. It gives a batch back to the
 * loader only when the copy of the batch is done. */
struct gt_feeder {
	struct gt_loader *loader; /* NULL: not open */
	const struct gt_device *device;
	struct gt_event *fed[2]; /* borrowed: events of the copies of the last two batches */
	int64_t count;           /* batches fed so far */
};

/* Open a loader that reads batches into pinned memory (gt_backend.host_alloc). The device can copy
 * from pinned memory while it computes. With `pageable` the loader reads into ordinary memory; then
 * the host may have to wait for each copy. Errors: any error of gt_loader_open(). If there is too
 * little pinned memory, the error names its purpose and the options that need less. */
int gt_feeder_open(struct gt_feeder *f, const struct gt_device *device, struct gt_dataset *data,
    const struct gt_loader_options *options, bool pageable, struct gt_err *err);

/* Wait for all copies, then close the feeder. */
void gt_feeder_close(struct gt_feeder *f);

/* Get the next batch, like gt_loader_next(): return 1 with *batch set, 0 at the end, or a negative
 * error code. Pass the batch to gt_feeder_feed() before the next call. */
int gt_feeder_next(struct gt_feeder *f, const struct gt_batch **batch, struct gt_err *err);

/* Copy a batch to a program by gt_program_feed(). The batch comes from gt_feeder_next(). On a rank
 * that does not read, because rank 0 reads for it, the caller makes a batch and sets only
 * batch->count. Errors: GT_EINVAL if the batch does not have as many bytes as the program's input.
 */
int gt_feeder_feed(
    struct gt_feeder *f, struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);

/*
 * Two programs for samples that are cut into batches: `full` for whole batches, `tail` for the last
 * batch if it is shorter. A program that is not needed has batch 0. A short batch has its own plan,
 * because padding would change the statistics of batch normalization.
 */
struct gt_program_pair {
	struct gt_program full, tail;
	/* true: each run is a collective call of the ranks. In this case there is at least one
	 * program, even if this rank has no samples. */
	bool together;
	/* true: the gradients of several runs or chunks are added up in a step. In this case the
	 * gradients must be set to zero before each step. */
	bool accumulates;
};

/* Make the programs for `samples` samples in batches of `batch`. With `drop_last` a short last
 * batch is left out. This function computes pair->accumulates, and uses it in place of
 * options->accumulate for both programs. On failure, this function zeroes both programs. */
int gt_program_pair_init(struct gt_program_pair *pair, const struct gt_program_options *options,
    int64_t samples, int batch, bool drop_last, struct gt_err *err);
void gt_program_pair_release(struct gt_program_pair *pair);

/* Return the program for whole batches; if there is none, the program for the last batch. */
const struct gt_program *gt_program_pair_any(const struct gt_program_pair *pair);

/* Return the program for a batch of `count` samples; NULL if there is none. */
struct gt_program *gt_program_for(struct gt_program_pair *pair, int count);

/* Set *names to the names of the parameters of the last layer, borrowed from the pair, and return
 * their number. Return 0 for models of text, because their last layer is also their table of tokens
 * (the embedding). */
int gt_program_pair_head(const char *const **names, const struct gt_program_pair *pair,
    const struct gt_model_input *input);

/* Return the bytes of device memory that gt_program_bind() allocates for losses, and also for a
 * batch if device memory is not host memory. 0 if the program has no plan. */
size_t gt_program_staging(const struct gt_program *p);

#endif
