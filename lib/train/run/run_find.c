/* run_find.c - find the run directories below a folder. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/run/run_read.h"

/* Folders nest less deep; runs are a few, in a folder of their own. */
enum { MOST_DEPTH = 16, MOST_RUNS = 1 << 16 };

static int add_path(struct gt_run_paths *out, const char *path, struct gt_err *err)
{
	int rc;

	if (out->count == MOST_RUNS)
		return gt_err_set(err, GT_ENOTSUP, "there are more than %d runs", MOST_RUNS);
	rc = gt_grow(&out->path, out->count, &out->capacity, sizeof(*out->path), err);
	if (!rc) {
		out->path[out->count] = gt_strdup(path, err);
		rc = out->path[out->count] ? 0 : GT_ENOMEM;
	}
	out->count += !rc;
	return rc;
}

static int find_runs(
    struct gt_run_paths *out, const struct gt_folder *folder, int depth, struct gt_err *err);

/* Look into an entry of a folder; a file, or a folder that cannot be opened, is passed over. */
static int find_in_entry(struct gt_run_paths *out, const struct gt_folder *parent, const char *name,
    int depth, struct gt_err *err)
{
	struct gt_folder folder = { .fd = -1 };
	struct stat st;
	int rc = 0;

	if (*name == '.' || fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISDIR(st.st_mode) || gt_folder_open_in(&folder, parent, name, false, GT_ERR_IGNORED))
		return 0;
	if (folder.path)
		rc = find_runs(out, &folder, depth, err);
	gt_folder_close(&folder);
	return rc;
}

static int find_runs(
    struct gt_run_paths *out, const struct gt_folder *folder, int depth, struct gt_err *err)
{
	const char *name;
	DIR *d;
	int rc;

	if (gt_run_dir_is_run(folder->fd, "."))
		return add_path(out, folder->path, err);
	if (depth == MOST_DEPTH)
		return 0;
	d = gt_folder_list(folder, depth ? GT_ERR_IGNORED : err);
	if (!d) /* below the folder that was named, it is passed over, too */
		return depth ? 0 : err->code;
	do {
		rc = gt_folder_next(&name, folder, d, err);
		if (!rc && name)
			rc = find_in_entry(out, folder, name, depth + 1, err);
	} while (!rc && name);
	closedir(d);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int gt_run_find(struct gt_run_paths *out, const char *folder, struct gt_err *err)
{
	struct gt_folder open;
	int rc = gt_folder_open(&open, folder, err);

	*out = (struct gt_run_paths){ 0 };
	if (rc)
		return rc;
	rc = find_runs(out, &open, 0, err);
	gt_folder_close(&open);
	if (out->count)
		qsort(out->path, out->count, sizeof(*out->path), by_name);
	return rc;
}

void gt_run_paths_release(struct gt_run_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->path[i]);
	free(paths->path);
	*paths = (struct gt_run_paths){ 0 };
}
