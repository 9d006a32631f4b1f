/* adopt.h - private: continue a run from another program's checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_ADOPT_H
#define GT_TRAIN_CHECKPOINT_ADOPT_H

#include "lib/train/checkpoint/weights.h"
#include "lib/train/state.h"

/*
 * The checkpoint t->saved was written by another program. Check that the model in it was trained
 * with the optimizer of this run. The settings in the checkpoint's `param_groups` tell which
 * optimizer was used.
 *
 * Then call gt_foreign_take_settings(). Errors: GT_EINVAL if the checkpoint has another optimizer,
 * which the message names; and those of gt_foreign_take_settings().
 */
int gt_foreign_apply_optimizer(struct gt_train *t, struct gt_err *err);

/*
 * Take over the groups of parameters in the checkpoint t->saved: which of them have weight decay,
 * by gt_snapshot_take_groups() or gt_snapshot_read_decay(). If another program wrote the
 * checkpoint, also use its learning rate, unless an option of this run sets the learning rate.
 *
 * Call this after gt_foreign_apply_optimizer(), and after t->s.store is made, but before the
 * optimizer is made. Errors, which begin with the path of the file: GT_EINVAL if the learning rate
 * would be 0; GT_EFORMAT if a file of gtrain is damaged; GT_ENOMEM.
 */
int gt_resume_take_groups(struct gt_train *t, struct gt_err *err);

/* Log which parts of the checkpoint t->saved were loaded, and which parts were ignored. *report is
 * the report about the weights. `assumed`: see struct gt_snapshot. */
void gt_foreign_log(const struct gt_train *t, const struct gt_weights_report *report, bool assumed);

#endif
