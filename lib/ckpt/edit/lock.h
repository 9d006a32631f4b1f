/* lock.h - private: lock a file, so that two processes do not edit it at the same time. */
#ifndef GT_CKPT_EDIT_LOCK_H
#define GT_CKPT_EDIT_LOCK_H

#include "lib/base/err.h"

/*
 * Open and lock a file for writing, until *fd is closed; try for `wait_s` seconds. Without support
 * for locks, succeed. GT_EIO; *fd is then -1.
 */
int gt_lock_file(int *fd, const char *path, double wait_s, struct gt_err *err);

/*
 * Lock a regular file that this process can write like gt_lock_file(). For others, set *fd to -1
 * and return 0.
 */
int gt_lock_if_writable(int *fd, const char *path, double wait_s, struct gt_err *err);

#endif
