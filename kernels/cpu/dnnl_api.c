/* dnnl_api.c - oneDNN, opened at run time, or linked into the static program. */
#include "kernels/cpu/dnnl_api.h"

#include <pthread.h>
#include <stddef.h>

#include "lib/base/library.h"

/* The result of load_dnnl_library(), once; `failed` has code 0 on success. */
static struct {
	pthread_once_t once;
	struct gt_err failed;
	struct gt_dnnl_api api;
} dnnl_library = { .once = PTHREAD_ONCE_INIT };

const struct gt_dnnl_api *const gt_dnnl_api = &dnnl_library.api;

/* Primitives that oneDNN keeps for the next one of the same shape. Each one maps 256 KiB for its
 * code, and oneDNN would keep 1024: a search that plans many batches would leave 256 MiB less
 * address space for the run. A plan of a large model has fewer than this many shapes. */
enum { CACHED_PRIMITIVES = 256 };

/* A user may have chosen less by ONEDNN_PRIMITIVE_CACHE_CAPACITY. */
static void limit_cache(const struct gt_dnnl_api *api)
{
	int capacity;

	if (!api->get_primitive_cache_capacity(&capacity) && capacity > CACHED_PRIMITIVES)
		(void)api->set_primitive_cache_capacity(CACHED_PRIMITIVES);
}

#ifdef GT_STATIC
/* The static program has oneDNN within. */
static int find_functions(struct gt_dnnl_api *api, struct gt_err *err)
{
	(void)err;
#define FUNCTION(name) api->name = dnnl_##name;
	GT_DNNL_FUNCTIONS(FUNCTION)
#undef FUNCTION
	return 0;
}
#else
/*
 * Opened rather than linked: oneDNN and its libraries take 4 MB and a third of the time in which
 * the program starts, and commands that compute nothing never need it.
 */
#define TEXT_OF(x)     #x
#define TEXT(x)        TEXT_OF(x)

static const struct gt_library_function functions[] = {
#define FUNCTION(name) { "dnnl_" #name, offsetof(struct gt_dnnl_api, name), false },
	GT_DNNL_FUNCTIONS(FUNCTION)
#undef FUNCTION
	    { 0 },
};

static const struct gt_library onednn = {
	.functions = functions,
	.cannot_open = "cannot open oneDNN",
	.hint = "install oneDNN " TEXT(DNNL_VERSION_MAJOR) ", Debian's package " GT_DNNL_PACKAGE,
	.code = GT_EDEVICE,
};

/* The library is never closed, even if it lacks a function: it may have threads and caches. */
static int find_functions(struct gt_dnnl_api *api, struct gt_err *err)
{
	void *handle;

	if (gt_library_open(&handle, &onednn, GT_DNNL_SONAME, err))
		return err->code;
	return gt_library_find(api, &onednn, handle, GT_DNNL_SONAME, err);
}
#endif

static void load_dnnl_library(void)
{
	if (!find_functions(&dnnl_library.api, &dnnl_library.failed))
		limit_cache(&dnnl_library.api);
}

/*
 * Open the library oneDNN, unless it is open already. The library's SONAME must be that of the
 * oneDNN with which gtrain was built; the Makefile defines it (GT_DNNL_SONAME). The library is
 * never closed. Any thread may call this function, any number of times: only the first call does
 * the work, and all calls return its result.
 *
 * Errors: GT_EDEVICE if the library or one of the functions is missing.
 */
int gt_dnnl_api_load(struct gt_err *err)
{
	pthread_once(&dnnl_library.once, load_dnnl_library);
	if (dnnl_library.failed.code)
		*err = dnnl_library.failed;
	return dnnl_library.failed.code;
}
