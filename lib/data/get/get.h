/* get.h - download well-known data sets into a folder, check and unpack them. */
#ifndef GT_DATA_GET_GET_H
#define GT_DATA_GET_GET_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/data/get/sets.h"

struct gt_curl;

/* Options of downloads, and, after these, their state, which the caller zeroes. */
struct gt_get {
	const char *folder; /* the folder of all data sets */
	/* Download MIRROR/SET/FILE from a web server such as "http://nas:8000"; NULL: from the
	 * publishers. */
	const char *mirror;
	bool force; /* download files that exist, too */
	/* give up after this time without connection or data */
	double timeout_s;
	/* retries per address; a try that receives 1 MiB starts the count anew */
	int retries;
	/* before the first retry; doubled for each later one, up to 16 s */
	double pause_s;
	struct gt_log *log; /* messages and progress */

	struct gt_curl *curl; /* private */
	int fetched;          /* result: downloaded files */
};

/* Download missing files of a data set, check all of them, and unpack an archive; with `force`,
 * download all of them. Errors: GT_EIO; GT_EFORMAT if the content is not the published one;
 * GT_ENOTSUP without libcurl. */
int gt_get_set(struct gt_get *get, const struct gt_set *set, struct gt_err *err);
void gt_get_release(struct gt_get *get);

/* Check the syntax of a mirror. Errors: GT_EINVAL. */
int gt_get_check_mirror(const char *mirror, struct gt_err *err);

#endif
