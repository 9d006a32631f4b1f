/* option_table.h - the table of the options of `gtrain train`. */
#ifndef GT_TRAIN_OPTION_TABLE_H
#define GT_TRAIN_OPTION_TABLE_H

#include "lib/base/opt.h"

/* Return the table of the options of `gtrain train`, whose fields are members of struct
 * gt_train_options (train.h). A row without a field (size 0) is an option that the program alone
 * reads. The options that every command has, such as --help, are not in this table. */
const struct gt_opt *gt_train_option_table(void);

#endif
