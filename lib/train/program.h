/* program.h - a model made runnable for one batch size and purpose: graph, passes, plan. */
#ifndef GT_TRAIN_PROGRAM_H
#define GT_TRAIN_PROGRAM_H

#include "lib/data/data.h"
#include "lib/graph/plan.h"
#include "lib/model/model.h"
#include "lib/parallel/parallel.h"

/* Programs of one model share a store, and an arena since only one runs at a time. */
struct gt_program {
	struct gt_graph *graph;
	struct gt_model_io io;
	struct gt_plan *plan;
	int batch;  /* as it is read: of all ranks together, where one reads for all */
	int chunks; /* that it is cut into: io is the first one's (replicate.h) */
	int shares; /* of the ranks that a batch is dealt out to: each is as many chunks */
	bool turns; /* they are of ranks that take turns at the samples: gt_parallel_hosts() */
	struct gt_model_io *others;       /* [chunks - 1] */
	size_t input_bytes, target_bytes; /* of a whole batch */
};

/* Describe a data set's samples to a model, and a model's input to a data set. Each of `ranks`
 * opens the data set: together they take half of the memory at most. */
void gt_model_input_of(struct gt_model_input *out, const struct gt_data_info *info);
void gt_data_request_of(
    struct gt_data_request *out, const struct gt_model *model, uint64_t seed, int ranks);

/* The store that programs of this model share, not yet initialised. `parallel` may be NULL. */
int gt_program_store(struct gt_store **out, const struct gt_model *model,
    const struct gt_model_input *in, const struct gt_device *device, bool with_gradients,
    struct gt_parallel *parallel, struct gt_err *err);

struct gt_program_options {
	const struct gt_model *model;
	const struct gt_model_input *input;
	enum gt_model_purpose purpose;
	struct gt_store *store;
	bool accumulate;              /* gradients add up over several runs (see gt_pass_options) */
	struct gt_parallel *parallel; /* how ranks share the work; NULL: one rank */
};

/* On failure *out holds nothing. */
int gt_program_init(struct gt_program *out, const struct gt_program_options *options, int batch,
    struct gt_err *err);
void gt_program_release(struct gt_program *p);

/* Hand over a batch of exactly p->batch samples: what of it this rank's plan has inputs for. */
int gt_program_feed(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err);

/* For training, before each run: what a target's loss counts, and where random numbers begin, for
 * the batch's first sample. */
int gt_program_set(
    struct gt_program *p, float weight, const int64_t rng[GT_RNG_FIELDS], struct gt_err *err);

/* The batch's loss, after a run. */
int gt_program_loss(struct gt_program *p, double *loss, struct gt_err *err);

/*
 * The programs for a number of samples cut into batches: `full` for whole batches, `tail` for the
 * last, short one; either may be absent (batch 0). A short batch has a plan of its own instead of
 * padding, so that batch statistics are those of real samples.
 */
struct gt_program_pair {
	struct gt_program full, tail;
	bool together; /* each run is a collective call; then one of them is there in any case */
};

int gt_program_pair_init(struct gt_program_pair *out, const struct gt_program_options *options,
    int64_t samples, int batch, bool drop_last, struct gt_err *err);
void gt_program_pair_release(struct gt_program_pair *pair);

/* The program for that many samples; NULL if there is none. */
struct gt_program *gt_program_for(struct gt_program_pair *pair, int count);

/* Bytes of arena that the pair wants; and bind both. */
size_t gt_program_pair_arena(const struct gt_program_pair *pair);
int gt_program_pair_bind(struct gt_program_pair *pair, void *arena, struct gt_err *err);

#endif
