/* download.h - private: download the missing bytes of a file from an HTTP server. */
#ifndef GT_DATA_GET_DOWNLOAD_H
#define GT_DATA_GET_DOWNLOAD_H

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/progress.h"
#include "lib/data/get/curl_api.h"

/* bytes of the name of a host */
enum { GT_HOST_SIZE = 128 };

struct gt_download {
	const char *address; /* http:// or https:// */
	const char *name;    /* the published file, for messages */
	const char *path;    /* the local file, for messages */
	/* The local file, open for writing, with the first n bytes of the published one, 0 <= n <
	 * size_bytes. */
	int fd;
	uint64_t size_bytes; /* more bytes are never written */
	/* Give up after this time without a connection, or below 1000 bytes per second. */
	double timeout_s;
	/* a progress line, which gt_download() starts and hides; NULL: none */
	struct gt_progress *progress;
};

/* What may help after an error. */
enum gt_download_remedy {
	GT_REMEDY_NONE,     /* nothing does */
	GT_REMEDY_RETRY,    /* try again after a moment */
	GT_REMEDY_ELSEWHERE /* try another address */
};

/* Download the missing bytes and append them to the file. After an error the next call continues
 * where this one ended. *remedy is always set. Errors: GT_EIO (network, server, disk), GT_EFORMAT
 * (another size), GT_ENOTSUP (libcurl rejects an option). */
int gt_download(struct gt_curl *curl, const struct gt_download *d, enum gt_download_remedy *remedy,
    struct gt_err *err);

/* Write the host of an address, without user and password, to `out`, and return it. */
const char *gt_download_host(char out[GT_HOST_SIZE], const char *address);

#endif
