/* adopt.h - private: continue a run from another program's checkpoint. */
#ifndef GT_TRAIN_RUN_ADOPT_H
#define GT_TRAIN_RUN_ADOPT_H

#include "lib/train/run/weights.h"
#include "lib/train/state.h"

/*
 * The checkpoint t->saved was written by another program. Check that the model in it was trained
 * with the optimizer of this run. The settings in the checkpoint's `param_groups` tell which
 * optimizer was used.
 *
 * Then use the learning rate, the momentum and the weight decay of the checkpoint, except those
 * that the options of this run set. If a scheduler has changed the learning rate, use the rate
 * before these changes (`initial_lr`). The learning rate is that of the first group; if it is used,
 * set t->takes_lr. Log a warning for each other setting that differs.
 *
 * Errors: GT_EINVAL if the checkpoint has another optimizer, with the name of this optimizer in the
 * message; GT_ENOTSUP for settings that gtrain does not support, such as amsgrad, and for groups of
 * parameters that differ in other settings than `lr` and `weight_decay`; GT_EFORMAT for settings
 * that are NaN or negative.
 */
int gt_foreign_apply_optimizer(struct gt_train *t, struct gt_err *err);

/* Log which parts of the checkpoint t->saved were loaded, and which parts were ignored. `undecayed`
 * (struct gt_snapshot) is the number of parameters that had weight decay in the checkpoint and have
 * none in this run; if it is not 0, log a warning. */
void gt_foreign_log(
    const struct gt_train *t, const struct gt_weights_report *report, size_t undecayed);

#endif
