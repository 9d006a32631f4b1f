/* walk.c - visit or remove what a folder and the folders below it hold. */
#include "lib/base/walk.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"

int gt_folder_walk(const char *path, const struct gt_folder_walk *how, struct gt_err *err)
{
	char *root = gt_strdup(path, err); /* fts_open() takes no constant text */
	char *const roots[] = { root, NULL };
	FTSENT *entry;
	FTS *fts;
	int rc = 0;

	if (!root)
		return GT_ENOMEM;
	fts = fts_open(roots,
	    (how->no_links ? FTS_PHYSICAL | FTS_COMFOLLOW : FTS_LOGICAL) | FTS_NOCHDIR,
	    how->compare);
	if (!fts)
		rc = gt_err_sys(err, "cannot list '%s'", path);
	while (!rc && (errno = 0, entry = fts_read(fts)))
		rc = how->visit(how->context, fts, entry, err);
	if (!rc && errno)
		rc = gt_err_sys(err, "cannot list '%s'", path);
	if (fts)
		fts_close(fts);
	free(root);
	return rc;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	(void)remove(path);
	return 0;
}

void gt_folder_remove_all(const char *path)
{
	enum { OPEN_FOLDERS = 16 };

	(void)nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
