/* start_lines.h - private: lines about the data and the ranks of a run that begins. */
#ifndef GT_TRAIN_REPORT_START_LINES_H
#define GT_TRAIN_REPORT_START_LINES_H

#include "lib/train/report/observer.h"

enum { GT_TARGETS_TEXT = 32 }; /* bytes */

/* Write "3 classes" or "numbers as targets" to `text`, and return it. */
const char *gt_describe_targets(char text[GT_TARGETS_TEXT], const struct gt_data_info *info);

/* Log the samples, sizes and classes of the data, and the device, ranks and length of the run. */
void gt_start_lines_log(struct gt_log *log, const struct gt_start_report *r);

/* Log warnings about data that cannot be learned from, and, with `batch_given`, about batches that
 * are larger than the data. */
void gt_start_lines_warn(struct gt_log *log, const struct gt_start_report *r, bool batch_given);

#endif
