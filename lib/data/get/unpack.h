/* unpack.h - private: unpack the archive of a data set. */
#ifndef GT_DATA_GET_UNPACK_H
#define GT_DATA_GET_UNPACK_H

#include "lib/base/folder.h"
#include "lib/data/get/sets.h"

/*
 * Unpack the files set->parts from an archive (tar, compressed with gzip) into set->parts_folder
 * below `folder`. The caller has already checked the archive's checksum. Other files of the archive
 * are not unpacked. A file is written under a temporary name. It gets its own name only if its size
 * and checksum are correct.
 *
 * Errors: GT_EFORMAT, GT_EIO, GT_ENOMEM.
 */
int gt_set_unpack(const struct gt_set *set, const struct gt_folder *folder, const char *archive,
    struct gt_err *err);

#endif
