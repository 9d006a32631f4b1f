/* state.h - inside train: the state of a training run, and its parts that several files use. */
#ifndef GT_TRAIN_STATE_H
#define GT_TRAIN_STATE_H

#include "lib/optim/ema.h"
#include "lib/train/evaluate.h"
#include "lib/train/report/damage_log.h"
#include "lib/train/run/run_source.h"
#include "lib/train/run/saved.h"
#include "lib/train/run/snapshot.h"
#include "lib/train/session.h"
#include "lib/train/train.h"

struct gt_train {
	struct gt_train_options o;         /* defaults are resolved */
	struct gt_augment augment;         /* of o.augment */
	struct gt_profile_options profile; /* of o.profile */
	/* Only while the run is opened: the checkpoint that the weights come from, if any, and the
	 * run that wrote it. If `resumes`, it is the checkpoint of --resume, otherwise that of
	 * --init-from. */
	struct gt_run_source origin;
	struct gt_run_source given; /* likewise: the folder that {model} names */
	bool resumes;
	struct gt_saved saved;            /* likewise, if `resumes`: the checkpoint of `origin` */
	struct gt_snapshot_place resumed; /* if `resumes`: its progress */
	struct gt_session s;
	char *model;              /* o.model with all its settings */
	struct gt_dataset *whole; /* `data` and `val` are parts of it; NULL: they are not */
	struct gt_dataset *data, *val;
	/* of `data`, and of `val` if it is not a part of the same data set */
	struct gt_damage_log damage[2];
	struct gt_optim *optim;
	struct gt_ema *ema; /* NULL: none */
	struct gt_program_pair steps, evals;

	/* Samples per run of the plans, and runs per step. They are --batch and --accumulate,
	 * unless one run of the plan processes all micro-batches of a step. */
	int batch, runs;
	struct gt_sampler sampler;
	bool reads;                                 /* this rank reads its samples */
	int64_t batches_per_epoch, steps_per_epoch; /* runs of the plans; optimizer steps */
	int64_t step;                               /* done so far */
	int64_t from_step, from_place; /* where the run begins; see gt_resume_place() */
	int64_t best_step, best_epoch; /* epochs that were done then */
	double best_score;
	struct gt_log *log;
};

/* This rank and how many there are. */
int gt_train_rank(const struct gt_train *t);
int gt_train_world(const struct gt_train *t);

/* The virtual ranks of this one: gt_parallel_virtual_ranks(). */
int gt_train_virtual_ranks(const struct gt_train *t);

/* Whether a step's gradients come in several parts, to be cleared before it. */
bool gt_train_adds_up(const struct gt_train *t);

/* defaults.c: compute the length of the run and resolve the defaults that depend on model and data.
 * Errors: GT_EINVAL for a learning rate schedule that does not fit into the run. */
int gt_train_resolve_defaults(struct gt_train *t, struct gt_err *err);

/* The ranks of this host, which share its memory. */
int gt_train_host_ranks(const struct gt_train *t);

/* ---- memory.c ---- */

/* The memory of a run whose plans are made. */
void gt_train_memory(struct gt_session_memory *out, const struct gt_train *t);

/* Add optimizer state, and gradients as they are sent, to the memory of the session of a gt_train:
 * gt_session_purpose.memory. */
void gt_train_add_memory(const struct gt_session *s, void *self, struct gt_session_memory *m);

/* Log a line with the memory by use, and the number of blocks that are computed again. */
void gt_train_log_memory(const struct gt_train *t);

/* The blocks that the plans compute again. */
const struct gt_recompute *gt_train_recomputed(const struct gt_train *t);

/* Add the programs of steps and evaluations to the session, and make them. On failure those that
 * are made remain, to be released with the session. A collective call with --recompute=auto. */
int gt_train_plan(struct gt_train *t, struct gt_err *err);

/* fit.c: gt_session_purpose.try_others of a gt_train. */
void gt_train_try_others(const struct gt_session *s, void *self, struct gt_trials *trials);

/* open.c: resolve the options of gt_train_world() ranks; and choose the samples that each rank
 * reads, once s.parallel is open. Errors: GT_EINVAL. */
int gt_train_set_ranks(struct gt_train *t, struct gt_err *err);
void gt_train_set_sampler(struct gt_train *t);

/* Return the options that identify a run, as JSON that the caller frees. For callers that have no
 * config.json. */
json_t *gt_train_own_config(const struct gt_train *t, struct gt_err *err);

/* Options for evaluating the validation data. */
struct gt_evaluate_options gt_train_evaluation(const struct gt_train *t);

/* Bytes of optimizer state and of the running mean of the weights, for a store of such a run. */
int64_t gt_train_kept_bytes(const struct gt_train *t, const struct gt_store *store);

/* describe_stages.c: a JSON array, which the caller frees, with an object for each stage of the
 * pipeline: its first parameter, its share of the work, its parameters, its memory and the bytes
 * that it sends. */
json_t *gt_train_describe_stages(const struct gt_train *t, struct gt_err *err);

#endif
