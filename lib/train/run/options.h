/* options.h - options of an earlier run, for one that continues it or starts from its weights. */
#ifndef GT_TRAIN_RUN_OPTIONS_H
#define GT_TRAIN_RUN_OPTIONS_H

#include "lib/base/folder.h"
#include "lib/train/train.h"

/* The functions set options that are not given yet. `opts` is a table with the rows of `gtrain
 * train`, and `o` the struct in which it has their values. Errors: GT_EIO, GT_EFORMAT, GT_EINVAL,
 * GT_ENOMEM. */

/* If the model is the copy of an exported network in `folder`, set it to the path of the file. */
int gt_run_options_find_network(
    struct gt_opts *opts, const struct gt_train_options *o, const char *folder, struct gt_err *err);

/* Set the options as the config.json of a run directory says; *found tells whether it has one. A
 * config.json of a transformers model belongs to no run. */
int gt_run_options_load(bool *found, struct gt_opts *opts, const struct gt_train_options *o,
    const struct gt_folder *dir, struct gt_err *err);

/* Do the same for the run directory of the checkpoint that an argument names, if it has one. */
int gt_run_options_load_of(
    struct gt_opts *opts, const struct gt_train_options *o, const char *ckpt, struct gt_err *err);

/* Set the model to that of the checkpoint that an argument names. */
int gt_run_options_take_model(struct gt_opts *opts, const char *init_from, struct gt_err *err);

#endif
