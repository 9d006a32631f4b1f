/* user_cache.c - files that make the next run faster, in the user's cache folder. */
#include "lib/base/user_cache.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/folder.h"
#include "lib/base/mem.h"

char *gt_user_cache_path(const char *name)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (cache && *cache == '/')
		return gt_asprintf(GT_ERR_IGNORED, "%s/gtrain/%s", cache, name);
	if (home && *home == '/')
		return gt_asprintf(GT_ERR_IGNORED, "%s/.cache/gtrain/%s", home, name);
	return NULL;
}

int gt_user_cache_make(const char *path, struct gt_err *err)
{
	char *folder = gt_strdup(path, err), *end = folder ? strrchr(folder, '/') : NULL;
	int rc = folder ? 0 : GT_ENOMEM;

	if (end) {
		*end = '\0';
		rc = gt_make_dirs(folder, err);
	}
	free(folder);
	return rc;
}
