/* check.h - reject options of `gtrain train` that cannot work or would have no effect. */
#ifndef GT_CMD_TRAIN_CHECK_H
#define GT_CMD_TRAIN_CHECK_H

#include "cmd/train/options.h"

/* Reject options that need a feature missing in this build, and combinations of options that are
 * not possible. Also reject options on the command line that would have no effect: for example
 * --betas with --optimizer sgd. Errors: GT_EINVAL. */
int gt_cmd_train_check(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err);

/* Warn of options on the command line that have no effect with one rank. They are no errors: a
 * script may give them for any number of ranks. */
void gt_cmd_train_warn_alone(struct gt_cmd_env *env, const struct gt_train_cli *cli);

#endif
