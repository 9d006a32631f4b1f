/* check.h - inside data: files of a set compared with their checksums. */
#ifndef GT_DATA_GET_CHECK_H
#define GT_DATA_GET_CHECK_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/data/get/sets.h"

/* Compare the whole content of an open file with the checksum, and set *same. If the checksum is
 * not known, *same is true. GT_EIO. */
int gt_set_compare(bool *same, int fd, const struct gt_set_file *file, struct gt_err *err);

/* Check the file of a set at `path`: *there tells whether there is one. Errors: GT_EFORMAT if the
 * file is not the publisher's; GT_EIO. */
int gt_set_check(bool *there, const char *path, const struct gt_set_file *file, struct gt_err *err);

#endif
