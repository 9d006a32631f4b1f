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
	/* The local file, open for writing. It holds the first n bytes of the published file,
	 * 0 <= n < size_bytes. */
	int fd;
	uint64_t size_bytes; /* size of the whole file; more bytes are never written */
	/* Give up if no connection is made within this time, or if the data rate stays below 1000
	 * bytes per second for this time. */
	double timeout_s;
	/* A progress line. gt_download() starts and hides it. NULL: none. */
	struct gt_progress *progress;
};

/* An action that may help after an error. */
enum gt_download_remedy {
	GT_REMEDY_NONE,     /* no action: no error, or an error that another try cannot solve */
	GT_REMEDY_RETRY,    /* try the same address again after a moment */
	GT_REMEDY_ELSEWHERE /* try another address; this one does not provide the file */
};

/*
 * Download the missing bytes of a file, and append them to the local file. If the server ignores
 * the requested range and sends the whole file, the local file is written again from its start.
 *
 * After an error the local file holds the bytes received so far, and the next call continues after
 * them. There is one exception: if the server rejects the requested range, or sends another part of
 * the file or a file of another size, the local file is emptied. *remedy is always set, also after
 * success.
 *
 * Only HTTP and HTTPS are used, also after redirects. Redirects from HTTPS to HTTP are not
 * followed. Proxies are taken from the environment (http_proxy, https_proxy, no_proxy).
 *
 * Errors: GT_EIO (network, server, disk), GT_EFORMAT (a file of another size), GT_ENOTSUP (libcurl
 * rejects an option).
 */
int gt_download(struct gt_curl *curl, const struct gt_download *d, enum gt_download_remedy *remedy,
    struct gt_err *err);

/* Write the host of an address to `out`, without the user name and the password that the address
 * may contain. Return `out`. */
const char *gt_download_host(char out[GT_HOST_SIZE], const char *address);

#endif
