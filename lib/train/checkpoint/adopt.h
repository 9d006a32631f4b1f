/* adopt.h - private: continue a run from another program's checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_ADOPT_H
#define GT_TRAIN_CHECKPOINT_ADOPT_H

#include "lib/train/checkpoint/weights.h"
#include "lib/train/state.h"

/* Check that t->saved, which another program wrote, has this run's optimizer, and take over its
 * settings (settings.h). Errors: GT_EINVAL for another optimizer; those of settings.h. */
int gt_adopt_optimizer(struct gt_train *t, struct gt_err *err);

/* Take over the weight decay of each parameter of t->saved and, from another program, the learning
 * rate if no option sets it. Call this between making t->s.store and the optimizer. Errors, which
 * name the file: GT_EINVAL if the learning rate would be 0; GT_EFORMAT. */
int gt_adopt_groups(struct gt_train *t, struct gt_err *err);

/* Log which parts of t->saved were loaded, and which were ignored. `assumed`: see struct
 * gt_snapshot. */
void gt_adopt_log(const struct gt_train *t, const struct gt_weights_report *report, bool assumed);

#endif
