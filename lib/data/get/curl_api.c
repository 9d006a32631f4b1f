/* curl_api.c - libcurl, opened at run time. */
#include "lib/data/get/curl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

/* The same interface, built with OpenSSL and with GnuTLS. */
static const char *const libraries[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

#define PACKAGE_HINT "install libcurl, Debian's package libcurl4"

#define SLOT(name)                                                                                 \
	{                                                                                          \
		"curl_" #name, offsetof(struct gt_curl, name)                                      \
	}

static const struct {
	const char *name;
	size_t slot;
} symbols[] = {
	SLOT(global_init),
	SLOT(easy_init),
	SLOT(easy_setopt),
	SLOT(easy_perform),
	SLOT(easy_getinfo),
	SLOT(easy_strerror),
	SLOT(easy_cleanup),
};

static int find_functions(struct gt_curl *curl, void *library, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		void *address = dlsym(library, symbols[i].name);

		if (!address) {
			gt_err_set(
			    err, GT_ENOTSUP, "libcurl has no function '%s'", symbols[i].name);
			return gt_err_hint(err, PACKAGE_HINT);
		}
		memcpy((char *)curl + symbols[i].slot, &address, sizeof(address));
	}
	return 0;
}

/* The library is never closed: those that it brings along may have threads by now. */
static int find_library(struct gt_curl *curl, struct gt_err *err)
{
	char why[200] = "";

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);

		if (library)
			return find_functions(curl, library, err);
		if (!*why)
			snprintf(why, sizeof(why), "%s", dlerror());
	}
	gt_err_set(err, GT_ENOTSUP, "cannot open libcurl, which downloads: %s", why);
	return gt_err_hint(err, PACKAGE_HINT);
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
