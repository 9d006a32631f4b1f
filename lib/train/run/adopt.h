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
 * Then set the momentum of this run to the momentum in the checkpoint, unless an option of this run
 * sets it. Set the weight decay in the same way. The checkpoint's values of betas, eps and nesterov
 * are not used: if they differ from the options of this run, log a warning.
 *
 * Errors:
 *
 *   GT_EINVAL   the checkpoint has another optimizer; the message has the name of that optimizer
 *   GT_ENOTSUP  gtrain does not support a setting, such as amsgrad
 *   GT_ENOTSUP  groups of parameters differ in settings other than `lr` and `weight_decay`
 *   GT_ENOTSUP  groups have different weight decays above 0, and no option of this run sets the
 *               weight decay
 *   GT_EFORMAT  a setting is not a number, or a learning rate, weight decay, momentum or eps is
 *               NaN, infinite or negative
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
