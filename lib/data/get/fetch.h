/* fetch.h - private: download a file of a data set, trying its addresses in order. */
#ifndef GT_DATA_GET_FETCH_H
#define GT_DATA_GET_FETCH_H

#include "lib/base/folder.h"
#include "lib/data/get/get.h"

/* Download a file into the folder of its data set: first as NAME.part, then rename it (get.h). If
 * another process downloads the same file, wait for it. If that process has completed the file, and
 * get->force is not set, do not download the file again. Errors: those of gt_get_set(). */
int gt_fetch(struct gt_get *get, const struct gt_set *set, const struct gt_set_file *file,
    const struct gt_folder *folder, struct gt_err *err);

#endif
