/* file.c - whole files. */
#include "lib/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/mem.h"

int gt_map(struct gt_mapping *out, const char *path, struct gt_err *err)
{
	struct stat st;
	void *p;
	int rc = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */

	*out = (struct gt_mapping){ 0 };
	if (fd < 0)
		return gt_err_sys(err, "cannot open '%s'", path);
	if (fstat(fd, &st)) {
		rc = gt_err_sys(err, "cannot examine '%s'", path);
	} else if (!S_ISREG(st.st_mode)) {
		rc = gt_err_set(err, GT_EIO, "'%s' is %s, not a file", path,
		    S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
	} else if (st.st_size > 0) {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			rc = gt_err_sys(err, "cannot map '%s'", path);
		else
			*out = (struct gt_mapping){ p, (size_t)st.st_size, fd };
	}
	if (!out->data)
		close(fd);
	return rc;
}

void gt_unmap(struct gt_mapping *map)
{
	if (map->data && map->fd >= 0) {
		munmap((void *)map->data, map->size);
		close(map->fd);
	}
	*map = (struct gt_mapping){ 0 };
}

int gt_map_peek(
    const struct gt_mapping *map, uint64_t offset, void *out, size_t size, struct gt_err *err)
{
	ssize_t n;

	if (map->fd < 0) {
		memcpy(out, map->data + offset, size);
		return 0;
	}
	n = pread(map->fd, out, size, (off_t)offset);
	if (n < 0)
		return gt_err_sys(
		    err, "cannot read %zu bytes at byte %llu", size, (unsigned long long)offset);
	if ((size_t)n < size)
		return gt_err_set(err, GT_EIO, "the file has become shorter while it is read");
	return 0;
}

void gt_map_forget(const struct gt_mapping *map, uint64_t offset, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	/* Whole pages, with the one that a piece before has begun: pieces in a row leave none. */
	uint64_t start = offset / page * page, end = (offset + size) / page * page;

	if (map->fd >= 0 && end > start)
		madvise((unsigned char *)map->data + start, end - start, MADV_DONTNEED);
}

/* Create PATH.tmp-PID-N, so that the umask counts and no other writer has the name. */
static int create_temporary(struct gt_atomic_file *f, int *fd, struct gt_err *err)
{
	enum { ATTEMPTS = 1000 };

	for (int i = 0; i < ATTEMPTS; i++) {
		free(f->temporary);
		f->temporary = gt_asprintf(err, "%s.tmp-%ld-%d", f->path, (long)getpid(), i);
		if (!f->temporary)
			return GT_ENOMEM;
		*fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (*fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	free(f->temporary);
	f->temporary = NULL; /* not ours to remove */
	return gt_err_sys(err, "cannot write '%s'", f->path);
}

/* A file that is replaced keeps its permissions; what is no file is not replaced. */
static int check_target(const char *path, mode_t *mode, struct gt_err *err)
{
	struct stat st;

	*mode = 0;
	if (stat(path, &st))
		return 0;
	if (!S_ISREG(st.st_mode))
		return gt_err_set(err, GT_EIO, "cannot write '%s': it is %s, not a file", path,
		    S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
	*mode = st.st_mode & 07777;
	return 0;
}

int gt_atomic_open(struct gt_atomic_file *f, const char *path, struct gt_err *err)
{
	mode_t mode;
	int fd = -1;
	int rc = check_target(path, &mode, err);

	*f = (struct gt_atomic_file){ 0 };
	if (rc)
		return rc;
	f->path = gt_strdup(path, err);
	rc = f->path ? create_temporary(f, &fd, err) : GT_ENOMEM;
	if (!rc) {
		if (mode)
			fchmod(fd, mode);
		f->stream = fdopen(fd, "wb");
		if (!f->stream) {
			rc = gt_err_sys(err, "cannot write '%s'", path);
			close(fd);
		}
	}
	if (rc)
		gt_atomic_abandon(f);
	return rc;
}

/* A rename is only durable once the folder that holds the name is on disk too. */
static int sync_folder(const char *path, struct gt_err *err)
{
	char *folder = gt_strdup(path, err);
	char *slash;
	int fd, rc = 0;

	if (!folder)
		return GT_ENOMEM;
	slash = strrchr(folder, '/');
	if (slash == folder)
		slash[1] = '\0';
	else if (slash)
		*slash = '\0';
	fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (fsync(fd) && errno != EINVAL))
		rc = gt_err_sys(err, "cannot sync the folder of '%s'", path);
	if (fd >= 0)
		close(fd);
	free(folder);
	return rc;
}

int gt_atomic_commit(struct gt_atomic_file *f, struct gt_err *err)
{
	int rc = 0;

	if (ferror(f->stream) || fflush(f->stream) || (!f->no_sync && fsync(fileno(f->stream))))
		rc = gt_err_sys(err, "cannot write '%s'", f->path);
	if (fclose(f->stream) && !rc)
		rc = gt_err_sys(err, "cannot write '%s'", f->path);
	f->stream = NULL;
	if (!rc && rename(f->temporary, f->path))
		rc = gt_err_sys(err, "cannot rename '%s' to '%s'", f->temporary, f->path);
	if (!rc) {
		free(f->temporary);
		f->temporary = NULL;
		rc = f->no_sync ? 0 : sync_folder(f->path, err);
	}
	gt_atomic_abandon(f);
	return rc;
}

void gt_atomic_abandon(struct gt_atomic_file *f)
{
	if (f->stream)
		fclose(f->stream);
	if (f->temporary)
		unlink(f->temporary);
	free(f->temporary);
	free(f->path);
	*f = (struct gt_atomic_file){ 0 };
}

int gt_make_dirs(const char *path, struct gt_err *err)
{
	char *copy = gt_strdup(path, err);
	struct stat st;
	int rc = 0;

	if (!copy)
		return GT_ENOMEM;
	for (char *p = copy + 1; *copy && !rc; p++) {
		char saved = *p;

		if (saved != '/' && saved != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0777) && errno != EEXIST)
			rc = gt_err_sys(err, "cannot make the directory '%s'", copy);
		*p = saved;
		if (saved == '\0')
			break;
	}
	if (!rc && (stat(path, &st) || !S_ISDIR(st.st_mode)))
		rc = gt_err_set(err, GT_EIO, "'%s' is not a directory", path);
	free(copy);
	return rc;
}
