/* get.h - well-known data sets fetched into a folder, checked, and unpacked. */
#ifndef GT_DATA_GET_GET_H
#define GT_DATA_GET_GET_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/data/get/sets.h"

struct gt_curl;

/* The caller fills in the first part and zeroes the rest, which gt_get_release() frees. */
struct gt_get {
	const char *folder; /* of all sets; each has a folder of its name in it */
	/* Take SET/FILE from this address in place of the publishers: "http://nas:8000". NULL: the
	 * publishers' addresses. A folder of sets that any web server shows is a mirror. */
	const char *mirror;
	bool force;         /* fetch files that are there, too */
	double timeout_s;   /* without data, or to connect */
	int retries;        /* of an address whose server fails or cuts the connection */
	double pause_s;     /* before the first retry; then twice as long each time */
	struct gt_log *log; /* with progress, where that can be drawn */

	struct gt_curl *curl; /* the object's own, opened when first used */
	int fetched;          /* files that were downloaded */
};

/*
 * Make the files of a set be there: those that are missing are fetched, all are compared with size
 * and SHA-256, an archive is unpacked. A file that is there and is not the publisher's is an error
 * and stays, unless `force`.
 *
 * A file comes as NAME.part and gets its name when it is whole and right; an interrupted one stays
 * for the next call, which goes on where it ended. A process that finds another one fetching the
 * same file waits for it.
 *
 * Errors: GT_EIO (network or disk), GT_EFORMAT (another file than published), GT_ENOTSUP (no
 * libcurl), GT_ENOMEM. Where the publisher cannot be reached, the hint says how to bring the files
 * by hand.
 */
int gt_get_set(struct gt_get *get, const struct gt_set *set, struct gt_err *err);
void gt_get_release(struct gt_get *get);

/* Check that an address of a mirror can be one: GT_EINVAL. */
int gt_get_check_mirror(const char *mirror, struct gt_err *err);

#endif
