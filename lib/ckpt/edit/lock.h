/* lock.h - private: lock a file, so that two processes do not edit it at the same time. */
#ifndef GT_CKPT_EDIT_LOCK_H
#define GT_CKPT_EDIT_LOCK_H

#include "lib/base/err.h"

/*
 * Open the file `path` for writing, set *fd to its descriptor, and lock it with flock(). The lock
 * is held until *fd is closed. Code that edits or repairs a file in place takes the lock before it
 * reads the file. So it always reads the complete result of an earlier edit or repair. Programs
 * that only read take no lock.
 *
 * If another process holds the lock, try again for `wait_s` seconds. After that, fail; the message
 * contains the id of the other process, if /proc/locks shows it. If another file is renamed to
 * `path` during the wait, open and lock that file instead. On file systems that do not support
 * locks, succeed without a lock. Errors: GT_EIO. After an error, *fd is -1.
 */
int gt_lock_file(int *fd, const char *path, double wait_s, struct gt_err *err);

/*
 * If `path` is a regular file that this process can write, open and lock it like gt_lock_file().
 * Otherwise set *fd to -1 and return 0: the caller finds the reason when it later tries to read or
 * write the file.
 */
int gt_lock_if_writable(int *fd, const char *path, double wait_s, struct gt_err *err);

#endif
