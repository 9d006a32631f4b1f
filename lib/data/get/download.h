/* download.h - private: download the missing bytes of a file from an HTTP server. */
#ifndef GT_DATA_GET_DOWNLOAD_H
#define GT_DATA_GET_DOWNLOAD_H

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/progress.h"
#include "lib/data/get/curl_api.h"

/* Size in bytes of a buffer for the name of a host, including the terminating zero. */
enum { GT_HOST_SIZE = 128 };

struct gt_download {
	const char *address; /* http:// or https:// */
	const char *name;    /* name of the published file, for messages */
	const char *path;    /* path of the local file, for messages */
	/* The local file, open for writing. It holds the first bytes of the download, or none. */
	int fd;
	uint64_t size_bytes; /* size of the whole file; more bytes are never written */
	/* Give up if no connection is made, or no data arrive, within this time. */
	double timeout_s;
	/* A progress line. gt_download() starts and hides it. NULL: none. */
	struct gt_progress *progress;
};

/* An action that may help after an error. */
enum gt_download_remedy {
	GT_REMEDY_NONE,     /* no other download can help: the local file cannot be written */
	GT_REMEDY_RETRY,    /* try the same address again after a moment */
	GT_REMEDY_ELSEWHERE /* try another address; this one does not provide the file */
};

/*
 * Download the missing bytes of a file, and append them to the local file. If the server ignores
 * the requested range and sends the whole file, the local file is written again from its start.
 *
 * After an error the local file holds the correct bytes received so far, and the next call
 * continues after them. But if the server's answer does not fit (another part, or a file of another
 * size), the local file is emptied. *remedy is set in every case.
 *
 * Only HTTP and HTTPS are used, also after redirects. Redirects from HTTPS to HTTP are not
 * followed. Proxies are taken from the environment (http_proxy, https_proxy, no_proxy).
 *
 * Errors: GT_EIO (network, server, disk), GT_EFORMAT (a file of another size).
 */
int gt_download(struct gt_curl *curl, const struct gt_download *d, enum gt_download_remedy *remedy,
    struct gt_err *err);

/* Write the host of an address to `out`, without the user name and the password that the address
 * may contain. Return `out`. */
const char *gt_download_host(char out[GT_HOST_SIZE], const char *address);

#endif
