/* resume.h - resume a run with other options, at the right place in the data. */
#ifndef GT_TRAIN_RUN_RESUME_H
#define GT_TRAIN_RUN_RESUME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

struct gt_snapshot;
struct gt_train;

/* Check that the run may continue from its checkpoint: its end, and the options and data that must
 * not change. Errors: GT_EINVAL; the message does not name the file. */
int gt_resume_check(const struct gt_train *t, struct gt_err *err);

/* Set t->from_step and t->from_position. If the run is resumed, t->resumed and t->steps_per_epoch
 * are set before. Errors: GT_EFORMAT if the epoch is too large. */
int gt_resume_find_position(struct gt_train *t, struct gt_err *err);

/* Return the position in the data after `step` steps of the run, in steps of this run: epoch 0 ends
 * at t->steps_per_epoch. */
int64_t gt_resume_position(const struct gt_train *t, int64_t step);

/* Set the fields of *t about the best evaluation from a loaded checkpoint, unless it used other
 * validation data. */
void gt_resume_set_best(struct gt_train *t, const struct gt_snapshot *s);

/* Log each option in `config`, those of this run, that differs from the checkpoint, and a learning
 * rate that does not continue. */
void gt_resume_log_changes(const struct gt_train *t, const json_t *config);

#endif
