/* user_cache.h - paths of files in the user's cache folder; these files make later runs faster. */
#ifndef GT_BASE_USER_CACHE_H
#define GT_BASE_USER_CACHE_H

#include "lib/base/err.h"

/* Return $XDG_CACHE_HOME/gtrain/NAME or $HOME/.cache/gtrain/NAME, which the caller frees. NULL if
 * neither variable is an absolute path, or memory runs out. */
char *gt_user_cache_path(const char *name);

/* Create the missing parent folders of a file. Errors: GT_EIO, GT_ENOMEM. */
int gt_user_cache_make(const char *path, struct gt_err *err);

#endif
