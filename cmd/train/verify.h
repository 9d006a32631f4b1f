/* verify.h - gtrain train --verify-parallel: modes side by side with one rank. */
#ifndef GT_CMD_TRAIN_VERIFY_H
#define GT_CMD_TRAIN_VERIFY_H

#include "cmd/train/options.h"

/* Compare the modes, and print a table, or a document with --json. Fails with the error of the
 * first mode whose difference is too large. */
int gt_cmd_train_verify(const struct gt_train_cli *cli, struct gt_err *err);

#endif
