/* resume.h - resume a run with other options, at the right place in the data. */
#ifndef GT_TRAIN_RUN_RESUME_H
#define GT_TRAIN_RUN_RESUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

struct gt_snapshot;
struct gt_train;

/*
 * Check that the run may continue from its checkpoint (t->saved, t->resumed):
 *
 *   - The run must not end before the checkpoint's step.
 *   - An option that must not change (GT_RESUME_FIXED) must have the value that "config" of
 *     the checkpoint has. If "config" lacks the option, this run must not use the option either.
 *   - If this run has rules of --map, they must be equal to the rules in "config".
 *   - With --val-split, the training data must have the number of samples that is stored in the
 *     checkpoint.
 *
 * A checkpoint that another program wrote has no "config", so its options and rules are not
 * checked. Errors: GT_EINVAL, with a message that does not name the file.
 */
int gt_resume_check(const struct gt_train *t, struct gt_err *err);

/*
 * Find the position in the training data where the run begins, and set t->from_step and
 * t->from_position for gt_resume_position(). A new run begins at position 0. A resumed run begins
 * after the samples that were read before the checkpoint was saved. For a resumed run, the caller
 * sets t->resumed and t->steps_per_epoch before the call. If another program wrote the checkpoint,
 * this function also sets t->resumed.step. It computes the step from the epoch if the checkpoint
 * lacks the step.
 *
 * Epochs of this run may have another number of steps than epochs before the checkpoint. The run
 * then also continues in the epoch of the checkpoint, after the samples that were read. If this
 * position is inside a step of this run, all samples of this step are read, some of them for the
 * second time.
 *
 * Errors: GT_EFORMAT if the epoch in the checkpoint is too large.
 */
int gt_resume_find_position(struct gt_train *t, struct gt_err *err);

/* Return the position in the training data after `step` steps of the run. The unit of positions is
 * one step of this run, with this run's number of samples per step. So epoch 0 ends at position
 * t->steps_per_epoch. The position differs from `step` if the steps before the checkpoint had
 * another number of samples. */
int64_t gt_resume_position(const struct gt_train *t, int64_t step);

/*
 * Set t->best_step, best_score, best_loss, evaluations_since_best and evaluated_step from a loaded
 * checkpoint.
 *
 * If the evaluations used other validation data than this run, log a line and forget the best
 * evaluation, because the scores of different data cannot be compared. Two runs have the same
 * validation data if their options --val are equal, or, without --val, their options --data.
 */
void gt_resume_set_best(struct gt_train *t, const struct gt_snapshot *s);

/* `config` holds the options of this run. For each option that is not GT_RESUME_FIXED and has
 * another value in `config` than in the checkpoint, log a line with the name of the option, both
 * values and the effect. The option `amp` is left out, because gt_train_open() logs a warning about
 * `amp`. `epochs` and `steps` are left out if they have no value in `config`. If the
 * learning rate of the next step does not continue that of the last step, log a line with both
 * rates and the reason. */
void gt_resume_log_changes(const struct gt_train *t, const json_t *config);

#endif
