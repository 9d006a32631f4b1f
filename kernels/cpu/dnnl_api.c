/* dnnl_api.c - oneDNN, opened at run time. */
#include "kernels/cpu/dnnl_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/*
 * Opened rather than linked: oneDNN and its libraries take 4 MB and a third of the time in which
 * the program starts, and commands that compute nothing never need it.
 */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define PACKAGE_HINT                                                                               \
	"install oneDNN " TEXT(DNNL_VERSION_MAJOR) ", Debian's package " GT_DNNL_PACKAGE

static const struct {
	const char *name;
	size_t slot;
} symbols[] = {
#define SYMBOL(name) { "dnnl_" #name, offsetof(struct gt_dnnl_api, name) },
	GT_DNNL_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* The result of load(), once; `failed` has code 0 on success. */
static struct {
	pthread_once_t once;
	struct gt_err failed;
	struct gt_dnnl_api api;
} dnnl_library = { .once = PTHREAD_ONCE_INIT };

const struct gt_dnnl_api *const gt_dnnl_api = &dnnl_library.api;

static int find_functions(void *library, struct gt_dnnl_api *out, struct gt_err *err)
{
	struct gt_dnnl_api found;

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *address = dlsym(library, symbols[i].name);

		if (!address) {
			gt_err_set(err, GT_EDEVICE, "%s has no function '%s'", GT_DNNL_SONAME,
			    symbols[i].name);
			return gt_err_hint(err, "%s", PACKAGE_HINT);
		}
		memcpy((char *)&found + symbols[i].slot, &address, sizeof(address));
	}
	*out = found;
	return 0;
}

static void load(void)
{
	void *library = dlopen(GT_DNNL_SONAME, RTLD_NOW | RTLD_LOCAL);
	struct gt_err *err = &dnnl_library.failed;
	const char *why;

	if (library) {
		/* Good or not, it is never closed: it may have threads and caches by now. */
		find_functions(library, &dnnl_library.api, err);
		return;
	}
	why = dlerror();
	gt_err_set(err, GT_EDEVICE, "cannot open oneDNN: %s", why ? why : GT_DNNL_SONAME);
	gt_err_hint(err, "%s", PACKAGE_HINT);
}

int gt_dnnl_api_load(struct gt_err *err)
{
	pthread_once(&dnnl_library.once, load);
	if (dnnl_library.failed.code)
		*err = dnnl_library.failed;
	return dnnl_library.failed.code;
}
