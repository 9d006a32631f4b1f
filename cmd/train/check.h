/* check.h - options of train that would have no effect. */
#ifndef GT_CMD_TRAIN_CHECK_H
#define GT_CMD_TRAIN_CHECK_H

#include "cmd/train/options.h"

/* Reject requests that need features missing from this build. Also reject options on the command
 * line that would have no effect beside another option (--betas with sgd). */
int gt_cmd_train_check(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err);

#endif
