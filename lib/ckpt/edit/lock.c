/* lock.c - locks on files against other processes that edit them. */
#include "lib/ckpt/edit/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/base/clock.h"

enum { TURN_US = 5000 }; /* between two tries */

/* The process that holds a lock on this file, or 0. A line of /proc/locks is
 * "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"; one that waits has "->" behind its number. */
static long holder(const struct stat *st)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256];
	long found = 0;

	while (locks && !found && fgets(line, sizeof(line), locks)) {
		unsigned long long inode;
		unsigned major_, minor_;
		long pid;

		if (sscanf(line, "%*u: FLOCK %*s %*s %ld %x:%x:%llu", &pid, &major_, &minor_,
		        &inode) == 4 &&
		    inode == st->st_ino && major_ == major(st->st_dev) &&
		    minor_ == minor(st->st_dev) && pid > 0)
			found = pid;
	}
	if (locks)
		fclose(locks);
	return found;
}

static int name_holder(int fd, const char *path, struct gt_err *err)
{
	struct stat st;
	long pid = fstat(fd, &st) ? 0 : holder(&st);

	if (pid)
		gt_err_set(err, GT_EIO, "'%s' is being edited by process %ld", path, pid);
	else
		gt_err_set(err, GT_EIO, "'%s' is being edited by another process", path);
	return gt_err_hint(err, "run the command again when that process has ended");
}

/* File systems that know no locks, some of those of networks, are to be edited all the same. */
static bool knows_no_locks(int error)
{
	return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

/* An edit may have put another file in the place of the one that was opened. */
static bool is_still(int fd, const char *path)
{
	struct stat own, there;

	return !fstat(fd, &own) && !stat(path, &there) && own.st_dev == there.st_dev &&
	       own.st_ino == there.st_ino;
}

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
int gt_lock_file(int *fd, const char *path, double wait_s, struct gt_err *err)
{
	double end = gt_clock_s() + wait_s;

	for (;; usleep(TURN_US)) {
		bool locked;
		int rc = 0;

		*fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
		if (*fd < 0)
			return gt_err_sys(err, "cannot write '%s'", path);
		locked = !flock(*fd, LOCK_EX | LOCK_NB) || knows_no_locks(errno);
		if (locked && is_still(*fd, path))
			return 0;
		if (!locked && errno != EWOULDBLOCK && errno != EINTR)
			rc = gt_err_sys(err, "cannot lock '%s'", path);
		else if (gt_clock_s() >= end && locked)
			rc = gt_err_set(err, GT_EIO, "'%s' was replaced while it was opened", path);
		else if (gt_clock_s() >= end)
			rc = name_holder(*fd, path, err);
		close(*fd);
		*fd = -1;
		if (rc)
			return rc;
	}
}

int gt_lock_if_writable(int *fd, const char *path, double wait_s, struct gt_err *err)
{
	struct stat st;

	*fd = -1;
	if (stat(path, &st) || !S_ISREG(st.st_mode) || access(path, W_OK))
		return 0;
	return gt_lock_file(fd, path, wait_s, err);
}
