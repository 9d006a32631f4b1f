/* unpack.h - private: unpack the archive of a data set. */
#ifndef GT_DATA_GET_UNPACK_H
#define GT_DATA_GET_UNPACK_H

#include "lib/base/folder.h"
#include "lib/data/get/sets.h"

/* Unpack set->parts from an archive, whose checksum was checked, into set->parts_folder below
 * `folder`. A file gets its name only if its size and checksum are correct. */
int gt_set_unpack(const struct gt_set *set, const struct gt_folder *folder, const char *archive,
    struct gt_err *err);

#endif
