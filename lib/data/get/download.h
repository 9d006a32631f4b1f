/* download.h - inside data: the rest of a file from an HTTP server. */
#ifndef GT_DATA_GET_DOWNLOAD_H
#define GT_DATA_GET_DOWNLOAD_H

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/progress.h"
#include "lib/data/get/curl_api.h"

/* The name of a host in messages. */
enum { GT_HOST_SIZE = 128 };

struct gt_download {
	const char *address; /* http:// or https:// */
	const char *name;    /* name of the file, for messages */
	const char *path;    /* path of the file that is written, for messages */
	/* the same file, open; it holds the first bytes of the download, or none */
	int fd;
	uint64_t size_bytes; /* size of the whole file; more bytes are never written */
	/* give up after this time without data or without a connection */
	double timeout_s;
	/* a progress line, which this call starts and hides; NULL: none */
	struct gt_progress *progress;
};

/* Actions that may help after an error. */
enum gt_download_remedy {
	GT_REMEDY_NONE,     /* the file cannot be written */
	GT_REMEDY_RETRY,    /* try the same address again after a moment */
	GT_REMEDY_ELSEWHERE /* this address has no such file */
};

/*
 * Fetch the rest of a file, and append it to the bytes that are there. If the server ignores the
 * requested range and sends the whole file, the file is written from its start. After an error the
 * file holds a valid beginning, from which the next call continues; it is empty if the bytes
 * received cannot belong to it. Only HTTP and HTTPS are used, also after redirects. Redirects from
 * HTTPS to HTTP are not followed. Proxies are those of the environment (http_proxy, https_proxy,
 * no_proxy).
 *
 * Errors: GT_EIO (network, server, disk), GT_EFORMAT (a file of another size).
 */
int gt_download(struct gt_curl *curl, const struct gt_download *d, enum gt_download_remedy *remedy,
    struct gt_err *err);

/* The host of an address, without name and password of a user. */
const char *gt_download_host(char out[GT_HOST_SIZE], const char *address);

#endif
