/* settings.h - private: take over the settings of the optimizer in another program's checkpoint. */
#ifndef GT_TRAIN_CHECKPOINT_SETTINGS_H
#define GT_TRAIN_CHECKPOINT_SETTINGS_H

#include "lib/train/state.h"

/* Check the settings of the optimizer in t->saved, which another program wrote, and take over those
 * that no option of this run sets. Errors: GT_ENOTSUP for a setting that gtrain does not have, or
 * that differs between groups; GT_EFORMAT for a damaged number. */
int gt_adopt_settings(struct gt_train *t, struct gt_err *err);

#endif
