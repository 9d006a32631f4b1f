/* verify.h - gtrain train --verify-parallel: compare parallel modes with training on one rank. */
#ifndef GT_CMD_TRAIN_VERIFY_H
#define GT_CMD_TRAIN_VERIFY_H

#include "cmd/train/options.h"

/* Train in each parallel mode, compare the results with training on one rank, and print the
 * differences as a table or, with --json, as one JSON document. Each mode has an upper bound for
 * each kind of difference. Errors: GT_EDIVERGED if a difference is above its bound (the message is
 * about the first mode with such a difference); any error of training. */
int gt_cmd_train_verify(const struct gt_train_cli *cli, struct gt_err *err);

#endif
