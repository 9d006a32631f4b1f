/* temporary.h - inside base: files and folders under temporary names, PATH.tmp-PID-N. */
#ifndef GT_BASE_TEMPORARY_H
#define GT_BASE_TEMPORARY_H

#include <sys/types.h>

#include "lib/base/file.h"

/*
 * Create PATH.tmp-PID-N, open and locked, so that the umask counts and no other writer has the
 * name; gt_atomic_end() knows it from then on. f->path, folder and name are set before;
 * f->temporary is set here. Those of the same path whose processes are gone are removed. Errors:
 * GT_EIO, GT_ENOMEM.
 */
int gt_temporary_create(
    struct gt_atomic_file *f, bool is_folder, mode_t mode, int *fd, struct gt_err *err);

/* The file or folder loses its temporary name: it gets its own, or, unless it is `kept`, is removed
 * with the files in it. Nonzero, with errno set, on failure; one that is kept keeps the name. */
int gt_temporary_drop(struct gt_atomic_file *f, bool kept);

/* A rename is only durable once the folder that holds the name is on disk too. Errors: GT_EIO. */
int gt_temporary_sync_folder(const struct gt_atomic_file *f, struct gt_err *err);

#endif
