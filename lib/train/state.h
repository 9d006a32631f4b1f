/* state.h - private: the state of a training run, and functions that several files use. */
#ifndef GT_TRAIN_STATE_H
#define GT_TRAIN_STATE_H

#include "lib/train/checkpoint/adapter.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/evaluate.h"
#include "lib/train/report/damage_log.h"
#include "lib/train/sample_text.h"
#include "lib/train/session.h"
#include "lib/train/target_weights.h"
#include "lib/train/train.h"

struct gt_train {
	struct gt_train_options o;         /* with resolved defaults */
	struct gt_augment augment;         /* o.augment, parsed */
	struct gt_profile_options profile; /* o.profile, parsed */
	/* Only in gt_train_open(): the checkpoint of --resume if `resumes`, else that of
	 * --init-from. */
	struct gt_run_ckpt ckpt;
	/* Only in gt_train_open(): the folder that o.model names, and its path as given, or
	 * NULL. */
	struct gt_run_ckpt model_folder;
	const char *model_path;
	bool resumes; /* the run continues from a checkpoint */
	/* Only in gt_train_open(): the parts of that checkpoint, and its progress. */
	struct gt_saved saved;
	struct gt_snapshot_progress resumed;
	/* the parameters with weight decay are not those of a new run (struct gt_snapshot) */
	bool own_decay;
	struct gt_session s;
	char *model; /* o.model, with all its settings */
	char *loss;  /* o.loss, with all its settings */
	struct gt_target_weights target_weights;
	char *lora; /* o.lora, with all its settings; NULL: there are no adapters */
	/* the folder that o.lora names (gt_adapter_open()); zeroed: it names none */
	struct gt_adapter adapter;
	/* path of the checkpoint whose weights the adapters are added to, so that those of the run
	 * lack them; NULL: they have all weights */
	char *base;
	/* path of the exported network that the run was started with; NULL: another model */
	char *network;
	/* the data set that was divided into `data` and `val`; NULL: it was not divided */
	struct gt_dataset *whole;
	struct gt_dataset *data, *val; /* val may be NULL */
	/* logs of the damaged samples of `data`, and of `val` if it is separate */
	struct gt_damage_log damage[2];
	struct gt_optim *optim;
	struct gt_program_pair steps, evals; /* programs for training, and for validation */
	/* pairs of texts (reference.h): programs with which a new run measures `data` */
	struct gt_program_pair references;
	struct gt_sample_text sample_text;

	/* batch: samples of a rank in a run of a plan (--batch); runs: runs of the plan in a step
	 * (--accumulate). With --reproducible, one run computes all samples of a step. */
	int batch, runs;
	struct gt_sampler sampler;
	bool reads;
	/* the number of runs of a plan, and of optimizer steps */
	int64_t batches_per_epoch, steps_per_epoch;
	int64_t step; /* steps done so far */
	/* the step and the position in the data at the start of this run (gt_resume_position()) */
	int64_t from_step, from_position;
	int64_t best_step; /* this and the fields below are those of struct gt_snapshot */
	double best_score;
	double best_loss;
	int64_t evaluations_since_best;
	int64_t evaluated_step;
	struct gt_log *log;
};

/* Return the index of this rank, and the number of all ranks. */
int gt_train_rank(const struct gt_train *t);
int gt_train_world(const struct gt_train *t);

/* Return how many ranks this rank simulates for --reproducible. */
int gt_train_virtual_ranks(const struct gt_train *t);

/* defaults.c: compute the length of the run and its position in the data, after
 * gt_train_set_sampler(). Errors: GT_EINVAL for too few samples; GT_EFORMAT. */
int gt_train_resolve_length(struct gt_train *t, struct gt_err *err);

/* defaults.c: resolve the defaults that depend on model, data and length, after t->s.store is made.
 * Errors: GT_EINVAL for a schedule that does not fit. */
int gt_train_resolve_defaults(struct gt_train *t, struct gt_err *err);

/* defaults.c: set o->accumulate so that a step of `ranks` ranks has o->global_batch samples, if it
 * is not 0. Errors: GT_EINVAL if there is no such number. */
int gt_train_resolve_accumulate(struct gt_train_options *o, int ranks, struct gt_err *err);

/* open.c: check that the ranks can divide the work with this batch. Errors: GT_EINVAL. */
int gt_train_check_batch(
    const struct gt_train_options *o, int ranks, int batch, struct gt_err *err);

/* ---- auto_batch.c ---- */

/* Check that some batch is possible. Errors: GT_EINVAL. */
int gt_train_check_auto_batch(const struct gt_train_options *o, int ranks, struct gt_err *err);

/* Set o->batch, which is 0, to that of the run that is resumed, or to the largest that fits into
 * the memory of each rank, and log it. A collective call. Errors: those of gt_train_open() for a
 * dry run; GT_ENOMEM with the memory of the smallest batch if none fits. */
int gt_train_choose_batch(struct gt_train_options *o, struct gt_log *log, struct gt_err *err);

/* Return the number of ranks on this host. */
int gt_train_host_ranks(const struct gt_train *t);

/* plan_as.c: plan the run *t again with other options, as rank `rank`. *out borrows from *t. The
 * caller calls gt_session_plan_close(&out->s), also after an error. */
int gt_train_plan_as(struct gt_train *out, const struct gt_train *t,
    const struct gt_train_options *options, int rank, struct gt_err *err);

/* ---- memory.c ---- */

/* Compute the memory of this rank, after gt_train_plan(). */
void gt_train_memory(struct gt_session_memory *out, const struct gt_train *t);

/* gt_session_purpose.memory() of training: add the memory of the optimizer. `self` is a struct
 * gt_train. */
void gt_train_add_memory(const struct gt_session *s, void *self, struct gt_session_memory *m);

/* Set *bytes to the memory that this rank may take, of the device that the options describe if they
 * do. Ranks that share a device each have an equal part. */
int gt_train_free_memory(const struct gt_train *t, uint64_t *bytes, struct gt_err *err);

/* Log the memory for each use, and the number of recomputed blocks, on one rank of each stage. */
void gt_train_log_memory(const struct gt_train *t);

/* Return the numbers of blocks that the plans can compute again, and that they do; borrowed. */
const struct gt_recompute *gt_train_recomputed(const struct gt_train *t);

/* Make the programs for training and validation, which gt_session_close() releases. With
 * --recompute=auto a collective call. */
int gt_train_plan(struct gt_train *t, struct gt_err *err);

/* fit.c: gt_session_purpose.try_others() of training: plan with options that need less memory. */
void gt_train_try_others(const struct gt_session *s, void *self, struct gt_trials *trials);

/* ---- initial.c ---- */

/* Replace t->o.lora by its settings, and open the folder that it names, if it names one. */
int gt_train_read_lora(struct gt_train *t, struct gt_err *err);

/* Set the frozen weights of a run that is resumed, if its checkpoint lacks them. */
int gt_train_load_base(struct gt_train *t, struct gt_err *err);

/* If t->o.model is a folder, replace it by its model, and set t->model_folder and t->model_path
 * and, if it has the initial weights, t->o.init_from. */
int gt_train_read_model(struct gt_train *t, struct gt_err *err);

/* Load the initial weights of a new run, or log why they stay random. */
int gt_train_set_initial(struct gt_train *t, struct gt_err *err);

/* open.c: set t->o.parallel, batch, runs and the loss scaler from the number of ranks. */
int gt_train_set_ranks(struct gt_train *t, struct gt_err *err);

/* open.c: set t->sampler and t->reads, after t->s.parallel and t->data are open. */
void gt_train_set_sampler(struct gt_train *t);

/* train.c: return the options of the loader that reads the training data from its beginning. */
struct gt_loader_options gt_train_loader_options(const struct gt_train *t);

/* train.c: return the samples of the training data, with those that --val-split holds out. */
int64_t gt_train_data_samples(const struct gt_train *t);

/* train.c: return whether the run has come to its end, by its length or by o.patience. */
bool gt_train_is_over(const struct gt_train *t);

/* Return whether the run in o->out may be started again: --resume auto, or a restart. */
bool gt_train_is_again(const struct gt_train_options *o);

/* Make the checks of gt_train_check_out(), except for another run that writes there. */
int gt_train_check_files(const struct gt_train_options *o, struct gt_err *err);

/* Check that a new run directory is not in a folder of images: it would be read as a class. */
int gt_train_check_place(const struct gt_train *t, struct gt_err *err);

/* Return the options that must not change when the run is resumed; the caller frees them. */
json_t *gt_train_fixed_options(const struct gt_train *t, struct gt_err *err);

/* Return the fixed options and the main other options of the run; the caller frees them. */
json_t *gt_train_own_config(const struct gt_train *t, struct gt_err *err);

/* Return the options for validation. */
struct gt_evaluate_options gt_train_evaluation(const struct gt_train *t);

/* describe.c: return the floating-point operations of a step on this rank. */
double gt_train_step_flops(const struct gt_train *t);

/* describe_stages.c: return an array that describes each stage of the pipeline; the caller frees
 * it. */
json_t *gt_train_describe_stages(const struct gt_train *t, struct gt_err *err);

/* describe_stages.c: compute the memory of a rank of stage `index`. */
int gt_train_stage_memory(
    struct gt_session_memory *out, const struct gt_train *t, int index, struct gt_err *err);

/* dry.c: warn if the ranks of a dry run need more memory than there is. */
int gt_train_warn_of_memory(
    struct gt_train *t, const struct gt_session_purpose *purpose, struct gt_err *err);

#endif
