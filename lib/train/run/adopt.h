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
 * Then use the momentum of the checkpoint, unless an option of this run sets the momentum. Do the
 * same for the weight decay. If betas, eps or nesterov differ from the options of this run, log a
 * warning.
 *
 * Errors: GT_EINVAL if the checkpoint has another optimizer, and the message names this optimizer;
 * GT_ENOTSUP for settings that gtrain does not support, such as amsgrad, and for groups of
 * parameters that differ in settings other than `lr` and `weight_decay`; GT_ENOTSUP also for groups
 * with different weight decays above 0, if no option of this run sets the weight decay; GT_EFORMAT
 * for settings that are not numbers, and for learning rates, weight decays, momentum and eps that
 * are NaN, infinite or negative.
 */
int gt_foreign_apply_optimizer(struct gt_train *t, struct gt_err *err);

/*
 * Use the learning rate of the checkpoint t->saved, which another program wrote, unless an option
 * of this run sets the learning rate. gt_snapshot_find_lr() finds the rate in the checkpoint. If
 * there is no rate, or if the rate is 0, the learning rate of this run remains unset.
 *
 * Call this after gt_foreign_apply_optimizer(), and after t->s.store is made. Errors: GT_ENOMEM.
 */
int gt_foreign_apply_lr(struct gt_train *t, struct gt_err *err);

/* Log which parts of the checkpoint t->saved were loaded, and which parts were ignored. *report is
 * the report about the weights. `undecayed` (struct gt_snapshot) is the number of parameters that
 * had weight decay in the checkpoint and have none in this run. If this number is not 0, log a
 * warning. */
void gt_foreign_log(
    const struct gt_train *t, const struct gt_weights_report *report, size_t undecayed);

#endif
