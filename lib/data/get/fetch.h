/* fetch.h - inside data: a file of a set, from the first of its addresses that has it. */
#ifndef GT_DATA_GET_FETCH_H
#define GT_DATA_GET_FETCH_H

#include "lib/base/folder.h"
#include "lib/data/get/get.h"

/* Fetch a file into the folder of its set, as get.h says. If another process has fetched the file
 * meanwhile, this does nothing. Errors: as gt_get_set(). */
int gt_fetch(struct gt_get *get, const struct gt_set *set, const struct gt_set_file *file,
    const struct gt_folder *folder, struct gt_err *err);

#endif
