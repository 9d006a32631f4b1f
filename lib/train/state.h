/* state.h - private: the state of a training run, and functions that several files use. */
#ifndef GT_TRAIN_STATE_H
#define GT_TRAIN_STATE_H

#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/evaluate.h"
#include "lib/train/report/damage_log.h"
#include "lib/train/session.h"
#include "lib/train/train.h"

struct gt_train {
	struct gt_train_options o;         /* the options, with resolved defaults */
	struct gt_augment augment;         /* o.augment, parsed */
	struct gt_profile_options profile; /* o.profile, parsed */
	/* Valid only in gt_train_open(): the checkpoint from which the weights are loaded, if any,
	 * and the run that wrote the checkpoint. If `resumes` is set, this is the checkpoint of
	 * --resume, otherwise the checkpoint of --init-from. */
	struct gt_run_source origin;
	/* Valid only in gt_train_open(): the folder that o.model names, if it names one; its path,
	 * as the user has given it, or NULL. */
	struct gt_run_source model_folder;
	const char *model_path;
	bool resumes; /* the run continues from a checkpoint */
	/* Valid only in gt_train_open(), if `resumes` is set: the parts of the checkpoint. */
	struct gt_saved saved;
	/* if `resumes` is set: the progress of the run at the checkpoint */
	struct gt_snapshot_progress resumed;
	/* the parameters with weight decay are not those of a new run (struct gt_snapshot) */
	bool own_decay;
	struct gt_session s;
	char *model; /* o.model, with all its settings */
	/* the data set that was divided into `data` and `val`; NULL: it was not divided */
	struct gt_dataset *whole;
	struct gt_dataset *data, *val; /* training data, validation data; val may be NULL */
	/* logs of damaged samples: of `data`, and of `val` if it is a separate data set */
	struct gt_damage_log damage[2];
	struct gt_optim *optim;
	struct gt_program_pair steps, evals; /* steps: for training; evals: for validation */

	/* batch: samples that a rank computes in one run of a plan (--batch); runs: runs of the
	 * plan in an optimizer step (--accumulate). With --reproducible, one run computes all
	 * micro-batches of a step: `batch` is the product of both options, and `runs` is 1. */
	int batch, runs;
	struct gt_sampler sampler;
	bool reads; /* this rank reads samples */
	/* batches_per_epoch: runs of a plan in an epoch; steps_per_epoch: optimizer steps in an
	 * epoch */
	int64_t batches_per_epoch, steps_per_epoch;
	int64_t step; /* steps done so far */
	/* from_step: steps done at the start of this run; from_position: position in the data at
	 * the start (gt_resume_position()) */
	int64_t from_step, from_position;
	int64_t best_step;              /* steps done at the best evaluation; -1: there was none */
	double best_score;              /* score of the best evaluation; larger is better */
	double best_loss;               /* loss of the best evaluation; -INFINITY: not known */
	int64_t evaluations_since_best; /* number of evaluations after the best one */
	int64_t evaluated_step;         /* steps done at the last evaluation; -1: there was none */
	struct gt_log *log;
};

/* gt_train_rank() returns the index of this rank among all ranks of the run. gt_train_world()
 * returns the number of all ranks of the run. */
int gt_train_rank(const struct gt_train *t);
int gt_train_world(const struct gt_train *t);

/* Return the number of virtual ranks: the ranks that this rank simulates for --reproducible
 * (lib/parallel/virtual/rewrite.h). */
int gt_train_virtual_ranks(const struct gt_train *t);

/* defaults.c: compute the length of the run, and the position in the data where the run begins.
 * Call this after gt_train_set_sampler(). Errors: GT_EINVAL, for example if there are fewer samples
 * than a step needs; GT_EFORMAT for a damaged checkpoint. */
int gt_train_resolve_length(struct gt_train *t, struct gt_err *err);

/* defaults.c: resolve the defaults that depend on model, data and length, and check the learning
 * rate schedule. Call this after t->s.store is made: its parameters are needed to find the learning
 * rate in another program's checkpoint. Errors: GT_EINVAL, for example for a schedule that does not
 * fit into the run; GT_ENOMEM. */
int gt_train_resolve_defaults(struct gt_train *t, struct gt_err *err);

/* Return the number of ranks on this host, which share its memory. */
int gt_train_host_ranks(const struct gt_train *t);

/* ---- memory.c ---- */

/* Compute the memory that the run needs on this rank. Call this after gt_train_plan(). */
void gt_train_memory(struct gt_session_memory *out, const struct gt_train *t);

/* Add to *m the memory for the workspace of the optimizer. This function is
 * gt_session_purpose.memory() of training; `self` is a struct gt_train. */
void gt_train_add_memory(const struct gt_session *s, void *self, struct gt_session_memory *m);

/* Log a line with the memory needed for each use (parameters, gradients and others), and with the
 * number of blocks of the model that are computed again. One rank of each pipeline stage logs the
 * line; on other ranks, do nothing. */
void gt_train_log_memory(const struct gt_train *t);

/* Return the numbers of blocks of the model that the plans for training can compute again
 * (`blocks`), and that they do compute again (`done`). The struct is borrowed. */
const struct gt_recompute *gt_train_recomputed(const struct gt_train *t);

/* Make the programs for training and validation (program.h), as programs of the session. After an
 * error, gt_session_close() releases the programs that were made. With --recompute=auto this is a
 * collective call. */
int gt_train_plan(struct gt_train *t, struct gt_err *err);

/* fit.c: plan the run with other options that need less memory, and add the plans to `trials`
 * (lib/train/memory_limit.h). This function is gt_session_purpose.try_others() of training; `self`
 * is a struct gt_train. */
void gt_train_try_others(const struct gt_session *s, void *self, struct gt_trials *trials);

/* ---- initial.c ---- */

/* Replace t->o.model by the name and settings of the model, if it is the path of a folder. Set
 * t->model_folder and t->model_path and, if the folder is the source of the initial weights,
 * t->o.init_from. Errors: those of gt_run_source_model(). */
int gt_train_read_model(struct gt_train *t, struct gt_err *err);

/* Load the initial weights of a new run from t->origin, or log why they stay random although the
 * user has named a folder. Log which weights are used. */
int gt_train_set_initial(struct gt_train *t, struct gt_err *err);

/* open.c: set the fields that depend on gt_train_world(): t->o.parallel, t->batch, t->runs, and the
 * loss scaler in t->o.optim. Errors: any error of gt_parallel_check(). */
int gt_train_set_ranks(struct gt_train *t, struct gt_err *err);

/* open.c: choose the samples that this rank reads: set t->sampler and t->reads. Call this after
 * t->s.parallel and t->data are open. */
void gt_train_set_sampler(struct gt_train *t);

/* train.c: return the number of samples of the training data, including those that --val-split
 * holds out. */
int64_t gt_train_data_samples(const struct gt_train *t);

/* Return whether the run in o->out may be started again, because of --resume auto or of a restart
 * after a failure. The result is the argument `again` of gt_run_dir_check_unused(). */
bool gt_train_is_again(const struct gt_train_options *o);

/* Make the checks of gt_train_check_out(), but do not check whether another run is writing into the
 * folder. o->out must not be NULL. */
int gt_train_check_files(const struct gt_train_options *o, struct gt_err *err);

/* Check that the run directory of a new run is not in a folder of images that the run reads: the
 * run directory would be read as a class of images. Errors: GT_EINVAL. */
int gt_train_check_place(const struct gt_train *t, struct gt_err *err);

/* Return a JSON object with this run's values of the options that must not change when a run is
 * resumed (GT_RESUME_FIXED). The caller frees the object. NULL with err set on failure. */
json_t *gt_train_fixed_options(const struct gt_train *t, struct gt_err *err);

/* Return a JSON object with the fixed options and the main other options of the run, such as the
 * data, batch size and learning rate. gt_train_run() uses this object if its caller passes no
 * config. The caller frees the object. NULL with err set on failure. */
json_t *gt_train_own_config(const struct gt_train *t, struct gt_err *err);

/* Return the options for evaluating the validation data. */
struct gt_evaluate_options gt_train_evaluation(const struct gt_train *t);

/* describe_stages.c: return a JSON array with an object for each stage of the pipeline: its first
 * parameter, its fraction of the FLOPs, its number of parameters, its memory in bytes, the bytes
 * that it sends per step, and its recomputed blocks. The caller frees the array. NULL with err set
 * on failure. */
json_t *gt_train_describe_stages(const struct gt_train *t, struct gt_err *err);

/* describe_stages.c: compute the memory that a rank of stage `index` needs. */
int gt_train_stage_memory(
    struct gt_session_memory *out, const struct gt_train *t, int index, struct gt_err *err);

/* dry.c: log a warning if the ranks of the dry run *t would need more memory than there is.
 * `purpose` is that of the session. Errors: those of planning. */
int gt_train_warn_of_memory(
    struct gt_train *t, const struct gt_session_purpose *purpose, struct gt_err *err);

#endif
