/* config.h - the options that a run takes over from a config.json. */
#ifndef GT_CMD_TRAIN_CONFIG_H
#define GT_CMD_TRAIN_CONFIG_H

#include "cmd/cmd.h"
#include "cmd/train/options.h"

/*
 * Set the options that the command line leaves out: from the file of --config, or where a run goes
 * on from its own config.json. --resume DIR becomes --resume auto --out DIR; --resume FILE begins a
 * run that continues the file's. Errors: GT_EIO, GT_EFORMAT, GT_EINVAL, GT_ENOMEM.
 */
int gt_cmd_train_load_config(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err);

#endif
