/* file.c - whole files. */
#include "lib/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/mapped.h"
#include "lib/base/mem.h"
#include "lib/base/temporary.h"

int gt_map(struct gt_mapping *out, const char *path, struct gt_err *err)
{
	return gt_map_at(out, (struct gt_file_name){ .path = path }, err);
}

int gt_map_at(struct gt_mapping *out, struct gt_file_name file, struct gt_err *err)
{
	struct stat st;
	void *p;
	int fd, rc = gt_file_open(&fd, file, O_RDONLY, err);

	*out = (struct gt_mapping){ .fd = -1 };
	if (rc)
		return rc;
	if (fstat(fd, &st)) {
		rc = gt_err_sys(err, "cannot examine '%s'", file.path);
	} else if (st.st_size > 0) {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			rc = gt_err_sys(err, "cannot map '%s'", file.path);
		else
			*out = (struct gt_mapping){ p, (size_t)st.st_size, fd, 0 };
	}
	if (out->data)
		gt_mapped_add(out->data, out->size, file.path);
	else
		close(fd);
	return rc;
}

void gt_unmap(struct gt_mapping *map)
{
	if (map->data && map->fd >= 0) {
		gt_mapped_remove(map->data);
		munmap((void *)map->data, map->size);
		close(map->fd);
	}
	*map = (struct gt_mapping){ 0 };
}

struct gt_mapping gt_map_part(const struct gt_mapping *map, uint64_t offset, size_t size)
{
	return (struct gt_mapping){ map->data + offset, size, map->fd, map->start + offset };
}

int gt_read_to_end(void **out, size_t *size, int fd, size_t max, struct gt_err *err)
{
	char *bytes = NULL;
	size_t used = 0, capacity = 0;
	ssize_t n = 1;
	int rc = 0;

	while (!rc && n && used <= max) {
		rc = gt_grow(&bytes, used, &capacity, 1, err);
		n = rc ? 0 : read(fd, bytes + used, capacity - used);
		if (n < 0 && errno != EINTR)
			rc = gt_err_sys(err, "cannot read");
		used += n > 0 ? (size_t)n : 0;
	}
	if (!rc && used > max) {
		gt_err_set(err, GT_ENOMEM, "more than %zu bytes", max);
		rc = gt_err_hint(err, "name files, which take less memory, or give smaller parts");
	}
	*out = rc ? NULL : bytes;
	*size = used;
	if (rc)
		free(bytes);
	return rc;
}

int gt_map_peek(
    const struct gt_mapping *map, uint64_t offset, void *out, size_t size, struct gt_err *err)
{
	if (map->fd < 0) {
		if (size)
			memcpy(out, map->data + offset, size);
		return 0;
	}
	/* Network and user-space file systems may read less than asked, or be interrupted. */
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(
		    map->fd, (char *)out + done, size - done, (off_t)(map->start + offset + done));

		if (n < 0 && errno != EINTR)
			return gt_err_sys(err, "cannot read %zu bytes at byte %llu", size,
			    (unsigned long long)offset);
		if (n == 0)
			return gt_map_shrank(err);
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int gt_map_copy(const struct gt_mapping *map, uint64_t offset, size_t size, struct gt_arena *arena,
    unsigned char **out, struct gt_err *err)
{
	int rc;

	*out = gt_arena_alloc(arena, size, err);
	if (!*out)
		return GT_ENOMEM;
	rc = gt_map_peek(map, offset, *out, size, err);
	if (rc)
		*out = NULL;
	return rc;
}

int gt_map_shrank(struct gt_err *err)
{
	gt_err_set(err, GT_EIO, GT_MAP_SHRANK);
	return gt_err_hint(err, GT_MAP_SHRANK_HINT);
}

uint64_t gt_map_data(const struct gt_mapping *map, uint64_t offset)
{
	off_t data;

	if (map->fd < 0)
		return offset < map->size ? offset : map->size;
	data = lseek(map->fd, (off_t)(map->start + offset), SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? map->size : offset;
	offset = (uint64_t)data - map->start;
	return offset < map->size ? offset : map->size;
}

/* The system finds data in one direction only, so windows of growing size are tried backward, and
 * those with data in them in smaller ones again. */
uint64_t gt_map_data_end(const struct gt_mapping *map, uint64_t end)
{
	enum { STEP = 1 << 20 };
	uint64_t step = STEP;

	while (end) {
		uint64_t start = end > step ? end - step : 0;

		if (gt_map_data(map, start) >= end) {
			end = start;
			step *= 2;
		} else if (step > STEP) {
			step = STEP;
		} else {
			break;
		}
	}
	return end;
}

void gt_map_forget(const struct gt_mapping *map, uint64_t offset, uint64_t size)
{
	/* Linux maps this range around a page that is touched: by address, not by offset, 64 KiB,
	 * or all of a huge page in its cache. */
	const uintptr_t around = 2 << 20;
	uintptr_t base = (uintptr_t)map->data, limit = base + map->size;
	uintptr_t start = (base + offset) / around * around;
	uintptr_t end = (base + offset + size + around - 1) / around * around;

	/* A part need not begin at a page; its first page is then removed as a whole. */
	base -= (uintptr_t)(map->start % (uintptr_t)sysconf(_SC_PAGESIZE));
	start = start < base ? base : start;
	end = end > limit ? limit : end;
	if (map->fd >= 0 && end > start)
		madvise((void *)start, end - start, MADV_DONTNEED);
}

/* ---- files that appear whole ---- */

/* Return whether a link is one of those in /proc that stand for an open file. The text of such a
 * link need not be the name of the file, which may have another name by now, or none. It is an
 * absolute path, or text such as "pipe:[123]". Plain links of /proc, such as /proc/mounts, have
 * relative paths. `target` is the path that the text of the link leads to. */
static bool is_open_file(const char *link, const char *text, const char *target)
{
	int fd = open(link, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statfs st;
	bool in_proc = fd >= 0 && !fstatfs(fd, &st) && st.f_type == PROC_SUPER_MAGIC;

	if (fd >= 0)
		close(fd);
	return in_proc && (*text == '/' || access(target, F_OK));
}

static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Replace *path by the target of its links, which need not exist yet. `given` is the user's name
 * for it. */
static int follow_links(char **path, const char *given, struct gt_err *err)
{
	enum { LINKS = 40 }; /* the system follows no more links */
	char text[PATH_MAX];

	for (int i = 0; i < LINKS; i++) {
		const char *slash = strrchr(*path, '/');
		int folder = slash ? (int)(slash - *path + 1) : 0;
		ssize_t n = readlink(*path, text, sizeof(text) - 1);
		char *next;

		if (n < 0 || is_directory(*path))
			return 0; /* not a link, or an error, which opening reports */
		text[n] = '\0';
		next = gt_asprintf(err, "%.*s%s", *text == '/' ? 0 : folder, *path, text);
		if (!next)
			return GT_ENOMEM;
		if (is_open_file(*path, text, next)) {
			free(next);
			gt_err_set(err, GT_EIO,
			    "cannot write: '%s' is an open file, not the name of one", given);
			return gt_err_hint(err, "name a new file, and print it with cat");
		}
		free(*path);
		*path = next;
	}
	errno = ELOOP;
	return gt_err_sys(err, "cannot write '%s'", given);
}

/* Give the new file the group and permissions of the old one, and its owner if the system allows
 * this. Set-user-id bits stay only with the owner. */
static void inherit(int fd, const struct stat *old)
{
	mode_t mode = old->st_mode & 07777;
	struct stat own;

	if (fchown(fd, old->st_uid, old->st_gid) && fchown(fd, (uid_t)-1, old->st_gid))
		mode &= 0777;
	if (fstat(fd, &own) || own.st_uid != old->st_uid)
		mode &= 0777;
	fchmod(fd, mode);
}

int gt_atomic_open(struct gt_atomic_file *f, const char *path, struct gt_err *err)
{
	return gt_atomic_open_at(f, (struct gt_file_name){ .path = path }, err);
}

/* Set the paths of the file. *found says whether there is an old file, and *old describes it. */
static int choose_file(struct gt_atomic_file *f, struct gt_file_name file, struct stat *old,
    bool *found, struct gt_err *err)
{
	const char *name;
	int rc;

	*f = (struct gt_atomic_file){ .path = gt_strdup(file.path, err) };
	rc = !f->path ? GT_ENOMEM : file.folder ? 0 : follow_links(&f->path, file.path, err);
	if (rc)
		return rc;
	file.path = f->path;
	f->folder = gt_file_at(file, &name);
	f->name = (size_t)(name - f->path);
	rc = gt_file_check(file, old, found, err);
	return rc ? gt_err_prefix(err, "cannot write") : 0;
}

int gt_atomic_open_at(struct gt_atomic_file *f, struct gt_file_name file, struct gt_err *err)
{
	struct stat old;
	bool found = false;
	int fd = -1, rc = choose_file(f, file, &old, &found, err);

	if (!rc) /* a private file must not be readable by all for a moment */
		rc = gt_temporary_create(f, false, found ? 0600 : 0666, &fd, err);
	if (!rc) {
		if (found)
			inherit(fd, &old);
		f->stream = fdopen(fd, "wb");
		if (!f->stream) {
			rc = gt_err_sys(err, "cannot write '%s'", file.path);
			close(fd);
		}
	}
	if (rc)
		gt_atomic_abandon(f);
	return rc;
}

int gt_atomic_finish(struct gt_atomic_file *f, struct gt_err *err)
{
	bool failed = ferror(f->stream); /* errno is that of a later call */
	int rc = 0;

	if (fflush(f->stream) || (!f->no_sync && fsync(fileno(f->stream))))
		rc = gt_err_sys(err, "cannot write '%s'", f->path);
	else if (failed)
		rc = gt_err_set(err, GT_EIO, "cannot write '%s': a write failed", f->path);
	if (fclose(f->stream) && !rc)
		rc = gt_err_sys(err, "cannot write '%s'", f->path);
	f->stream = NULL;
	return rc;
}

/* Complete an error that came after the change was made: the change stays. */
static int say_in_place(struct gt_err *err)
{
	return gt_err_prefix(
	    err, "the new content is in place, but it may not survive a power cut");
}

/* Complete an error that came between two renames: the files renamed before it stay. */
static int say_between(size_t renamed, size_t count, struct gt_err *err)
{
	if (!renamed)
		return err->code;
	return renamed == 1
	           ? gt_err_prefix(
	                 err, "the first of %zu files is new, the others as before", count)
	           : gt_err_prefix(err, "files 1 to %zu of %zu are new, the others as before",
	                 renamed, count);
}

/* Rename all files, the last one when the others are on the disk. */
static int rename_all(struct gt_atomic_file *files, size_t count, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < count; i++) {
		struct gt_atomic_file *f = &files[i];

		if (i > 0 && i + 1 == count && !f->no_sync)
			rc = gt_temporary_sync_folder(f, err);
		if (!rc && gt_temporary_drop(f, true))
			rc = gt_err_sys(err, "cannot rename '%s' to '%s'", f->temporary, f->path);
		if (rc)
			return say_between(i, count, err);
	}
	return 0;
}

int gt_atomic_commit_all(struct gt_atomic_file *files, size_t count, struct gt_err *err)
{
	const struct gt_atomic_file *last = count ? &files[count - 1] : NULL;
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++)
		rc = files[i].stream ? gt_atomic_finish(&files[i], err) : 0;
	if (!rc)
		rc = rename_all(files, count, err);
	if (!rc && last && !last->no_sync && gt_temporary_sync_folder(last, err))
		rc = say_in_place(err);
	for (size_t i = 0; i < count; i++)
		gt_atomic_abandon(&files[i]);
	return rc;
}

int gt_atomic_commit(struct gt_atomic_file *f, struct gt_err *err)
{
	return gt_atomic_commit_all(f, 1, err);
}

int gt_change_finish(int fd, const char *path, bool no_sync, struct gt_err *err)
{
	int rc = 0;

	if (!no_sync && fsync(fd)) {
		gt_err_sys(err, "cannot sync '%s'", path);
		rc = say_in_place(err);
	}
	if (close(fd) && !rc) {
		gt_err_sys(err, "cannot close '%s'", path);
		rc = say_in_place(err);
	}
	return rc;
}

void gt_atomic_abandon(struct gt_atomic_file *f)
{
	if (f->stream)
		fclose(f->stream);
	if (f->temporary)
		gt_temporary_drop(f, false);
	free(f->path);
	*f = (struct gt_atomic_file){ 0 };
}
