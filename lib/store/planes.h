/* planes.h - private: the memory of all planes. */
#ifndef GT_STORE_PLANES_H
#define GT_STORE_PLANES_H

#include "lib/store/store.h"

/* Free all planes, and the memory that they own. */
void gt_planes_free(struct gt_store *store);

/* ranges.c: find the ranges of a plane that has only some slots, and their places. */
int gt_plane_find_ranges(struct gt_store *store, struct gt_plane *plane, struct gt_err *err);

#endif
