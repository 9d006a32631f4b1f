/* config.h - set options of `gtrain train` from a config.json file or from a recipe. */
#ifndef GT_CMD_TRAIN_CONFIG_H
#define GT_CMD_TRAIN_CONFIG_H

#include "cmd/cmd.h"
#include "cmd/train/options.h"

/*
 * Set the options that are not on the command line. With --config, they come from the file or
 * recipe (cmd/recipes.h) that it names. Without --config but with --resume, they come from the
 * config.json of the resumed run. If --model is still missing, it is the model of the checkpoint
 * that --init-from names.
 *
 * `--resume DIR` continues the run in DIR: this function replaces the option by `--resume auto
 * --out DIR`, where `auto` is the latest checkpoint in --out. With `--resume FILE`, or with
 * `--resume DIR --out OTHER`, a new run starts from the checkpoint FILE, or from the latest
 * checkpoint in DIR. The options of the new run come from the run that the checkpoint belongs to,
 * if there is one. But if the folder of --out already has a config.json, the options come from that
 * file. For example, the folder has one if the same command was started before. It is an error if
 * DIR has no checkpoint.
 *
 * Errors: GT_EIO, GT_EFORMAT, GT_EINVAL, GT_ENOMEM.
 */
int gt_cmd_train_load_config(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err);

#endif
