/* plan.h - print the plan of a run, for --dry-run. */
#ifndef GT_CMD_TRAIN_PLAN_H
#define GT_CMD_TRAIN_PLAN_H

#include <stdbool.h>

#include "lib/train/train.h"

/* Print the memory and the amount of work that the run needs to standard output, as a table or,
 * with `json`, as one JSON document. With `verbose` the table also lists each op. */
int gt_cmd_print_plan(const struct gt_train *t, bool json, bool verbose, struct gt_err *err);

#endif
