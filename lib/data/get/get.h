/* get.h - download well-known data sets into a folder, check and unpack them. */
#ifndef GT_DATA_GET_GET_H
#define GT_DATA_GET_GET_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/data/get/sets.h"

struct gt_curl;

/* Options and state of downloads. The caller sets the fields of the first part, and zeroes the
 * second part. Release the struct with gt_get_release(). */
struct gt_get {
	const char *folder; /* the folder of all data sets; each has a subfolder with its name */
	/* Download MIRROR/SET/FILE instead of the publishers' addresses, with a MIRROR such as
	 * "http://nas:8000". Any web server can be a mirror if it serves a folder of data sets.
	 * NULL: use the publishers' addresses. */
	const char *mirror;
	bool force; /* download files even if they exist */
	/* give up if there is no connection, or almost no data arrive, for this time */
	double timeout_s;
	/* retries per address if the server fails or cuts the connection; a try that receives 1 MiB
	 * or more resets the count and the pause */
	int retries;
	/* seconds before the first retry; the pause doubles for each later retry, up to 16 s */
	double pause_s;
	struct gt_log *log; /* messages, and progress if the terminal can show it */

	struct gt_curl *curl; /* private; opened when first used */
	int fetched;          /* result: number of files that were downloaded */
};

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
int gt_get_set(struct gt_get *get, const struct gt_set *set, struct gt_err *err);
void gt_get_release(struct gt_get *get);

/* Check the syntax of a mirror's address. Errors: GT_EINVAL. */
int gt_get_check_mirror(const char *mirror, struct gt_err *err);

#endif
