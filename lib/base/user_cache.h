/* user_cache.h - files that make the next run faster, in the user's cache folder. */
#ifndef GT_BASE_USER_CACHE_H
#define GT_BASE_USER_CACHE_H

#include "lib/base/err.h"

/* The path of gtrain/NAME below $XDG_CACHE_HOME, or below ~/.cache; yours to free(). NULL: there is
 * no such folder, or memory has run out. */
char *gt_user_cache_path(const char *name);

/* Make the folders that the file needs. GT_EIO. */
int gt_user_cache_make(const char *path, struct gt_err *err);

#endif
