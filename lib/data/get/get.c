/* get.c - well-known data sets fetched into a folder, checked, and unpacked. */
#include "lib/data/get/get.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/folder.h"
#include "lib/base/mem.h"
#include "lib/data/get/check.h"
#include "lib/data/get/curl_api.h"
#include "lib/data/get/fetch.h"
#include "lib/data/get/unpack.h"

/* The addresses of files that are missing, if they fit. */
static bool list_missing(
    char *out, size_t size, const struct gt_set *set, const struct gt_folder *folder)
{
	size_t used = 0;

	for (const struct gt_set_file *f = set->files; f->name && used < size; f++) {
		char *path = gt_folder_path(folder, f->name, GT_ERR_IGNORED);
		bool there = path && gt_file_exists((struct gt_file_name){ .path = path });

		free(path);
		if (!there)
			used += (size_t)snprintf(
			    out + used, size - used, "%s%s", used ? " " : "", f->addresses[0]);
	}
	return used && used < size;
}

/* How to do without a network, unless something better is known. */
static int hint_at_hands(
    const struct gt_set *set, const struct gt_folder *folder, struct gt_err *err)
{
	char list[sizeof(err->hint)];
	size_t left = sizeof(list) - 100;

	if (*err->hint)
		return err->code;
	left -= strlen(folder->path) < left ? strlen(folder->path) : left;
	if (list_missing(list, left, set, folder))
		return gt_err_hint(err,
		    "without a network: download %s on another machine, put it into '%s', and run "
		    "this again",
		    list, folder->path);
	return gt_err_hint(err,
	    "without a network: download what 'gtrain data ls %s' lists on another machine, put it "
	    "into '%s', and run this again",
	    set->name, folder->path);
}

static int fetch_set_file(struct gt_get *get, const struct gt_set *set,
    const struct gt_set_file *file, const struct gt_folder *folder, struct gt_err *err)
{
	int rc = get->curl ? 0 : gt_curl_open(&get->curl, err);

	if (!rc)
		rc = gt_fetch(get, set, file, folder, err);
	return rc ? hint_at_hands(set, folder, err) : 0;
}

static int get_file(struct gt_get *get, const struct gt_set *set, const struct gt_set_file *file,
    const struct gt_folder *folder, struct gt_err *err)
{
	char *path = gt_folder_path(folder, file->name, err);
	bool there = false;
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc && !get->force)
		rc = gt_set_check(&there, path, file, err);
	if (!rc && !there) {
		rc = fetch_set_file(get, set, file, folder, err);
		/* Another process may have downloaded the file. */
		if (!rc && !get->force)
			rc = gt_set_check(&there, path, file, err);
	}
	free(path);
	return rc;
}

/* Whether all parts are there; a wrong one is an error. */
static int check_parts(
    bool *all, const struct gt_set *set, const struct gt_folder *folder, struct gt_err *err)
{
	int rc = 0;

	*all = true;
	for (const struct gt_set_file *part = set->parts; part->name && *all && !rc; part++) {
		char *path =
		    gt_asprintf(err, "%s/%s/%s", folder->path, set->parts_folder, part->name);

		rc = path ? gt_set_check(all, path, part, err) : GT_ENOMEM;
		free(path);
	}
	return rc;
}

static int get_parts(struct gt_get *get, const struct gt_set *set, const struct gt_folder *folder,
    struct gt_err *err)
{
	char *archive;
	bool all = false;
	int rc = get->force ? 0 : check_parts(&all, set, folder, err);

	if (rc || all)
		return rc;
	archive = gt_folder_path(folder, set->files->name, err);
	if (!archive)
		return GT_ENOMEM;
	rc = get_file(get, set, set->files, folder, err);
	if (!rc) {
		gt_log_info(get->log, "unpacking '%s'", archive);
		rc = gt_set_unpack(set, folder, archive, err);
	}
	free(archive);
	return rc;
}

/*
 * Provide the files of a data set: download missing files, compare the size and SHA-256 of all
 * files, and unpack an archive. If an existing file has the wrong content, return an error and
 * leave the file as it is. If `force` is set, existing files are not checked; all files are
 * downloaded again.
 *
 * A file is downloaded as NAME.part. It is renamed when it is complete and its SHA-256 is correct.
 * After an interruption NAME.part stays, and the next call continues the download. If another
 * process is downloading the same file, this call waits for it.
 *
 * Errors: GT_EIO (network or disk), GT_EFORMAT (the content is not the published one), GT_ENOTSUP
 * (libcurl is not installed), GT_ENOMEM. If the publisher cannot be reached, the hint says how to
 * provide the files by hand.
 */
int gt_get_set(struct gt_get *get, const struct gt_set *set, struct gt_err *err)
{
	char *path = gt_set_path(set, get->folder, "", err);
	struct gt_folder folder = { .fd = -1 };
	int rc = path ? gt_make_dirs(path, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_folder_open(&folder, path, err);
	if (!rc && set->parts)
		rc = get_parts(get, set, &folder, err);
	for (const struct gt_set_file *f = set->files; !rc && !set->parts && f->name; f++)
		rc = get_file(get, set, f, &folder, err);
	gt_folder_close(&folder);
	free(path);
	return rc;
}

void gt_get_release(struct gt_get *get)
{
	gt_curl_close(get->curl);
	get->curl = NULL;
}

int gt_get_check_mirror(const char *mirror, struct gt_err *err)
{
	const char *host = strstr(mirror, "://");

	if (host && host[3] &&
	    (!strncasecmp(mirror, "http://", 7) || !strncasecmp(mirror, "https://", 8)))
		return 0;
	gt_err_set(err, GT_EINVAL, "{mirror}: '%s' is not an address of HTTP", mirror);
	return gt_err_hint(err, "for example {mirror} http://host:8000/data");
}
