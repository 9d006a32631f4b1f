/* plan.h - print the plan of a training run, its memory and work, for --dry-run. */
#ifndef GT_CMD_TRAIN_PLAN_H
#define GT_CMD_TRAIN_PLAN_H

#include <stdbool.h>

#include "lib/train/train.h"

/* Print the plan of a training run, which says how much memory and work the run needs. The plan
 * goes to standard output, as lines of text, or as one JSON document if `json` is set. If `verbose`
 * is set, the text also has a table of ops: for each op, the number of its nodes and kernel
 * launches, and its bytes and FLOPs, per step. */
int gt_cmd_print_plan(const struct gt_train *t, bool json, bool verbose, struct gt_err *err);

#endif
