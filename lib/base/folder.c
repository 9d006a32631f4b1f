/* folder.c - folders held open, and files by their names in them. */
#include "lib/base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/walk.h"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

static const char *kind_of(mode_t mode)
{
	return S_ISLNK(mode)    ? "a symbolic link"
	       : S_ISDIR(mode)  ? "a directory"
	       : S_ISSOCK(mode) ? "a socket"
	       : S_ISREG(mode)  ? "a file"
	                        : "a device or pipe";
}

/* ---- folders ---- */

static int hold(struct gt_folder *out, int fd, char *path)
{
	*out = (struct gt_folder){ fd, path };
	return 0;
}

int gt_folder_open(struct gt_folder *out, const char *path, struct gt_err *err)
{
	char *copy = gt_strdup(path, err);
	int fd;

	*out = (struct gt_folder){ .fd = -1 };
	if (!copy)
		return GT_ENOMEM;
	fd = open(path, FOLDER_FLAGS);
	if (fd >= 0)
		return hold(out, fd, copy);
	free(copy);
	return gt_err_sys(err, "cannot open the directory '%s'", path);
}

/* Open the folder; if something else has its name, the error says so. */
static int open_in(
    struct gt_folder *out, const struct gt_folder *parent, const char *name, struct gt_err *err)
{
	char *path = gt_folder_path(parent, name, err);
	struct stat st;
	int fd, rc;

	if (!path)
		return GT_ENOMEM;
	fd = openat(parent->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
	if (fd >= 0)
		return hold(out, fd, path);
	rc = gt_err_sys(err, "cannot open the directory '%s'", path);
	if (!fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISDIR(st.st_mode)) {
		gt_err_set(err, GT_EIO, "'%s' is %s, not a directory", path, kind_of(st.st_mode));
		rc = gt_err_hint(err, "replace it with a directory; links in '%s' are not followed",
		    parent->path);
	}
	free(path);
	return rc;
}

int gt_folder_open_in(struct gt_folder *out, const struct gt_folder *parent, const char *name,
    bool make, struct gt_err *err)
{
	struct stat st;

	*out = (struct gt_folder){ .fd = -1 };
	if (make && mkdirat(parent->fd, name, 0777) && errno != EEXIST)
		return gt_err_sys(err, "cannot make the directory '%s/%s'", parent->path, name);
	if (!make && fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
		return 0;
	return open_in(out, parent, name, err);
}

void gt_folder_close(struct gt_folder *folder)
{
	if (folder->path)
		close(folder->fd);
	free(folder->path);
	*folder = (struct gt_folder){ .fd = -1 };
}

DIR *gt_folder_list(const struct gt_folder *folder, struct gt_err *err)
{
	/* a new descriptor has its own position in the list */
	int fd = openat(folder->fd, ".", FOLDER_FLAGS);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		return dir;
	gt_err_sys(err, "cannot read the directory '%s'", folder->path);
	if (fd >= 0)
		close(fd);
	return NULL;
}

int gt_folder_next(const char **name, const struct gt_folder *folder, DIR *dir, struct gt_err *err)
{
	struct dirent *e;

	errno = 0;
	e = readdir(dir);
	*name = e ? e->d_name : NULL;
	return e || !errno ? 0 : gt_err_sys(err, "cannot read the directory '%s'", folder->path);
}

/* Remove the files in an open folder, and close it. Folders in it stay. Errors are ignored. */
static void remove_files(int fd)
{
	DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(dir));)
		unlinkat(fd, e->d_name, 0);
	closedir(dir);
}

int gt_folder_remove(int parent, const char *name)
{
	int fd = openat(parent, name, FOLDER_FLAGS | O_NOFOLLOW);

	if (fd >= 0)
		remove_files(fd);
	return unlinkat(parent, name, AT_REMOVEDIR);
}

char *gt_folder_path(const struct gt_folder *folder, const char *name, struct gt_err *err)
{
	return gt_asprintf(err, "%s/%s", folder->path, name);
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

/* ---- files ---- */

int gt_file_at(struct gt_file_name file, const char **name)
{
	*name = file.folder ? file.path + strlen(file.folder->path) + 1 : file.path;
	return file.folder ? file.folder->fd : AT_FDCWD;
}

static bool stat_entry(struct gt_file_name file, struct stat *st)
{
	const char *name;
	int folder = gt_file_at(file, &name);

	return !fstatat(folder, name, st, file.folder ? AT_SYMLINK_NOFOLLOW : 0);
}

/* Return whether this errno of stat() means that the file does not exist. */
static bool is_missing(int error)
{
	return error == ENOENT || error == ENOTDIR;
}

bool gt_file_exists(struct gt_file_name file)
{
	struct stat st;

	return stat_entry(file, &st) || !is_missing(errno);
}

bool gt_file_is_same(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Cut the last name off a path. Return false if the path names no folder before it. */
static bool cut_name(char *path)
{
	char *slash;

	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	slash = strrchr(path, '/');
	if (!slash || !slash[1])
		return false;
	slash[slash == path] = '\0'; /* the folder of "/name" is "/" */
	return true;
}

/* Return the real path of the nearest existing folder above `path`, which is cut. */
static char *real_folder(char *path)
{
	char *real = NULL;

	while (cut_name(path) && !real)
		real = realpath(path, NULL);
	return real ? real : realpath(*path == '/' ? "/" : ".", NULL);
}

/* Return whether the folder of `path` is `folder` or below it. `path` is cut. */
static bool is_within(char *path, const char *folder)
{
	char *real = real_folder(path);
	bool found = false;

	while (real && !found) {
		found = gt_file_is_same(real, folder);
		if (!cut_name(real))
			break;
	}
	free(real);
	return found;
}

bool gt_file_is_below(const char *path, const char *folder)
{
	char *own = strdup(path), *target = realpath(path, NULL);
	bool below = own && is_within(own, folder);

	if (!below && target)
		below = is_within(target, folder);
	free(own);
	free(target);
	return below;
}

static int not_regular(struct gt_file_name file, const struct stat *st, struct gt_err *err)
{
	gt_err_set(err, GT_EIO, "'%s' is %s, not a regular file", file.path, kind_of(st->st_mode));
	if (file.folder)
		gt_err_hint(err, "files in '%s' must be regular files: replace or remove this one",
		    file.folder->path);
	return err->code;
}

int gt_file_check(struct gt_file_name file, struct stat *st, bool *found, struct gt_err *err)
{
	struct stat own;

	st = st ? st : &own;
	*found = stat_entry(file, st);
	if (!*found)
		return is_missing(errno) ? 0 : gt_err_sys(err, "cannot examine '%s'", file.path);
	return S_ISREG(st->st_mode) ? 0 : not_regular(file, st, err);
}

int gt_file_open(int *fd, struct gt_file_name file, int flags, struct gt_err *err)
{
	const char *name;
	int folder = gt_file_at(file, &name), rc = 0;
	struct stat st;

	*fd = openat(folder, name,
	    flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (file.folder ? O_NOFOLLOW : 0), 0666);
	if (*fd < 0) {
		rc = gt_err_sys(err, "cannot %s '%s'",
		    (flags & O_ACCMODE) == O_RDONLY ? "open" : "write", file.path);
		return stat_entry(file, &st) && !S_ISREG(st.st_mode) ? not_regular(file, &st, err)
		                                                     : rc;
	}
	if (fstat(*fd, &st))
		rc = gt_err_sys(err, "cannot examine '%s'", file.path);
	else if (!S_ISREG(st.st_mode))
		rc = not_regular(file, &st, err);
	if (rc) {
		close(*fd);
		*fd = -1;
	}
	return rc;
}

static int check_elsewhere(const char *path, const char *folder, struct gt_err *err)
{
	if (!gt_file_is_same(path, folder) && !gt_file_is_below(path, folder))
		return 0;
	gt_err_set(err, GT_EINVAL, "'%.200s' is in the input folder '%.200s'", path, folder);
	return gt_err_hint(err, "name a path elsewhere");
}

/* The target of a link is checked like the folder itself. If the file system does not give types of
 * entries, every entry is checked. */
static int check_link(
    const char *path, const char *folder, const struct dirent *entry, struct gt_err *err)
{
	char *target;
	int rc;

	if (entry->d_type == DT_DIR || entry->d_type == DT_REG || !strcmp(entry->d_name, ".."))
		return 0;
	target = gt_asprintf(err, "%s/%s", folder, entry->d_name);
	rc = target ? check_elsewhere(path, target, err) : GT_ENOMEM;
	free(target);
	return rc;
}

int gt_file_check_not_in(const char *path, const char *folder, struct gt_err *err)
{
	const struct dirent *entry;
	int rc = check_elsewhere(path, folder, err);
	DIR *dir;

	if (rc)
		return rc;
	dir = opendir(folder);
	if (!dir)
		return gt_err_sys(err, "cannot list '%s'", folder);
	while (!rc && (errno = 0, entry = readdir(dir)))
		rc = check_link(path, folder, entry, err);
	if (!rc && errno)
		rc = gt_err_sys(err, "cannot list '%s'", folder);
	closedir(dir);
	return rc;
}

struct search {
	struct stat file;
	bool found;
};

static int is_the_file(void *context, FTS *fts, FTSENT *entry, struct gt_err *err)
{
	struct search *s = context;

	(void)fts;
	(void)err;
	s->found = entry->fts_info == FTS_F && entry->fts_statp->st_dev == s->file.st_dev &&
	           entry->fts_statp->st_ino == s->file.st_ino;
	return s->found;
}

/* Set *found to whether links in the folder lead to the file `path`. Each file in the folder is
 * examined, which takes time, so the caller first looks where the file is. */
static int find_links(bool *found, const char *folder, const char *path, struct gt_err *err)
{
	struct search s = { 0 };
	const struct gt_folder_walk how = { .visit = is_the_file, .context = &s };
	int rc;

	*found = false;
	if (stat(path, &s.file) || !S_ISREG(s.file.st_mode)) /* a new file, or a device */
		return 0;
	rc = gt_folder_walk(folder, &how, err);
	*found = s.found;
	return s.found ? 0 : rc;
}

int gt_file_check_not_input(const char *path, const char *input, struct gt_err *err)
{
	bool found = gt_file_is_same(path, input);
	struct stat st;

	if (stat(input, &st))
		return 0;
	if (S_ISDIR(st.st_mode) &&
	    (gt_file_check_not_in(path, input, err) || find_links(&found, input, path, err)))
		return err->code;
	if (!found)
		return 0;
	gt_err_set(err, GT_EINVAL, "'%.200s' is an input, and would be overwritten", path);
	return gt_err_hint(err, "name another file");
}

const char *gt_home_of(const char *path)
{
	const char *home = *path == '~' && (!path[1] || path[1] == '/') ? getenv("HOME") : NULL;

	return home && *home ? home : NULL;
}
