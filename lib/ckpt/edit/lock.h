/* lock.h - inside ckpt: lock a file, so that two processes do not edit it at the same time. */
#ifndef GT_CKPT_EDIT_LOCK_H
#define GT_CKPT_EDIT_LOCK_H

#include "lib/base/err.h"

/*
 * Open a file for writing and lock it with flock(). The lock is held until *fd is closed. Edits in
 * place and repairs take the lock before they read the file, so each of them reads the result of
 * the previous one. Programs that only read take no lock.
 *
 * If another process holds the lock, try again for `wait_s` seconds. Then fail; the message
 * contains the id of that process, if /proc/locks shows it. If another file was renamed to this
 * path meanwhile, open that file. On file systems without locks, succeed without a lock. Errors:
 * GT_EIO; *fd is then -1.
 */
int gt_lock_file(int *fd, const char *path, double wait_s, struct gt_err *err);

/*
 * Lock a file like gt_lock_file(), if this process can write it. If it cannot, set *fd to -1 and
 * return 0. A later attempt to read or write the file then reports the reason.
 */
int gt_lock_if_writable(int *fd, const char *path, double wait_s, struct gt_err *err);

#endif
