/* adopt.h - inside train: continue a run from another program's checkpoint. */
#ifndef GT_TRAIN_RUN_ADOPT_H
#define GT_TRAIN_RUN_ADOPT_H

#include "lib/train/run/weights.h"
#include "lib/train/state.h"

/*
 * Check, by the settings of its param_groups, that the optimizer of the foreign checkpoint t->saved
 * is the run's. If the run's options do not set learning rate, momentum and weight decay, use those
 * of the checkpoint (the initial learning rate if a scheduler has changed it). Warn of other
 * settings that differ. Errors: GT_EINVAL for another optimizer, with its name; GT_ENOTSUP for
 * settings that gtrain does not support, such as amsgrad.
 */
int gt_adopt_optimizer(struct gt_train *t, struct gt_err *err);

/* Log which parts of the loaded checkpoint t->saved were used, and which were not. */
void gt_adopt_log(const struct gt_train *t, const struct gt_weights_report *report);

#endif
