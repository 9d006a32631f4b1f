/* conclude.h - the last lines of `gtrain train`. */
#ifndef GT_CMD_TRAIN_CONCLUDE_H
#define GT_CMD_TRAIN_CONCLUDE_H

#include "cmd/train/options.h"

/* Log how the run ended: the loss and the time, the best evaluation and its file, and the command
 * that continues the run or uses its model. With --json, print the result as one JSON document. */
int gt_cmd_train_conclude(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_watch *watch, const struct gt_train_result *r, struct gt_err *err);

/* A rank was killed: log the step of the last checkpoint in the run directory `out`, or a warning
 * that nothing was saved. */
void gt_cmd_train_say_lost(struct gt_cmd_env *env, const char *out);

#endif
