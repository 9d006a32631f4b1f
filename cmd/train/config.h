/* config.h - read the options of a run from a config.json. */
#ifndef GT_CMD_TRAIN_CONFIG_H
#define GT_CMD_TRAIN_CONFIG_H

#include "cmd/cmd.h"
#include "cmd/train/options.h"

/*
 * Set the options that are not on the command line. They come from the file of --config, or from
 * the run's own config.json if it is resumed. --resume DIR becomes --resume auto --out DIR.
 * --resume FILE starts a new run from the state in the file. Errors: GT_EIO, GT_EFORMAT, GT_EINVAL,
 * GT_ENOMEM.
 */
int gt_cmd_train_load_config(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err);

#endif
