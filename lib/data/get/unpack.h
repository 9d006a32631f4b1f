/* unpack.h - inside data: the files of a set, out of its archive. */
#ifndef GT_DATA_GET_UNPACK_H
#define GT_DATA_GET_UNPACK_H

#include "lib/base/folder.h"
#include "lib/data/get/sets.h"

/*
 * Write the parts of a set into their folder below `folder`, from an archive (tar, compressed with
 * gzip) that has the set's checksum. Other files of the archive are left out. The size and checksum
 * of each part are compared before it appears under its name.
 *
 * Errors: GT_EFORMAT, GT_EIO, GT_ENOMEM.
 */
int gt_set_unpack(const struct gt_set *set, const struct gt_folder *folder, const char *archive,
    struct gt_err *err);

#endif
