/* copies.c - the folder of the copies of rank 0's files, on a host that lacks them. */
#include "cmd/train/copies.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/walk.h"

/* The digits behind the prefix of a name; the seconds after which a folder without a lock is taken
 * to be one whose process is gone, and not one that is about to be locked. */
static const char prefix[] = "gtrain-files-";
enum { DIGITS = 16, STALE_S = 60 };

int gt_cmd_copies_name(char name[GT_CMD_COPIES_NAME], struct gt_err *err)
{
	unsigned long long number = 0;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return gt_err_sys(err, "no random numbers");
	snprintf(name, GT_CMD_COPIES_NAME, "%s%0*llx", prefix, DIGITS, number);
	return 0;
}

static bool is_name(const char *name)
{
	size_t length = sizeof(prefix) - 1;

	return !strncmp(name, prefix, length) &&
	       strspn(name + length, "0123456789abcdef") == DIGITS && !name[length + DIGITS];
}

static int open_folder(int parent, const char *name)
{
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Return whether the folder is of this user, is old enough, and no process holds its lock. */
static bool is_stale(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_uid == geteuid() && time(NULL) - st.st_mtime > STALE_S &&
	       !flock(fd, LOCK_EX | LOCK_NB);
}

/* Remove the folders of processes that were killed. Best effort. */
static void remove_stale(const char *parent)
{
	DIR *dir = opendir(parent);

	for (struct dirent *e; dir && (e = readdir(dir));) {
		char *path = is_name(e->d_name)
		                 ? gt_asprintf(GT_ERR_IGNORED, "%s/%s", parent, e->d_name)
		                 : NULL;
		int fd = path ? open_folder(dirfd(dir), e->d_name) : -1;

		if (fd >= 0 && is_stale(fd))
			gt_folder_remove_all(path);
		if (fd >= 0)
			close(fd);
		free(path);
	}
	if (dir)
		closedir(dir);
}

int gt_cmd_copies_make(int *fd, const char *parent, const char *path, struct gt_err *err)
{
	remove_stale(parent);
	*fd = -1;
	if (mkdir(path, 0700))
		return gt_err_sys(err, "cannot make the folder '%s'", path);
	*fd = open_folder(AT_FDCWD, path);
	if (*fd >= 0)
		(void)flock(*fd, LOCK_EX | LOCK_NB); /* the lock shows that it is in use */
	return 0;
}
