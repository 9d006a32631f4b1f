/* snapshot.h - private: save and load training checkpoints, in the format of PyTorch. */
#ifndef GT_TRAIN_CHECKPOINT_SNAPSHOT_H
#define GT_TRAIN_CHECKPOINT_SNAPSHOT_H

#include <jansson.h>

#include "lib/base/folder.h"
#include "lib/model/model.h"
#include "lib/optim/optim.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/checkpoint/weights.h"

/* A snapshot is a training checkpoint that gtrain writes: the full state of a run, in a file or a
 * folder that PyTorch opens. snapshot.c lists its entries. A training checkpoint that is being
 * read, of any program, is "saved" (saved.h). */
struct gt_snapshot {
	struct gt_store *store;
	const struct gt_model *model;
	struct gt_optim *optim;
	struct gt_parallel *parallel; /* the run's ranks, which may hold shards of tensors */
	/* for loading another program's checkpoint: rules "REGEX=REPLACEMENT" that rename its keys,
	 * ended by NULL; may be NULL */
	const char *const *maps;
	double lr;       /* learning rate of the last step; for saving */
	int64_t step;    /* steps done */
	int64_t epoch;   /* epoch of the next step, from 0; for saving */
	int64_t samples; /* samples read in this epoch; for saving */
	/* samples of the training data, with those that --val-split holds out; for saving */
	int64_t data_samples;
	int64_t best_step; /* steps done at the best evaluation; -1: none yet */
	double best_score; /* its score; larger is better */
	/* its loss, which decides between equal scores; -INFINITY: not known */
	double best_loss;
	int64_t evaluations_since_best;
	int64_t evaluated_step; /* steps done at the last evaluation; -1: none yet */
	int amp; /* set by loading: the saved run's mixed precision (enum gt_amp); -1: not known */
	/* set by loading: shapes did not tell the groups of parameters apart (struct
	 * gt_snapshot_match) */
	bool assumed;
	/* the parameters with weight decay are not those of a new run, so the snapshot names them;
	 * set by gt_snapshot_take_groups() and gt_snapshot_read_decay() */
	bool own_decay;
	/* the frozen weights to which adapters are added are those of another file, which `about`
	 * names */
	bool no_base;
	const json_t *config; /* the options of the run; for saving; may be NULL */
	/* the result of gt_about_text(), stored in each state_dict; for saving; may be NULL */
	const char *about;
	bool is_set; /* the snapshot becomes a set (saver.h), not a file; for saving */
};

/* The progress of the run that wrote a training checkpoint. */
struct gt_snapshot_progress {
	int64_t step, epoch;  /* steps and epochs done; -1: not known */
	int64_t samples;      /* samples read in the current epoch; -1: not known */
	int64_t step_samples; /* samples in each of its steps; 0: not known */
	/* samples of its training data, with those that --val-split holds out; 0: not known */
	int64_t data_samples;
	bool other_program; /* another program wrote the checkpoint */
	/* learning rate of the last step or, for another program's checkpoint, of the next step by
	 * its schedule; NaN: not known, or not the same in all groups */
	double lr;
	/* its options that have a rule about a change (gt_opt.resume), or NULL */
	json_t *config;
};

/* Read the progress of a run. Release *out even after an error. */
int gt_snapshot_read_progress(
    struct gt_snapshot_progress *out, const struct gt_saved *saved, struct gt_err *err);
void gt_snapshot_progress_release(struct gt_snapshot_progress *progress);

/* Set *out to the tree of a snapshot, in `a`; saver.h writes it. Its tensors are those of
 * gt_weights_tensor(), and numbers. */
int gt_snapshot_tree(
    struct gt_tree **out, const struct gt_snapshot *s, struct gt_arena *a, struct gt_err *err);

/* Load a training checkpoint: set the weights, optimizer state and mean of weights, s->step, and
 * the fields from best_step to assumed. For another program's checkpoint the caller sets s->step.
 * Release *report even after an error; the store may then be partly overwritten. Errors do not name
 * the file. */
int gt_snapshot_load(struct gt_snapshot *s, const struct gt_saved *saved,
    struct gt_weights_report *report, struct gt_err *err);

/* Take over the weight decay of each parameter, and the learning rate *lr, from another program's
 * checkpoint. Call this before the run's optimizer (`options`) is made; only the members store,
 * model, maps and own_decay of *s are used. */
int gt_snapshot_take_groups(double *lr, struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved, struct gt_err *err);

/* Take over the weight decay of each parameter from a snapshot, if its tree `root` has
 * "no_weight_decay". */
int gt_snapshot_read_decay(struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err);

/* Save a snapshot as a file, s->is_set false, at once. A collective call; rank 0 writes the file,
 * and the other ranks ignore `file`. */
int gt_snapshot_save(const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

/* Save only the model's state_dict, as model.pth and best.pth are. Of *s, only store, model,
 * parallel and about are used. A collective call; rank 0 writes the file. */
int gt_snapshot_save_model(
    const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err);

#endif
