/* folder.h - folders held open, and files by their names in them. */
#ifndef GT_BASE_FOLDER_H
#define GT_BASE_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/*
 * A folder that is held open. Its files are opened, renamed and removed relative to the descriptor,
 * and symbolic links among them are not followed. So links in an untrusted folder cannot lead to
 * files outside it.
 */
struct gt_folder {
	int fd;     /* valid if path is not NULL */
	char *path; /* as it was opened, for messages; NULL: not open */
};

/* Open a folder by its path, in which links are followed. GT_EIO. */
int gt_folder_open(struct gt_folder *out, const char *path, struct gt_err *err);

/* Open the folder `name` in `parent`; a link is an error. If it is missing, it is created with
 * `make`; otherwise *out stays closed, without an error. Errors: GT_EIO. */
int gt_folder_open_in(struct gt_folder *out, const struct gt_folder *parent, const char *name,
    bool make, struct gt_err *err);

/* The folder may also be closed or all zero. */
void gt_folder_close(struct gt_folder *folder);

/* Return a stream of the names in the folder, yours to closedir(). NULL with err set on failure. */
DIR *gt_folder_list(const struct gt_folder *folder, struct gt_err *err);

/* Read the next name of the stream. *name is valid until the next call, and NULL at the end. GT_EIO
 * if the folder cannot be read to its end. */
int gt_folder_next(const char **name, const struct gt_folder *folder, DIR *dir, struct gt_err *err);

/* FOLDER/NAME, yours to free(): the path of a struct gt_file_name. */
char *gt_folder_path(const struct gt_folder *folder, const char *name, struct gt_err *err);

/* Make a directory and its parents; no error if it is there. Links are followed. */
int gt_make_dirs(const char *path, struct gt_err *err);

/*
 * The name of a file that may or may not be there. With a folder, `path` comes from
 * gt_folder_path(), and the file has to be a regular file of this folder: a link is an error.
 * Without one, links in `path` are followed. Functions with such an argument do not keep its
 * pointers unless they say so.
 */
struct gt_file_name {
	const struct gt_folder *folder; /* or NULL */
	const char *path;
};

/* Return the descriptor, and set *name, for openat() and similar functions. */
int gt_file_at(struct gt_file_name file, const char **name);

/* Whether a file of this name exists. Also true if the system cannot tell; opening the file then
 * reports the reason. A link in a folder counts as existing. */
bool gt_file_exists(struct gt_file_name file);

/* Check the file of this name: *found tells whether there is one. Anything but a regular file is an
 * error, GT_EIO: a directory, a device, a pipe; in a folder a link, too. *st may be NULL. */
int gt_file_check(struct gt_file_name file, struct stat *st, bool *found, struct gt_err *err);

/*
 * Open a regular file with the flags of open(2); a new one gets the permissions that the umask
 * leaves. Anything else is an error as above; this never waits for the other end of a pipe. *fd is
 * -1 on failure.
 */
int gt_file_open(int *fd, struct gt_file_name file, int flags, struct gt_err *err);

#endif
