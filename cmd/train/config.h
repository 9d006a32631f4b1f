/* config.h - set options of `gtrain train` from a config.json file or from a recipe. */
#ifndef GT_CMD_TRAIN_CONFIG_H
#define GT_CMD_TRAIN_CONFIG_H

#include "cmd/cmd.h"
#include "cmd/train/options.h"

/* Set the options that are not on the command line from --config, --resume or --init-from. */
int gt_cmd_train_load_config(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err);

#endif
