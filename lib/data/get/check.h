/* check.h - private: compare the files of a well-known data set with their checksums. */
#ifndef GT_DATA_GET_CHECK_H
#define GT_DATA_GET_CHECK_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/data/get/sets.h"

/* Compare the SHA-256 of an open file, and set *same; true if it is not known. */
int gt_set_compare(bool *same, int fd, const struct gt_set_file *file, struct gt_err *err);

/* Check size and checksum of `path`, and set *there; a missing file is no error. Errors: GT_EFORMAT
 * for other content. */
int gt_set_check(bool *there, const char *path, const struct gt_set_file *file, struct gt_err *err);

#endif
