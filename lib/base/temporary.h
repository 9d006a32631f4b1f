/* temporary.h - private: create files and folders with temporary names, PATH.tmp-PID-N. */
#ifndef GT_BASE_TEMPORARY_H
#define GT_BASE_TEMPORARY_H

#include <sys/types.h>

#include "lib/base/file.h"

/*
 * Create a file or a folder with a temporary name, open it and lock it. The name is PATH.tmp-PID-N:
 * PATH is f->path, PID is the id of this process, and N is a number for which the name was not in
 * use. If the last component of PATH has more than 237 bytes, its end is left out, because a name
 * has at most NAME_MAX bytes (255). The permissions are `mode` without the bits of the umask. Set
 * *fd to the descriptor of the file or folder, and f->temporary to its path. The caller must have
 * set f->path, f->folder and f->name.
 *
 * gt_atomic_end() removes a file or folder that still has its temporary name.
 *
 * gt_temporary_create() also removes temporary files (or folders) of the same path that were left
 * by processes that no longer exist.
 *
 * Errors: GT_EIO, GT_ENOMEM.
 */
int gt_temporary_create(
    struct gt_atomic_file *f, bool is_folder, mode_t mode, int *fd, struct gt_err *err);

/* End the use of the temporary name. If `kept` is true, rename the file or folder to its final
 * name. Otherwise remove it; a folder is removed with the files in it. Return 0, or a nonzero value
 * with errno set. If a rename fails, the file or folder keeps its temporary name. */
int gt_temporary_drop(struct gt_atomic_file *f, bool kept);

/* Sync the folder that contains the file. Only after this, a rename of the file is sure to survive
 * a power failure. Errors: GT_EIO. */
int gt_temporary_sync_folder(const struct gt_atomic_file *f, struct gt_err *err);

#endif
