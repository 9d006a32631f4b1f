/* new_folder.h - folders that appear whole or not at all. */
#ifndef GT_BASE_NEW_FOLDER_H
#define GT_BASE_NEW_FOLDER_H

#include "lib/base/file.h"

/*
 * A folder being filled with files under a temporary name beside its own, PATH.tmp-PID-N, as
 * gt_atomic_file is for a file: gt_new_folder_commit() renames it, gt_new_folder_abandon() removes
 * it and the files in it. Either ends it. gt_atomic_end() removes it, too; that of a process which
 * was killed goes when the same path is opened here again.
 */
struct gt_new_folder {
	struct gt_folder folder;     /* write here; its path has the temporary name */
	struct gt_atomic_file place; /* its own */
};

/* Nothing may have the name yet: GT_EIO. */
int gt_new_folder_open(struct gt_new_folder *out, const char *path, struct gt_err *err);

/* The files in it have been committed or closed. Unless no_sync, the name is on the disk then.
 * Errors: GT_EIO; unless it says "the new content is in place", the folder is removed. */
int gt_new_folder_commit(struct gt_new_folder *f, bool no_sync, struct gt_err *err);

/* Fine for one that is not open, or all zero. */
void gt_new_folder_abandon(struct gt_new_folder *f);

#endif
