/* curl_api.c - libcurl, opened at run time. */
#include "lib/data/get/curl_api.h"

#include <stddef.h>
#include <stdlib.h>

#include "lib/base/library.h"
#include "lib/base/mem.h"

/* The same interface, built with OpenSSL and with GnuTLS. */
static const char *const files[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

#define FUNCTION(name)                                                                             \
	{                                                                                          \
		"curl_" #name, offsetof(struct gt_curl, name), false                               \
	}

static const struct gt_library_function functions[] = {
	FUNCTION(global_init),
	FUNCTION(easy_init),
	FUNCTION(easy_setopt),
	FUNCTION(easy_perform),
	FUNCTION(easy_getinfo),
	FUNCTION(easy_strerror),
	FUNCTION(easy_cleanup),
	{ 0 },
};

static const struct gt_library libcurl = {
	.functions = functions,
	.cannot_open = "cannot open libcurl, which downloads",
	.hint = "install libcurl, Debian's package libcurl4",
	.code = GT_ENOTSUP,
};

/* The library is never closed: the libraries that it loads may have threads by now. The error of a
 * library that cannot be opened is about the first file. */
static int find_library(struct gt_curl *curl, struct gt_err *err)
{
	void *handle;

	if (gt_library_open(&handle, &libcurl, files[0], err))
		gt_library_open(&handle, &libcurl, files[1], GT_ERR_IGNORED);
	if (!handle)
		return err->code;
	return gt_library_find(curl, &libcurl, handle, "libcurl", err);
}

int gt_curl_open(struct gt_curl **out, struct gt_err *err)
{
	struct gt_curl *curl = gt_calloc(1, sizeof(*curl), err);
	int rc = curl ? find_library(curl, err) : GT_ENOMEM;

	*out = NULL;
	if (!rc) {
		if (!curl->global_init(GT_CURL_GLOBAL_ALL))
			curl->easy = curl->easy_init();
		if (!curl->easy)
			rc = gt_err_set(err, GT_ENOMEM, "libcurl does not start");
	}
	if (rc)
		free(curl);
	else
		*out = curl;
	return rc;
}

void gt_curl_close(struct gt_curl *curl)
{
	if (!curl)
		return;
	curl->easy_cleanup(curl->easy);
	free(curl);
}
