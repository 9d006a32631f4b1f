/* folder.h - open a folder, and open and check files by their names in the open folder. */
#ifndef GT_BASE_FOLDER_H
#define GT_BASE_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/* An open folder. Files are opened, renamed and removed relative to its descriptor, and symbolic
 * links in it are not followed, so that an untrusted folder cannot lead outside itself. */
struct gt_folder {
	int fd;
	char *path; /* path of the folder, for messages; NULL: the folder is not open */
};

/* Open a folder by its path, following symbolic links. Errors: GT_EIO, GT_ENOMEM. */
int gt_folder_open(struct gt_folder *out, const char *path, struct gt_err *err);

/* Open a folder in another one, and create it with `make`. If it does not exist, *out stays closed,
 * without error. Errors: GT_EIO, also for a symbolic link; GT_ENOMEM. */
int gt_folder_open_in(struct gt_folder *out, const struct gt_folder *parent, const char *name,
    bool make, struct gt_err *err);

/* Close a folder, if it is open. */
void gt_folder_close(struct gt_folder *folder);

/* Return a stream of the names, for closedir(). NULL with err set on failure. */
DIR *gt_folder_list(const struct gt_folder *folder, struct gt_err *err);

/* Read the next name, valid until the next call; NULL after the last one. Errors: GT_EIO. */
int gt_folder_next(const char **name, const struct gt_folder *folder, DIR *dir, struct gt_err *err);

/* Remove a folder and the files in it; a folder that has folders stays. Returns nonzero with errno
 * set. */
int gt_folder_remove(int parent, const char *name);

/* Return FOLDER/NAME, for struct gt_file_name. The caller frees it. NULL with err set. */
char *gt_folder_path(const struct gt_folder *folder, const char *name, struct gt_err *err);

/* Return the value of HOME if `path` is "~" or begins with "~/"; NULL otherwise or if it is not
 * set. */
const char *gt_home_of(const char *path);

/* Create a folder, unless it exists, and its missing parents. Errors: GT_EIO, GT_ENOMEM. */
int gt_make_dirs(const char *path, struct gt_err *err);

/* The name of a file, which need not exist. With `folder`, `path` is the result of
 * gt_folder_path(), and symbolic links are errors; without, links are followed. Pointers are
 * borrowed for the call. */
struct gt_file_name {
	const struct gt_folder *folder; /* may be NULL */
	const char *path;
};

/* Return the first argument for openat() and the like, and set *name to the second. */
int gt_file_at(struct gt_file_name file, const char **name);

/* Return whether the file exists. True if this cannot be decided: opening it then gives the reason.
 * With a folder, a symbolic link counts. */
bool gt_file_exists(struct gt_file_name file);

/* Return whether two paths lead to the same file or folder; false if one does not exist. */
bool gt_file_is_same(const char *a, const char *b);

/* Return whether the file, which need not exist, or the target of this link is in or below a
 * folder. */
bool gt_file_is_below(const char *path, const char *folder);

/* Check that `path`, which need not exist, is neither in or below `folder`, nor in or below the
 * target of a symbolic link that lies directly in it. Errors: GT_EINVAL; GT_EIO and GT_ENOMEM if
 * the folder cannot be listed. */
int gt_file_check_not_in(const char *path, const char *folder, struct gt_err *err);

/* Check that writing `path` would not change `input`, a file or folder that need not exist: no
 * symbolic or hard link in or below the folder may lead to it. May examine all files of the folder.
 * Errors as above. */
int gt_file_check_not_input(const char *path, const char *input, struct gt_err *err);

/* Set *found to whether the file exists, and *st (or NULL) to its properties. Errors: GT_EIO for a
 * directory, a device or a pipe, and with a folder for a symbolic link. */
int gt_file_check(struct gt_file_name file, struct stat *st, bool *found, struct gt_err *err);

/* Open a regular file with flags of open(2); a new file gets 0666 and the umask. Fails for a pipe
 * without waiting. *fd is -1 on failure. Errors: GT_EIO. */
int gt_file_open(int *fd, struct gt_file_name file, int flags, struct gt_err *err);

#endif
