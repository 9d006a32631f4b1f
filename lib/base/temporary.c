/* temporary.c - files and folders under temporary names. */
#include "lib/base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/mem.h"

/* The temporary files and folders of this process, for gt_atomic_end(). */
struct temporary {
	int folder;
	const char *name; /* name in `folder`: the end of the path in struct gt_atomic_file */
	bool is_folder;
};

static struct {
	/* held while a name is added or removed, or a file is changed in place */
	pthread_mutex_t lock;
	struct temporary *files;
	size_t count, capacity;
} temporaries = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_folder(int folder, const char *name)
{
	return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_all_files(void)
{
	for (size_t i = 0; i < temporaries.count; i++)
		if (!temporaries.files[i].is_folder)
			unlinkat(temporaries.files[i].folder, temporaries.files[i].name, 0);
}

void gt_atomic_end(void)
{
	pthread_mutex_lock(&temporaries.lock); /* for good */
	remove_all_files();
	for (size_t i = 0; i < temporaries.count; i++)
		if (temporaries.files[i].is_folder)
			gt_folder_remove(temporaries.files[i].folder, temporaries.files[i].name);
}

void gt_atomic_end_by_fault(void)
{
	enum { TURNS = 100, TURN_US = 1000 };

	for (int i = 0; i < TURNS; i++) {
		if (!pthread_mutex_trylock(&temporaries.lock)) {
			remove_all_files(); /* a handler cannot list a folder */
			return;
		}
		usleep(TURN_US);
	}
}

void gt_atomic_enter(void)
{
	pthread_mutex_lock(&temporaries.lock);
}

void gt_atomic_leave(void)
{
	pthread_mutex_unlock(&temporaries.lock);
}

static int create(struct temporary t, mode_t mode)
{
	if (!t.is_folder)
		return openat(t.folder, t.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	return mkdirat(t.folder, t.name, mode) ? -1 : open_folder(t.folder, t.name);
}

/* Create the file or folder and list its name, in one step for gt_atomic_end(). Returns -1 with
 * errno set. */
static int create_noted(struct temporary t, mode_t mode, int *rc, struct gt_err *err)
{
	int fd = -1;

	pthread_mutex_lock(&temporaries.lock);
	*rc = gt_grow(&temporaries.files, temporaries.count, &temporaries.capacity, sizeof(t), err);
	if (!*rc)
		fd = create(t, mode);
	if (fd >= 0)
		temporaries.files[temporaries.count++] = t;
	pthread_mutex_unlock(&temporaries.lock);
	return fd;
}

static size_t find_temporary(const char *name)
{
	size_t i = 0;

	while (i < temporaries.count && temporaries.files[i].name != name)
		i++;
	return i;
}

int gt_temporary_drop(struct gt_atomic_file *f, bool kept)
{
	const char *name = f->temporary + f->name;
	size_t i;
	int failed;

	pthread_mutex_lock(&temporaries.lock);
	i = find_temporary(name);
	failed = kept ? renameat(f->folder, name, f->folder, f->path + f->name)
	         : temporaries.files[i].is_folder ? gt_folder_remove(f->folder, name)
	                                          : unlinkat(f->folder, name, 0);
	if (!failed || !kept) {
		temporaries.files[i] = temporaries.files[--temporaries.count];
		free(f->temporary);
		f->temporary = NULL;
	}
	pthread_mutex_unlock(&temporaries.lock);
	return failed;
}

/* Return how many bytes of a file's name its temporary name begins with, so that ".tmp-PID-N" still
 * fits. No character is cut. */
static size_t kept_length(const char *base)
{
	enum { ROOM = sizeof(".tmp-123456789-999") - 1, MOST = NAME_MAX - ROOM };
	size_t length = strlen(base);

	if (length <= MOST)
		return length;
	length = MOST;
	/* this byte is not the first one of a character */
	while (length > MOST - 3 && (base[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Return the process in BASE.tmp-PID-N, or 0 for a name of another form. */
static pid_t pid_in_name(const char *name, const char *base)
{
	static const char mark[] = ".tmp-";
	size_t length = kept_length(base), pid, n;

	if (strncmp(name, base, length) || strncmp(name + length, mark, sizeof(mark) - 1))
		return 0;
	name += length + sizeof(mark) - 1;
	pid = strspn(name, "0123456789");
	if (!pid || pid > 9 || *name == '0' || name[pid] != '-')
		return 0;
	n = strspn(name + pid + 1, "0123456789");
	return n && n <= 9 && !name[pid + 1 + n] ? (pid_t)strtol(name, NULL, 10) : 0;
}

/* Remove the file unless it is locked: a process of another machine or container may still hold it,
 * although no process here has its number. */
static void remove_unless_locked(int folder, const char *name, bool is_folder)
{
	int fd = is_folder ? open_folder(folder, name)
	                   : openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && (is_folder || S_ISREG(st.st_mode)) &&
	    !flock(fd, LOCK_EX | LOCK_NB)) {
		if (is_folder)
			gt_folder_remove(folder, name);
		else
			unlinkat(folder, name, 0);
	}
	close(fd);
}

/* Open the folder of the file. Returns -1 with errno set. */
static int open_folder_of(const struct gt_atomic_file *f)
{
	const char *name = f->path + f->name, *slash = strrchr(name, '/');
	char *folder = slash ? strndup(name, (size_t)(slash - name + 1)) : strdup(".");
	int fd = folder ? openat(f->folder, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	free(folder);
	return fd;
}

/* Remove temporary files, or folders, of this path whose processes are gone. Best effort. */
static void remove_stale(const struct gt_atomic_file *f, bool is_folder)
{
	const char *base = base_of(f->path);
	int fd = open_folder_of(f);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(dir));) {
		pid_t pid = pid_in_name(e->d_name, base);

		if (pid && kill(pid, 0) && errno == ESRCH)
			remove_unless_locked(dirfd(dir), e->d_name, is_folder);
	}
	closedir(dir);
}

int gt_temporary_create(
    struct gt_atomic_file *f, bool is_folder, mode_t mode, int *fd, struct gt_err *err)
{
	enum { ATTEMPTS = 1000 };
	const char *base = base_of(f->path);
	int error = EEXIST, kept = (int)(base - f->path) + (int)kept_length(base);

	remove_stale(f, is_folder);
	for (int i = 0; i < ATTEMPTS; i++) {
		char *name = gt_asprintf(err, "%.*s.tmp-%ld-%d", kept, f->path, (long)getpid(), i);
		int rc;

		if (!name)
			return GT_ENOMEM;
		*fd = create_noted(
		    (struct temporary){ f->folder, name + f->name, is_folder }, mode, &rc, err);
		if (*fd >= 0) {
			f->temporary = name;
			flock(*fd, LOCK_EX | LOCK_NB); /* the lock shows that the file is in use */
			return 0;
		}
		error = errno;
		free(name);
		if (rc)
			return rc;
		if (error != EEXIST)
			break;
	}
	errno = error;
	return gt_err_sys(err, "cannot write '%s'", f->path);
}

int gt_temporary_sync_folder(const struct gt_atomic_file *f, struct gt_err *err)
{
	int fd = open_folder_of(f), rc = 0;

	if (fd < 0 || (fsync(fd) && errno != EINVAL))
		rc = gt_err_sys(err, "cannot sync the folder of '%s'", f->path);
	if (fd >= 0)
		close(fd);
	return rc;
}
