/* verify.h - gtrain train --verify-parallel: modes side by side with one rank. */
#ifndef GT_CMD_TRAIN_VERIFY_H
#define GT_CMD_TRAIN_VERIFY_H

#include "cmd/train/options.h"

/* Compare, and print a table or, with --json, a document. The error is that of the first mode that
 * differs by more than it may. */
int gt_cmd_train_verify(const struct gt_train_cli *cli, struct gt_err *err);

#endif
