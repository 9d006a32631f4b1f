/* new_folder.c - folders that appear whole or not at all. */
#include "lib/base/new_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/temporary.h"

/* Remove slashes at the end: "a/b/" is "a/b". */
static void cut_slashes(char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
}

static int make_folder(
    struct gt_new_folder *out, struct gt_file_name file, bool replace, struct gt_err *err)
{
	struct gt_atomic_file *f = &out->names;
	const char *name;
	struct stat st;
	int fd, rc = 0;

	*out =
	    (struct gt_new_folder){ .names.path = gt_strdup(file.path, err), .replace = replace };
	if (!f->path)
		return GT_ENOMEM;
	cut_slashes(f->path);
	file.path = f->path;
	f->folder = gt_file_at(file, &name);
	f->name = (size_t)(name - f->path);
	if (!replace && !fstatat(f->folder, name, &st, AT_SYMLINK_NOFOLLOW)) {
		errno = EEXIST;
		rc = gt_err_sys(err, "cannot make the folder '%s'", f->path);
	}
	if (!rc)
		rc = gt_temporary_create(f, true, 0777, &fd, err);
	if (!rc) {
		out->folder = (struct gt_folder){ fd, gt_strdup(f->temporary, err) };
		rc = out->folder.path ? 0 : GT_ENOMEM;
	}
	if (rc)
		gt_new_folder_abandon(out);
	return rc;
}

int gt_new_folder_open(struct gt_new_folder *out, const char *path, struct gt_err *err)
{
	return make_folder(out, (struct gt_file_name){ .path = path }, false, err);
}

int gt_new_folder_open_at(
    struct gt_new_folder *out, struct gt_file_name file, bool replace, struct gt_err *err)
{
	return make_folder(out, file, replace, err);
}

/* Exchange the names of the new folder and an old one, so that at each moment one of them has the
 * name. Returns false if there is no old one, or the file system cannot do this. */
static bool exchange(const struct gt_atomic_file *f)
{
	return !renameat2(
	    f->folder, f->temporary + f->name, f->folder, f->path + f->name, RENAME_EXCHANGE);
}

static int rename_new(struct gt_new_folder *f, struct gt_err *err)
{
	const struct gt_file_name file = { NULL, f->names.path };
	int rc = f->replace ? gt_new_folder_remove(file, err) : 0;

	if (!rc && gt_temporary_drop(&f->names, true))
		rc = gt_err_sys(
		    err, "cannot rename '%s' to '%s'", f->names.temporary, f->names.path);
	return rc;
}

int gt_new_folder_commit(struct gt_new_folder *f, bool no_sync, struct gt_err *err)
{
	int rc = f->replace && exchange(&f->names) ? 0 : rename_new(f, err);

	if (!rc && !no_sync && gt_temporary_sync_folder(&f->names, err))
		rc = gt_err_prefix(
		    err, "the new content is in place, but it may not survive a power cut");
	gt_new_folder_abandon(f); /* after an exchange, this removes the old folder */
	return rc;
}

void gt_new_folder_abandon(struct gt_new_folder *f)
{
	gt_folder_close(&f->folder);
	gt_atomic_abandon(&f->names);
}

int gt_new_folder_remove(struct gt_file_name file, struct gt_err *err)
{
	enum { ATTEMPTS = 1000 };
	const char *name;
	int folder = gt_file_at(file, &name), failed = -1;
	char *aside = NULL;

	errno = EEXIST;
	for (int i = 0; failed && (errno == EEXIST || errno == ENOTEMPTY) && i < ATTEMPTS; i++) {
		free(aside);
		aside = gt_asprintf(err, "%s.tmp-%ld-%d", name, (long)getpid(), i);
		if (!aside)
			return GT_ENOMEM;
		failed = renameat(folder, name, folder, aside);
	}
	if (!failed)
		failed = gt_folder_remove(folder, aside);
	free(aside);
	return failed && errno != ENOENT ? gt_err_sys(err, "cannot remove '%s'", file.path) : 0;
}
