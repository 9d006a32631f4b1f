/* temporary.h - inside base: files and folders under temporary names, PATH.tmp-PID-N. */
#ifndef GT_BASE_TEMPORARY_H
#define GT_BASE_TEMPORARY_H

#include <sys/types.h>

#include "lib/base/file.h"

/*
 * Create PATH.tmp-PID-N, open it and lock it. The umask applies, and the name is new.
 * gt_atomic_end() removes the file or folder from then on. The caller has set f->path, folder and
 * name; this sets f->temporary. It also removes temporary files of the same path whose processes no
 * longer exist. Errors: GT_EIO, GT_ENOMEM.
 */
int gt_temporary_create(
    struct gt_atomic_file *f, bool is_folder, mode_t mode, int *fd, struct gt_err *err);

/* End the use of the temporary name. With `kept`, the file or folder gets its final name; otherwise
 * it is removed, with the files in it. On failure this returns nonzero with errno set, and a file
 * or folder to be kept still has the temporary name. */
int gt_temporary_drop(struct gt_atomic_file *f, bool kept);

/* A rename is only durable once the folder that holds the name is on disk too. Errors: GT_EIO. */
int gt_temporary_sync_folder(const struct gt_atomic_file *f, struct gt_err *err);

#endif
