/* user_cache.h - paths of files in the user's cache folder; these files make later runs faster. */
#ifndef GT_BASE_USER_CACHE_H
#define GT_BASE_USER_CACHE_H

#include "lib/base/err.h"

/* Return the path of the cache file NAME: $XDG_CACHE_HOME/gtrain/NAME, or $HOME/.cache/gtrain/NAME
 * if XDG_CACHE_HOME is not an absolute path. The caller frees the path. Return NULL if neither of
 * the two variables is an absolute path, or if memory runs out. */
char *gt_user_cache_path(const char *name);

/* Create all missing parent folders of the file `path`. Errors: GT_EIO, GT_ENOMEM. */
int gt_user_cache_make(const char *path, struct gt_err *err);

#endif
