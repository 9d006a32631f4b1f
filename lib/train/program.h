/* program.h - an executable model for one batch size and purpose: graph, passes, plan. */
#ifndef GT_TRAIN_PROGRAM_H
#define GT_TRAIN_PROGRAM_H

#include "lib/data/core/data.h"
#include "lib/graph/pass.h"
#include "lib/graph/plan.h"
#include "lib/model/model.h"
#include "lib/parallel/parallel.h"

/* An executable model. The programs of a model share a store of weights and an arena of temporary
 * values, because only one of them runs at a time. In training, a plan may compute a batch in
 * chunks, each with its own inputs: for a pipeline, or for the ranks that this rank simulates
 * (lib/parallel/virtual/rewrite.h). */
struct gt_program {
	struct gt_graph *graph;
	struct gt_model_io io; /* inputs and outputs of chunk 0 */
	struct gt_plan *plan;
	/* samples in a batch; of all ranks, if rank 0 reads for all */
	int batch;
	int chunks; /* chunks in a batch */
	/* ranks to which rank 0 scatters a batch of several chunks; otherwise 1 */
	int rank_parts;
	/* blocks of the model that are computed again in the backward pass (pass.h) */
	struct gt_recompute recompute;
	bool virtual_parts; /* chunks belong to virtual ranks */
	/* [chunks - 1] inputs and outputs of the other chunks */
	struct gt_model_io *others;
	size_t input_bytes, target_bytes; /* sizes of a batch */

	const struct gt_device *device;

	/* Memory and events of gt_program_bind(): */

	/* device memory for a batch on its way to the inputs; NULL if device memory is host
	 * memory */
	char *staging;
	/* device memory with io.class_weight, which every run copies; and its values, borrowed;
	 * NULL: there are no class weights */
	float *class_weights;
	const float *host_class_weights;
	/* device memory [chunks]: the losses of all chunks, to be added up; NULL for one chunk */
	float *losses;
	/* Pinned host memory [setting_count][setting_bytes]: loss weight and random counters of a
	 * run. Calls of gt_program_set() use the rows in turn. */
	char *settings;
	size_t setting_bytes;
	int setting_count;
	/* calls of gt_program_set() and of gt_program_feed() so far */
	int64_t set, fed;
	/* [setting_count]: event i is done when row i of `settings` was copied to the device */
	struct gt_event **settings_copied;
	/* Events: a batch was copied from host memory. Calls of gt_program_feed() use them in
	 * turn. */
	struct gt_event *batch_copied[2];
	struct gt_event *staging_read; /* event: the batch was copied from `staging` */
	/* set by gt_program_watch() */
	struct gt_marks *marks;
	struct gt_span *copied;
};

/* Make a request for a data set with the sample shape of the model. The `ranks` ranks of this host
 * may use half of its memory. `seed` is that of the run. */
void gt_data_request_of(
    struct gt_data_request *out, const struct gt_model *model, uint64_t seed, int ranks);

/* Make the store of a model: the layout is set, but there is no memory yet. The caller frees *out
 * by gt_store_free(). A collective call. */
int gt_program_store(struct gt_store **out, const struct gt_model *model,
    const struct gt_model_input *in, const struct gt_device *device, bool with_gradients,
    struct gt_parallel *parallel, struct gt_err *err);

struct gt_program_options {
	const struct gt_model *model;
	const struct gt_model_input *input;
	enum gt_model_purpose purpose;
	struct gt_store *store;
	/* gradients of several runs or chunks are added up in a step */
	bool accumulate;
	int runs; /* runs of the plan in a step; 0 is 1 */
	/* the largest number of blocks to compute again */
	int recompute;
	struct gt_parallel *parallel;
	struct gt_precision precision;
};

/* Build the graph for `batch` samples, run the passes, and make the plan. With caches of keys and
 * values (GT_MODEL_CONTINUE), call this before the store gets memory. On failure *out is zeroed. */
int gt_program_init(struct gt_program *out, const struct gt_program_options *options, int batch,
    struct gt_err *err);
void gt_program_release(struct gt_program *p);

/* Let the plan use `arena`, which is borrowed, and allocate the rest of the memory. */
int gt_program_bind(struct gt_program *p, void *arena, struct gt_err *err);

/* ---- the functions up to the heading feeder.c queue work on the device's compute stream ---- */

/* Copy a batch of p->batch samples to the inputs that this rank's plan has. The batch is in use
 * until the event of gt_program_fed() is done. */
int gt_program_feed(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);

/* Measure from now on when the device copies a batch, in *span, on its copy stream or, if device
 * memory is host memory, on its compute stream. NULL marks end this. */
void gt_program_watch(struct gt_program *p, struct gt_marks *marks, struct gt_span *span);

/* Return the event of the last gt_program_feed(), which the program owns. It is used again two
 * calls later. */
struct gt_event *gt_program_fed(const struct gt_program *p);

/* Before each run in training: set the weight of each target's loss, the class weights, and the
 * random counters of the batch's first sample (enum gt_rng_field). */
int gt_program_set(
    struct gt_program *p, float weight, const int64_t rng[GT_RNG_FIELDS], struct gt_err *err);

/* Before each run in training: copy scalars->result.scale to the plan, if the loss is scaled. */
int gt_program_set_scale(
    struct gt_program *p, const struct gt_step_scalars *scalars, struct gt_err *err);

/* After each run in training: add the loss to scalars->result.loss. */
int gt_program_add_loss(struct gt_program *p, struct gt_step_scalars *scalars, struct gt_err *err);

/* ---- feeder.c ---- */

/* A feeder copies batches of a loader to programs, and gives each back when its copy is done. */
struct gt_feeder {
	struct gt_loader *loader;
	const struct gt_device *device;
	struct gt_event *fed[2]; /* borrowed: the copies of the last two batches */
	int64_t count;
};

/* Open a loader that reads into pinned memory, so that copies overlap computing; with `pageable`,
 * into ordinary memory. Without enough pinned memory, the error names options that need less. */
int gt_feeder_open(struct gt_feeder *f, const struct gt_device *device, struct gt_dataset *data,
    const struct gt_loader_options *options, bool pageable, struct gt_err *err);

/* Return the bytes of host memory that gt_feeder_open() allocates. */
uint64_t gt_feeder_bytes(const struct gt_dataset *data, const struct gt_loader_options *options);

/* Wait for the copies of all batches, so that their memory may change. */
int gt_feeder_wait(struct gt_feeder *f, struct gt_err *err);

/* Wait for all copies, then close the feeder. */
void gt_feeder_close(struct gt_feeder *f);

/* Get the next batch, like gt_loader_next(): 1, 0 at the end, or a negative code. Feed the batch
 * before the next call. */
int gt_feeder_next(struct gt_feeder *f, const struct gt_batch **batch, struct gt_err *err);

/* Copy a batch to a program. On a rank for which rank 0 reads, only batch->count is set. Errors:
 * GT_EINVAL for a batch of the wrong size. */
int gt_feeder_feed(
    struct gt_feeder *f, struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);

/* ---- program.c: pairs of programs ---- */

/* Programs for whole batches and for a shorter last one, which has its own plan because padding
 * would change batch normalization. A program that is not needed has batch 0. */
struct gt_program_pair {
	struct gt_program full, tail;
	/* each run is a collective call; there is then a program even without samples */
	bool together;
	/* gradients are added up, so they are set to zero before each step */
	bool accumulates;
};

/* Make the programs for `samples` samples; with `drop_last` a short last batch is left out. The
 * result pair->accumulates replaces options->accumulate. On failure both programs are zeroed. */
int gt_program_pair_init(struct gt_program_pair *pair, const struct gt_program_options *options,
    int64_t samples, int batch, bool drop_last, struct gt_err *err);
void gt_program_pair_release(struct gt_program_pair *pair);

/* Return the program for whole batches or, if there is none, for the last batch. */
const struct gt_program *gt_program_pair_any(const struct gt_program_pair *pair);

/* Return the program for a batch of `count` samples; NULL: there is none. */
struct gt_program *gt_program_for(struct gt_program_pair *pair, int count);

/* Set *names, borrowed, to the parameters of the last layer, and return their number; 0 for texts,
 * whose last layer is also their embedding. */
int gt_program_pair_head(const char *const **names, const struct gt_program_pair *pair,
    const struct gt_model_input *input);

/* Return the bytes of device memory that gt_program_bind() allocates. */
size_t gt_program_staging(const struct gt_program *p);

#endif
