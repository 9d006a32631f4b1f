/* fetch.h - private: download a file of a data set, trying its addresses in order. */
#ifndef GT_DATA_GET_FETCH_H
#define GT_DATA_GET_FETCH_H

#include "lib/base/folder.h"
#include "lib/data/get/get.h"

/* Download a file as NAME.part, then rename it (gt_get_set()). If another process does so, wait for
 * it. */
int gt_fetch(struct gt_get *get, const struct gt_set *set, const struct gt_set_file *file,
    const struct gt_folder *folder, struct gt_err *err);

#endif
