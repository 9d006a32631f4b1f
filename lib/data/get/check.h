/* check.h - private: compare the files of a well-known data set with their checksums. */
#ifndef GT_DATA_GET_CHECK_H
#define GT_DATA_GET_CHECK_H

#include <stdbool.h>

#include "lib/base/folder.h"
#include "lib/data/get/sets.h"

/* Compare the SHA-256 of an open file with file->sha256, and set *same. If the checksum is not
 * known (NULL), *same is true. Errors: GT_EIO, GT_ENOMEM. */
int gt_set_compare(bool *same, int fd, const struct gt_set_file *file, struct gt_err *err);

/* Check size and checksum of the file at `path` against those of `file`. Set *there to whether the
 * file at `path` exists; a missing file is not an error. Errors: GT_EFORMAT if the content is not
 * the published one; GT_EIO; GT_ENOMEM. */
int gt_set_check(bool *there, const char *path, const struct gt_set_file *file, struct gt_err *err);

#endif
