/* temporary.h - private: create files and folders with temporary names, PATH.tmp-PID-N. */
#ifndef GT_BASE_TEMPORARY_H
#define GT_BASE_TEMPORARY_H

#include <sys/types.h>

#include "lib/base/file.h"

/* Create, open and lock f->temporary: f->path (at most 237 bytes of its name), .tmp-, the process
 * and an unused number, and remove those of processes that no longer exist. f->path, f->folder and
 * f->name are set before. Errors: GT_EIO, GT_ENOMEM. */
int gt_temporary_create(
    struct gt_atomic_file *f, bool is_folder, mode_t mode, int *fd, struct gt_err *err);

/* Rename the file or folder to its final name, or remove it. Returns nonzero with errno set; after
 * a failed rename, the temporary name stays. */
int gt_temporary_drop(struct gt_atomic_file *f, bool kept);

/* Sync the file's folder, so that a rename survives a power failure. Errors: GT_EIO. */
int gt_temporary_sync_folder(const struct gt_atomic_file *f, struct gt_err *err);

#endif
