/* config.h - read the options of a run from a config.json. */
#ifndef GT_CMD_TRAIN_CONFIG_H
#define GT_CMD_TRAIN_CONFIG_H

#include "cmd/cmd.h"
#include "cmd/train/options.h"

/*
 * Set the options that are not on the command line. They come from the file or recipe that --config
 * names. Without --config, and with --resume, they come from the config.json of the resumed run.
 *
 * `--resume DIR` is replaced by `--resume auto --out DIR`, unless --out names another folder. With
 * `--resume FILE` a new run starts from the checkpoint FILE; its options come from the run that
 * FILE belongs to, if there is one.
 *
 * Errors: GT_EIO, GT_EFORMAT, GT_EINVAL, GT_ENOMEM.
 */
int gt_cmd_train_load_config(struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err);

#endif
