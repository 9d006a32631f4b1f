/* new_folder.c - folders that appear whole or not at all. */
#include "lib/base/new_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/temporary.h"

/* Remove slashes at the end: "a/b/" is "a/b". */
static void cut_slashes(char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
}

int gt_new_folder_open(struct gt_new_folder *out, const char *path, struct gt_err *err)
{
	struct gt_atomic_file *f = &out->names;
	struct stat st;
	int fd, rc = 0;

	*out =
	    (struct gt_new_folder){ .names = { .path = gt_strdup(path, err), .folder = AT_FDCWD } };
	if (!f->path)
		return GT_ENOMEM;
	cut_slashes(f->path);
	if (!lstat(f->path, &st)) {
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

int gt_new_folder_commit(struct gt_new_folder *f, bool no_sync, struct gt_err *err)
{
	int rc = 0;

	if (gt_temporary_drop(&f->names, true))
		rc = gt_err_sys(
		    err, "cannot rename '%s' to '%s'", f->names.temporary, f->names.path);
	else if (!no_sync && gt_temporary_sync_folder(&f->names, err))
		rc = gt_err_prefix(
		    err, "the new content is in place, but it may not survive a power cut");
	gt_new_folder_abandon(f);
	return rc;
}

void gt_new_folder_abandon(struct gt_new_folder *f)
{
	gt_folder_close(&f->folder);
	gt_atomic_abandon(&f->names);
}
