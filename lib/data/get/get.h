/* get.h - well-known data sets fetched into a folder, checked, and unpacked. */
#ifndef GT_DATA_GET_GET_H
#define GT_DATA_GET_GET_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/data/get/sets.h"

struct gt_curl;

/* The caller sets the first part and zeroes the second, which gt_get_release() frees. */
struct gt_get {
	const char *folder; /* the folder of all sets; each set has a subfolder with its name */
	/* Take SET/FILE from this address in place of the publishers: "http://nas:8000". NULL: the
	 * publishers' addresses. Any web server that serves a folder of sets can be a mirror. */
	const char *mirror;
	bool force;         /* fetch files even if they exist */
	double timeout_s;   /* give up after this time without data or without a connection */
	int retries;        /* retries per address if the server fails or cuts the connection */
	double pause_s;     /* pause before the first retry; each later pause is twice as long */
	struct gt_log *log; /* messages, and progress if it can be drawn */

	struct gt_curl *curl; /* private; opened when first used */
	int fetched;          /* files that were downloaded */
};

/*
 * Provide the files of a set: fetch missing files, compare the size and SHA-256 of all files, and
 * unpack an archive. A file with another content is an error and is not changed, unless `force` is
 * set.
 *
 * A file is downloaded as NAME.part, and renamed when it is complete and its SHA-256 is right.
 * After an interruption NAME.part stays, and the next call continues it. If another process is
 * fetching the same file, this waits for it.
 *
 * Errors: GT_EIO (network or disk), GT_EFORMAT (another file than published), GT_ENOTSUP (no
 * libcurl), GT_ENOMEM. If the publisher cannot be reached, the hint says how to provide the files
 * by hand.
 */
int gt_get_set(struct gt_get *get, const struct gt_set *set, struct gt_err *err);
void gt_get_release(struct gt_get *get);

/* Check the syntax of a mirror's address. Errors: GT_EINVAL. */
int gt_get_check_mirror(const char *mirror, struct gt_err *err);

#endif
