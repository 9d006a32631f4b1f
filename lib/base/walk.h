/* walk.h - visit or remove what a folder and the folders below it hold. */
#ifndef GT_BASE_WALK_H
#define GT_BASE_WALK_H

#include <fts.h>
#include <stdbool.h>

#include "lib/base/err.h"

/* How gt_folder_walk() goes. `compare` orders the entries of a folder; NULL: no order. `visit` gets
 * each entry; it may call fts_set(). A value other than 0 ends the walk. With `no_links`, links
 * below the folder are visited themselves (FTS_SL), and are not followed. */
struct gt_folder_walk {
	bool no_links;
	int (*compare)(const FTSENT **a, const FTSENT **b);
	int (*visit)(void *context, FTS *fts, FTSENT *entry, struct gt_err *err);
	void *context;
};

/*
 * Visit the folder `path` and all that is below it, depth first. Links are followed, unless
 * `no_links` is set. A folder is visited before its entries (FTS_D) and after them (FTS_DP); one
 * that cannot be listed is visited as FTS_DNR. The paths of the entries begin with `path`. Return
 * what `visit` returned last, or an error if the walk itself failed (GT_EIO, GT_ENOMEM).
 */
int gt_folder_walk(const char *path, const struct gt_folder_walk *how, struct gt_err *err);

/* Remove the folder `path` and all that is below it. Links are removed, not followed. Errors are
 * ignored. */
void gt_folder_remove_all(const char *path);

#endif
