/* lock.h - inside ckpt: files locked against others who edit them. */
#ifndef GT_CKPT_LOCK_H
#define GT_CKPT_LOCK_H

#include "lib/base/err.h"

/*
 * Open a file for writing and lock it (flock), for as long as *fd is open: edits in place and
 * repairs do so before they read it, so that each reads what the one before has written. Readers
 * take no lock. While another process holds the lock, it is tried again for `wait_s` seconds; a
 * file that another one has taken the place of meanwhile is opened anew. File systems that know no
 * locks are edited without.
 * Errors: GT_EIO, with *fd -1; when the time is over, with the process that holds the lock, where
 * /proc/locks tells.
 */
int gt_lock_file(int *fd, const char *path, double wait_s, struct gt_err *err);

/* The same for a file that may need no change: *fd is -1, without an error, where the path is no
 * file that this process may write. Reading it, or writing it, tells why. */
int gt_lock_if_writable(int *fd, const char *path, double wait_s, struct gt_err *err);

#endif
