/* new_folder.h - write folders that appear complete or not at all. */
#ifndef GT_BASE_NEW_FOLDER_H
#define GT_BASE_NEW_FOLDER_H

#include "lib/base/file.h"

/* A folder that is written as PATH.tmp-PID-N, until it is committed or abandoned. gt_atomic_end()
 * (file.h) removes it. One that a killed process left is removed at the next open of the same
 * path. */
struct gt_new_folder {
	struct gt_folder folder;     /* write here */
	bool replace;                /* an old folder may have the name */
	struct gt_atomic_file names; /* private */
};

/* Create a temporary folder. Errors: GT_EIO, also if `path` exists; GT_ENOMEM. */
int gt_new_folder_open(struct gt_new_folder *out, const char *path, struct gt_err *err);

/* Do the same in an open folder, which must stay open; with `replace`, the commit removes a folder
 * that has the name. */
int gt_new_folder_open_at(
    struct gt_new_folder *out, struct gt_file_name file, bool replace, struct gt_err *err);

/* Rename the folder, whose files are closed, and sync its parent unless `no_sync` is set. Errors:
 * GT_EIO; the folder is then removed, unless the text says "the new content is in place". */
int gt_new_folder_commit(struct gt_new_folder *f, bool no_sync, struct gt_err *err);

/* Remove the folder and its files, unless it was committed, abandoned or is zeroed. */
void gt_new_folder_abandon(struct gt_new_folder *f);

/* Remove a folder and its files. It first gets a temporary name, so that a part of it never has its
 * name. A missing folder is fine. Errors: GT_EIO, GT_ENOMEM. */
int gt_new_folder_remove(struct gt_file_name file, struct gt_err *err);

#endif
