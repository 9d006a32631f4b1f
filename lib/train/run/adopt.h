/* adopt.h - inside train: a run that goes on from another program's checkpoint. */
#ifndef GT_TRAIN_RUN_ADOPT_H
#define GT_TRAIN_RUN_ADOPT_H

#include "lib/train/run/weights.h"
#include "lib/train/state.h"

/*
 * Check that the optimizer of t->saved, which is foreign, is that of the run, by the settings of
 * its param_groups; and take over its learning rate (the initial one, where a scheduler has changed
 * it), momentum and weight decay where the run's options do not say them. Warn of other settings
 * that differ. Errors: GT_EINVAL for another optimizer, with its name; GT_ENOTSUP for settings of
 * it that gtrain has not, such as amsgrad.
 */
int gt_adopt_optimizer(struct gt_train *t, struct gt_err *err);

/* Log which parts of t->saved, which is loaded, were taken, and which were left. */
void gt_adopt_log(const struct gt_train *t, const struct gt_weights_report *report);

#endif
