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
 * Then use the momentum and the weight decay of the checkpoint, except those that the options of
 * this run set. Log a warning for each other setting that differs.
 *
 * Errors: GT_EINVAL if the checkpoint has another optimizer, with the name of this optimizer in the
 * message; GT_ENOTSUP for settings that gtrain does not support, such as amsgrad, and for groups of
 * parameters that differ in other settings than `lr` and `weight_decay`; GT_EFORMAT for settings
 * that are NaN or negative.
 */
int gt_foreign_apply_optimizer(struct gt_train *t, struct gt_err *err);

/*
 * Use the learning rate of the checkpoint t->saved, which another program wrote, unless an option
 * of this run sets the learning rate. gt_snapshot_find_lr() says which rate it is. If this function
 * finds no rate, or if the rate is 0, the learning rate remains unset.
 *
 * Call this after gt_foreign_apply_optimizer(), when t->s.store is made. Errors: GT_ENOMEM.
 */
int gt_foreign_apply_lr(struct gt_train *t, struct gt_err *err);

/* Log which parts of the checkpoint t->saved were loaded, and which parts were ignored. `undecayed`
 * (struct gt_snapshot) is the number of parameters that had weight decay in the checkpoint and have
 * none in this run; if it is not 0, log a warning. */
void gt_foreign_log(
    const struct gt_train *t, const struct gt_weights_report *report, size_t undecayed);

#endif
