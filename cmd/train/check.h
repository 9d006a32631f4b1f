/* check.h - options of train that would have no effect. */
#ifndef GT_CMD_TRAIN_CHECK_H
#define GT_CMD_TRAIN_CHECK_H

#include "cmd/train/options.h"

/* Refuse a request that this build cannot serve, and an option on the command line that another
 * option makes meaningless (--betas with sgd): its user expects an effect. */
int gt_cmd_train_check(
    const struct gt_cmd_env *env, const struct gt_train_cli *cli, struct gt_err *err);

#endif
