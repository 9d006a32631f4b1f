/* settings.h - private: take over the settings of the optimizer in another program's checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_SETTINGS_H
#define GT_TRAIN_CHECKPOINT_SETTINGS_H

#include "lib/train/state.h"

/*
 * Check the settings in the groups of the optimizer of t->saved, which another program wrote.
 * Then set momentum, nesterov, betas, eps and weight decay of this run to those of the checkpoint,
 * unless an option of this run sets them. If such an option differs from the checkpoint, log a
 * warning. Settings that cannot change results, such as `foreach`, are ignored. If a group has
 * settings that torch.optim does not have, log a warning with their names.
 *
 * Errors:
 *
 *   GT_ENOTSUP  gtrain does not support a setting, such as amsgrad or dampening
 *   GT_ENOTSUP  groups of parameters differ in settings other than `lr` and `weight_decay`
 *   GT_ENOTSUP  groups have different weight decays above 0, and no option of this run sets the
 *               weight decay
 *   GT_EFORMAT  a setting is not a number, or a learning rate, weight decay, momentum or eps is
 *               NaN, infinite or negative
 */
int gt_foreign_take_settings(struct gt_train *t, struct gt_err *err);

#endif
