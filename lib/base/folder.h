/* folder.h - open a folder, and open and check files by their names in the open folder. */
#ifndef GT_BASE_FOLDER_H
#define GT_BASE_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/*
 * An open folder. Its files are opened, renamed and removed relative to its descriptor, and
 * symbolic links in it are not followed. So a link in an untrusted folder cannot give access to a
 * file outside the folder.
 */
struct gt_folder {
	int fd;     /* valid if path is not NULL */
	char *path; /* path of the folder, for messages; NULL: the folder is not open */
};

/* Open a folder by its path. Symbolic links in the path are followed. Errors: GT_EIO, GT_ENOMEM. */
int gt_folder_open(struct gt_folder *out, const char *path, struct gt_err *err);

/* Open the folder `name` in the folder `parent`. If `name` does not exist and `make` is true,
 * create it. If `name` does not exist and `make` is false, return 0 and leave *out closed. Errors:
 * GT_EIO, also if `name` is a symbolic link; GT_ENOMEM. */
int gt_folder_open_in(struct gt_folder *out, const struct gt_folder *parent, const char *name,
    bool make, struct gt_err *err);

/* Close a folder. Do nothing if it is closed or the struct is zeroed. */
void gt_folder_close(struct gt_folder *folder);

/* Return a stream of the names in a folder. The caller closes it with closedir(). Return NULL with
 * err set on failure. */
DIR *gt_folder_list(const struct gt_folder *folder, struct gt_err *err);

/* Read the next name of the stream `dir` into *name. *name is valid until the next call, and NULL
 * after the last name. Errors: GT_EIO if the folder cannot be read. */
int gt_folder_next(const char **name, const struct gt_folder *folder, DIR *dir, struct gt_err *err);

/* Return the path FOLDER/NAME, which is needed for struct gt_file_name. The caller frees it with
 * free(). Return NULL with err set if memory runs out. */
char *gt_folder_path(const struct gt_folder *folder, const char *name, struct gt_err *err);

/* Return the folder that "~" stands for at the beginning of `path`: the value of the variable HOME.
 * NULL: the path does not begin with "~/", and is not "~"; or HOME is not set. */
const char *gt_home_of(const char *path);

/* Create a folder and its missing parents. It is not an error if the folder exists. Symbolic links
 * are followed. Errors: GT_EIO, GT_ENOMEM. */
int gt_make_dirs(const char *path, struct gt_err *err);

/*
 * The name of a file, which need not exist.
 *
 * If `folder` is set, `path` must be the result of gt_folder_path(). The file must be a regular
 * file in this folder; a symbolic link is an error. If `folder` is NULL, `path` is an ordinary
 * path, and symbolic links in it are followed.
 *
 * Functions that get a struct gt_file_name keep its pointers only if their comments say so.
 */
struct gt_file_name {
	const struct gt_folder *folder; /* may be NULL */
	const char *path;
};

/* Get the first two arguments for openat() and similar functions. Return the descriptor of
 * file.folder, and set *name to the path relative to this folder. If file.folder is NULL, return
 * AT_FDCWD, and set *name to file.path. */
int gt_file_at(struct gt_file_name file, const char **name);

/* Return whether a file with this name exists. If the system cannot decide this, return true, too;
 * the attempt to open the file then reports the reason. If file.folder is set, a symbolic link
 * counts as an existing file. */
bool gt_file_exists(struct gt_file_name file);

/* Return whether two paths lead to the same file or the same folder. Symbolic links are followed.
 * If one of the two does not exist, return false. */
bool gt_file_is_same(const char *a, const char *b);

/* Return whether the file `path`, which need not exist, is in the folder `folder` or below it. If
 * `path` is a symbolic link, return true if the link or its target is there. */
bool gt_file_is_below(const char *path, const char *folder);

/*
 * `folder` is a folder that the program reads. Check that `path`, which need not exist,
 *
 * - is not this folder, and is not below this folder;
 * - is not the target of a symbolic link in this folder, and is not below such a target. Symbolic
 *   links in folders below this folder are not examined.
 *
 * Errors: GT_EINVAL; GT_EIO and GT_ENOMEM if the folder cannot be listed.
 */
int gt_file_check_not_in(const char *path, const char *folder, struct gt_err *err);

/*
 * `input` is a file or a folder that the program reads. Check that writing the file `path` would
 * not change `input`:
 *
 * - If `input` is a file, `path` must not be the same file.
 * - If `input` is a folder, gt_file_check_not_in() must succeed, and no symbolic or hard link in
 *   the folder or below it may lead to `path`. If `path` is an existing regular file, this function
 *   examines all files of the folder for such links, which takes time.
 * - If `input` does not exist, there is no error.
 *
 * Errors: GT_EINVAL; GT_EIO and GT_ENOMEM if the folder cannot be listed.
 */
int gt_file_check_not_input(const char *path, const char *input, struct gt_err *err);

/* Check a file. Set *found to whether it exists, and *st to its properties; `st` may be NULL.
 * Errors: GT_EIO if it is not a regular file but a directory, a device or a pipe. If file.folder is
 * set, a symbolic link is an error, too. */
int gt_file_check(struct gt_file_name file, struct stat *st, bool *found, struct gt_err *err);

/*
 * Open a regular file. `flags` are those of open(2), such as O_RDONLY. If the file is created, its
 * permissions are 0666 without the bits of the umask. If the file is a pipe, the function fails and
 * never waits for the other end of the pipe. *fd is the descriptor, or -1 on failure. Errors:
 * GT_EIO.
 */
int gt_file_open(int *fd, struct gt_file_name file, int flags, struct gt_err *err);

#endif
