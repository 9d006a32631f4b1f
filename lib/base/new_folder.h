/* new_folder.h - write folders that appear complete or not at all. */
#ifndef GT_BASE_NEW_FOLDER_H
#define GT_BASE_NEW_FOLDER_H

#include "lib/base/file.h"

/*
 * A new folder that is written under a temporary name, PATH.tmp-PID-N, and then renamed to PATH.
 * After gt_new_folder_open(), call either gt_new_folder_commit(), which renames the folder, or
 * gt_new_folder_abandon(), which removes the folder and the files in it.
 *
 * If the process ends early, for example after Ctrl-C, gt_atomic_end() (file.h) removes the folder.
 * If the process is killed by SIGKILL, its temporary folder stays. The next gt_new_folder_open()
 * with the same path removes the folder if it is no longer in use: no process has the PID in its
 * name, and no process holds the lock that gt_new_folder_open() takes on it.
 */
struct gt_new_folder {
	struct gt_folder folder;     /* the open folder, under its temporary name: write here */
	struct gt_atomic_file names; /* private: final name and temporary name */
};

/* Create a folder under a temporary name. Errors: GT_EIO, also if `path` exists; GT_ENOMEM. */
int gt_new_folder_open(struct gt_new_folder *out, const char *path, struct gt_err *err);

/*
 * Rename the folder to its final name. Commit or close all files in it before this call. Unless
 * `no_sync` is set, also sync the parent folder, to make the name durable. Errors: GT_EIO. After an
 * error, the folder is removed, with one exception: if the text of the error says "the new content
 * is in place", only the sync has failed, and the folder stays under its final name.
 */
int gt_new_folder_commit(struct gt_new_folder *f, bool no_sync, struct gt_err *err);

/* Remove the folder and the files in it. Do nothing if it was committed or abandoned, or if the
 * struct is zeroed. */
void gt_new_folder_abandon(struct gt_new_folder *f);

#endif
