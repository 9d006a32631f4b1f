/* new_folder.h - folders that appear whole or not at all. */
#ifndef GT_BASE_NEW_FOLDER_H
#define GT_BASE_NEW_FOLDER_H

#include "lib/base/file.h"

/*
 * A folder that is written under a temporary name beside its final name, PATH.tmp-PID-N. It does
 * for a folder the work of struct gt_atomic_file for a file. gt_new_folder_commit() gives the
 * folder its final name. gt_new_folder_abandon() removes the folder and the files in it. Call one
 * of the two. gt_atomic_end() removes the folder, too. A process that is killed leaves its folder,
 * which is removed when the same path is opened here again.
 */
struct gt_new_folder {
	struct gt_folder folder;     /* write here; its path has the temporary name */
	struct gt_atomic_file place; /* private */
};

/* GT_EIO if something with this name exists. */
int gt_new_folder_open(struct gt_new_folder *out, const char *path, struct gt_err *err);

/* Call this when the files in the folder have been committed or closed. The final name is also
 * synced to the disk, unless `no_sync` is set. Errors: GT_EIO. The folder is then removed, unless
 * the error says "the new content is in place". */
int gt_new_folder_commit(struct gt_new_folder *f, bool no_sync, struct gt_err *err);

/* This does nothing if the folder is not open, or the struct is zeroed. */
void gt_new_folder_abandon(struct gt_new_folder *f);

#endif
