/* snapshot.h - private: save and load training checkpoints, in the format of PyTorch. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/model/model.h"
#include "lib/optim/optim.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/checkpoint/weights.h"

/*
 * A training checkpoint, called a snapshot in this code, holds the full state of a run. It is a
 * dict with these entries:
 *
 *   "model"          state_dict of the model
 *   "optimizer"      state_dict of torch.optim
 *   "lr_scheduler"   {"last_epoch": steps done, "_last_lr": [learning rate of the last step]}
 *   "scaler"         state_dict of torch.amp.GradScaler; {} if the loss is not scaled
 *   "epoch", "step"  epochs and steps done
 *   "epoch_samples"  samples read so far in the current epoch
 *   "data_samples"   samples of the training data, including those that --val-split holds out
 *   "best"           only if there was an evaluation: "step", "score" and "loss" of the best
 *                    evaluation, the number of evaluations after it ("evaluations_since"), and the
 *                    step of the latest evaluation ("evaluated_step")
 *   "config"         options of the run
 *   "no_weight_decay"  only if the run resumed from another program's checkpoint, whose groups
 *                    differ from those of a new run in weight decay: the list of the names of the
 *                    parameters without weight decay
 *   "model_ema"      state_dict with the running mean of the weights (lib/optim/ema.h), if the run
 *                    has a running mean
 *
 * In most runs, "optimizer" has one param_group, or two if some parameters have no weight decay:
 * first the group with weight decay, then the group without weight decay. There are more groups if
 * parameters have different factors of the learning rate (lr_scale), or if the run's optimizer
 * leaves some parameters to a second optimizer (snapshot_layout.h). The groups of the second
 * optimizer have the options and states of the second optimizer. In each group, parameters are in
 * the order of declaration. The parameters are numbered, and the numbers continue from one group to
 * the next, as in torch.optim.
 */
struct gt_snapshot {
	struct gt_store *store;
	const struct gt_model *model;
	struct gt_optim *optim;
	struct gt_parallel *parallel; /* the ranks of the run, which may hold shards of tensors */
	/* For loading another program's checkpoint: rules "REGEX=REPLACEMENT" that rename its keys;
	 * NULL-terminated. May be NULL. */
	const char *const *maps;
	double lr;       /* learning rate of the last step; for saving */
	int64_t step;    /* steps done */
	int64_t epoch;   /* epoch of the next step, from 0 on; for saving */
	int64_t samples; /* samples read in this epoch so far; for saving */
	/* samples of the training data, including those that --val-split holds out; for saving */
	int64_t data_samples;
	int64_t best_step; /* steps done at the best evaluation; -1: no evaluation yet */
	double best_score; /* score of the best evaluation; a larger score is better */
	/* loss of the best evaluation, which decides between equal scores; -INFINITY: not known */
	double best_loss;
	int64_t evaluations_since_best;
	int64_t evaluated_step; /* steps done at the last evaluation; -1: none yet */
	int amp; /* set by loading: mixed precision of the saved run (enum gt_amp); -1: not known */
	/* set by loading another program's checkpoint: the groups of its parameters were not told
	 * apart by shapes (snapshot_match.h) */
	bool assumed;
	/* The parameters with weight decay are not those of a new run, so the checkpoint names
	 * them. For saving; set by gt_snapshot_take_groups() and gt_snapshot_read_decay(). */
	bool own_decay;
	const json_t *config; /* for saving: the options of the run; may be NULL */
	/* For saving: the result of gt_about_text(), which is stored in each state_dict. May be
	 * NULL. */
	const char *about;
};

/* The progress of the run that wrote a checkpoint. */
struct gt_snapshot_progress {
	int64_t step, epoch;  /* steps and epochs done; -1: not known */
	int64_t samples;      /* samples read so far in the current epoch; -1: not known */
	int64_t step_samples; /* samples in each step of that run; 0: not known */
	/* samples of that run's training data, including samples that --val-split holds out; 0: not
	 * known */
	int64_t data_samples;
	bool foreign; /* another program wrote the checkpoint */
	/* learning rate of the last step; for another program's checkpoint, of the next step by its
	 * own schedule; NaN: not known, or groups of parameters have different ones */
	double lr;
	/* the options of that run that have a rule about a change (gt_opt.resume), or NULL */
	json_t *config;
};

/* Read the progress of a run from its checkpoint `saved`. Release *out even after an error. Errors:
 * GT_EFORMAT if the file is damaged; GT_EIO. */
int gt_snapshot_read_progress(
    struct gt_snapshot_progress *out, const struct gt_saved *saved, struct gt_err *err);
void gt_snapshot_progress_release(struct gt_snapshot_progress *progress);

/* Save a training checkpoint. A collective call of the ranks of s->parallel. Rank 0 writes the
 * file; the other ranks do not use `file`, and send rank 0 the elements that it lacks while it
 * writes. Memory: a few pieces of 4 MiB. After the first step, "model_ema" holds the mean of the
 * weights, if the store has one, and the current values of the model's buffers. */
int gt_snapshot_save(const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

/*
 * Load a training checkpoint: set the weights, the state of s->optim and the mean of the weights
 * in s->store, s->step, and the fields from best_step to assumed. If another program wrote the
 * checkpoint (saved->foreign), the caller sets s->step before this call. The param_groups of the
 * file, and the order of their parameters, must be as gt_snapshot_match() requires.
 *
 * *report gets a note about the weights. Release *report even after an error. After an error the
 * store may be partly overwritten, so the run has to end. Error messages do not name the file.
 */
int gt_snapshot_load(struct gt_snapshot *s, const struct gt_saved *saved,
    struct gt_weights_report *report, struct gt_err *err);

/*
 * Take over the groups of parameters of another program's checkpoint, before the run's optimizer is
 * made.
 *
 * Set the member `decay` of the store's parameters to true if the parameter's group in the file has
 * a weight decay above 0, otherwise to false. Set s->own_decay if this changes a parameter. If no
 * group has a weight decay, change nothing.
 *
 * Set *lr to the learning rate of the checkpoint for parameters whose lr_scale is 1. If a scheduler
 * has changed the rate, *lr is the rate before these changes (`initial_lr`). A group counts only if
 * this run updates at least one of its parameters.
 *
 * `options` are the options of the run's optimizer. Of *s, only the members store, model, maps and
 * own_decay are used. The store needs no memory. Errors: GT_EFORMAT, GT_EINVAL and GT_ENOMEM, for
 * the reasons of gt_snapshot_match() (snapshot_match.h).
 */
int gt_snapshot_take_groups(double *lr, struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved, struct gt_err *err);

/* The same for weight decay in a checkpoint of gtrain: if its tree `root` has "no_weight_decay",
 * set the member `decay` of the parameters in s->store, and s->own_decay. Call this before the
 * run's optimizer is made. Errors: GT_EFORMAT if the list is damaged. */
int gt_snapshot_read_decay(struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err);

/* Save only the state_dict of the model, as in the files model.pth and best.pth of a run. Of *s,
 * only the members store, model, parallel and about are used. A collective call; rank 0 writes the
 * file. */
int gt_snapshot_save_model(
    const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

#endif
