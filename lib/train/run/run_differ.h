/* run_differ.h - list the options that differ between runs. */
#ifndef GT_TRAIN_RUN_RUN_DIFFER_H
#define GT_TRAIN_RUN_RUN_DIFFER_H

#include "lib/base/buf.h"
#include "lib/train/run/run_read.h"

/*
 * Return the options that do not have the same value in all runs, for json_decref(), in the order
 * of config.json:
 *
 *   [{"option": "lr", "values": [0.1, 0.05]}, ..]
 *
 * A value is null where a run has its default or no such option. `out`, the directory of the run,
 * and `about`, which describes the data, are left out. NULL with err set if memory runs out.
 */
json_t *gt_run_differ(const struct gt_run *runs, size_t count, struct gt_err *err);

/* Add the value of an option as it would be typed, or "-" for null. */
void gt_run_put_value(struct gt_buf *out, const json_t *value);

#endif
