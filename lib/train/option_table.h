/* option_table.h - the table of the options of `gtrain train`. */
#ifndef GT_TRAIN_OPTION_TABLE_H
#define GT_TRAIN_OPTION_TABLE_H

#include "lib/base/opt.h"

/* Return the options of `gtrain train`; fields are members of struct gt_train_options, or of size 0
 * for the program alone. Options of every command are not in it. */
const struct gt_opt *gt_train_option_table(void);

#endif
