/* program.h - an executable model for one batch size and purpose: graph, passes, plan. */
#ifndef GT_TRAIN_PROGRAM_H
#define GT_TRAIN_PROGRAM_H

#include "lib/data/data.h"
#include "lib/graph/pass.h"
#include "lib/graph/plan.h"
#include "lib/model/model.h"
#include "lib/parallel/parallel.h"

/* Programs of one model share a store, and an arena since only one runs at a time. */
struct gt_program {
	struct gt_graph *graph;
	struct gt_model_io io;
	struct gt_plan *plan;
	int batch;      /* samples; if one rank reads for all ranks, the samples of all ranks */
	int chunks;     /* parts of a batch, each with inputs of its own: `io` is the first one's */
	int rank_parts; /* ranks to which rank 0 scatters a batch; else 1 */
	struct gt_recompute recompute;
	bool virtual_parts; /* chunks belong to virtual ranks: gt_parallel_parts_are_virtual() */
	struct gt_model_io *others;       /* [chunks - 1] */
	size_t input_bytes, target_bytes; /* sizes of a whole batch */

	/* From gt_program_bind() on. */
	const struct gt_device *device;
	/* device: [input_bytes + target_bytes], a batch before it is copied to the inputs; NULL if
	 * device memory is host memory. */
	char *staging;
	float *losses; /* device: [chunks], side by side; NULL for one chunk */
	/* pinned: [setting_count][setting_bytes]; calls of gt_program_set() use the rows in turn */
	char *settings;
	size_t setting_bytes;
	int setting_count;
	int64_t set, fed;          /* calls so far */
	struct gt_event **settled; /* [setting_count]: the copy is done */
	/* the batch's own memory is free; two calls use the events in turn */
	struct gt_event *arrived[2];
	struct gt_event *taken; /* the staging memory is free */
};

/* The input of a model for the samples of a data set; and the request to a data set for samples
 * that suit a model. Each of `ranks` opens the data set: together they take half of the memory at
 * most. */
void gt_model_input_of(struct gt_model_input *out, const struct gt_data_info *info);
void gt_data_request_of(
    struct gt_data_request *out, const struct gt_model *model, uint64_t seed, int ranks);

/* The store that programs of this model share, not yet initialised. */
int gt_program_store(struct gt_store **out, const struct gt_model *model,
    const struct gt_model_input *in, const struct gt_device *device, bool with_gradients,
    struct gt_parallel *parallel, struct gt_err *err);

struct gt_program_options {
	const struct gt_model *model;
	const struct gt_model_input *input;
	enum gt_model_purpose purpose;
	struct gt_store *store;
	bool accumulate;              /* gradients add up over several runs (see gt_pass_options) */
	int runs;                     /* runs of a plan in a step; 0 is 1 */
	int recompute;                /* blocks that may be computed again: gt_recompute.most */
	struct gt_parallel *parallel; /* how ranks divide the work; the same as the store's */
	enum gt_dtype low;            /* mixed precision (see gt_pass_options); GT_F32: none */
	bool low_sums;                /* as in gt_pass_options */
	bool tf32;                    /* as in gt_pass_options */
	bool scaled;                  /* gradients are those of the loss times a scale */
};

/* On failure *out holds nothing. Make a program with caches before the store gets its memory. */
int gt_program_init(struct gt_program *out, const struct gt_program_options *options, int batch,
    struct gt_err *err);
void gt_program_release(struct gt_program *p);

/* Use this arena, and allocate memory for batches, losses and settings: device memory, and pinned
 * host memory to copy from. Errors: those of the backend. */
int gt_program_bind(struct gt_program *p, void *arena, struct gt_err *err);

/*
 * The following functions queue work on the device's compute stream. Only gt_program_feed() uses
 * the copy stream, so that the previous run can continue (unless device memory is host memory).
 *
 * gt_program_feed(): copy a batch of exactly p->batch samples, as far as this rank's plan has
 * inputs for it. The batch's memory is in use until the event of gt_program_fed() is done. The
 * program owns this event; the call after the next one records it again.
 */
int gt_program_feed(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);
struct gt_event *gt_program_fed(const struct gt_program *p);

/* For training, before each run: the weight of each target's loss, and the counters of the random
 * numbers of the batch's first sample. */
int gt_program_set(
    struct gt_program *p, float weight, const int64_t rng[GT_RNG_FIELDS], struct gt_err *err);

/* Likewise, for programs with options.scaled: copy scalars->result.scale, in device memory, to the
 * plan's input. Other programs do nothing. */
int gt_program_set_scale(
    struct gt_program *p, const struct gt_step_scalars *scalars, struct gt_err *err);

/* After a run: add the batch's loss to scalars->result.loss, in device memory. */
int gt_program_add_loss(struct gt_program *p, struct gt_step_scalars *scalars, struct gt_err *err);

/* ---- feeder.c ---- */

/* Feeds batches of a loader to programs. The loader may reuse a batch when its copy is done. */
struct gt_feeder {
	struct gt_loader *loader; /* NULL: not open */
	const struct gt_device *device;
	struct gt_event *fed[2]; /* borrowed: the events of the last two batches */
	int64_t count;
};

/* The loader reads into pinned memory (gt_backend.host_alloc), from which batches are copied while
 * the device computes. With `pageable` it reads into ordinary memory, and the host may have to wait
 * for the copies. If there is too little pinned memory, the error names its purpose, and options
 * that need less. */
int gt_feeder_open(struct gt_feeder *f, const struct gt_device *device, struct gt_dataset *data,
    const struct gt_loader_options *options, bool pageable, struct gt_err *err);
/* Wait for all copies, then close the feeder. */
void gt_feeder_close(struct gt_feeder *f);

/* gt_loader_next(), for a batch that is then fed to a program. */
int gt_feeder_next(struct gt_feeder *f, const struct gt_batch **batch, struct gt_err *err);
int gt_feeder_feed(
    struct gt_feeder *f, struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);

/*
 * The programs for a number of samples cut into batches: `full` for whole batches, `tail` for the
 * last, short one; either may be absent (batch 0). A short batch has a plan of its own instead of
 * padding, so that batch statistics are those of real samples.
 */
struct gt_program_pair {
	struct gt_program full, tail;
	bool together; /* each run is a collective call; then there is a program in any case */
};

int gt_program_pair_init(struct gt_program_pair *out, const struct gt_program_options *options,
    int64_t samples, int batch, bool drop_last, struct gt_err *err);
void gt_program_pair_release(struct gt_program_pair *pair);

/* The program for that many samples; NULL if there is none. */
struct gt_program *gt_program_for(struct gt_program_pair *pair, int count);

/* The bytes of device memory that gt_program_bind() allocates besides the arena; 0 without a plan.
 * A batch is staged there only if device memory is not host memory. */
size_t gt_program_staging(const struct gt_program *p);

#endif
