/* lock.h - inside ckpt: locks on files against other processes that edit them. */
#ifndef GT_CKPT_EDIT_LOCK_H
#define GT_CKPT_EDIT_LOCK_H

#include "lib/base/err.h"

/*
 * Open a file for writing and lock it (flock) for as long as *fd is open. Edits in place and
 * repairs take the lock before they read the file, so each of them reads the result of the previous
 * one. Readers take no lock. If another process holds the lock, try again for `wait_s` seconds. If
 * the file was replaced meanwhile, open the new one. On file systems without locks, take none.
 * Errors: GT_EIO, with *fd -1. After `wait_s` the message names the process that holds the lock, if
 * /proc/locks shows it.
 */
int gt_lock_file(int *fd, const char *path, double wait_s, struct gt_err *err);

/* The same for a file that may need no change: if this process cannot write the file, *fd is -1,
 * without an error. Reading or writing the file later reports the reason. */
int gt_lock_if_writable(int *fd, const char *path, double wait_s, struct gt_err *err);

#endif
