/* api.c - NCCL, opened at run time. */
#include "kernels/cuda/nccl/api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/base/library.h"

/*
 * gtrain has its own declarations of NCCL's interface, as it has for cuBLASLt
 * (kernels/cuda/library/cublaslt.h). So gtrain compiles without NCCL's header, and one program runs
 * with all NCCL versions from GT_NCCL_VERSION to the last 2.x. If NCCL's header is installed,
 * abi.cc compares these declarations with that header. Communicators are opaque pointers (void *),
 * and NCCL's enumerations are ints.
 *
 * Source: NVIDIA, "NCCL API" (docs.nvidia.com/deeplearning/nccl/user-guide).
 */

static const char nccl_name[] = "libnccl.so.2";

/* The version is asked first, because an old library lacks some of the other functions. */
static const struct gt_library_function version_function[] = {
	{ "ncclGetVersion", offsetof(struct gt_nccl_api, GetVersion), false },
	{ 0 },
};

static const struct gt_library_function functions[] = {
#define FUNCTION(result, name, arguments)                                                          \
	{ "nccl" #name, offsetof(struct gt_nccl_api, name), false },
	GT_NCCL_FUNCTIONS(FUNCTION)
#undef FUNCTION
	    { 0 },
};

static const struct gt_library nccl = {
	.functions = functions,
	.cannot_open = "collectives between GPUs need NCCL",
	.hint = "install NCCL 2.14 or newer: the package libnccl2, or nvidia-nccl-cu13 of pip with "
	        "its folder in LD_LIBRARY_PATH",
	.code = GT_EDEVICE,
};

/* All under the lock but for the functions, which do not change once they are there. */
static struct {
	pthread_mutex_t lock;
	bool opened;
	struct gt_err failed; /* code 0 where all went well */
	int version;
	struct gt_nccl_api api;
} nccl_library = { .lock = PTHREAD_MUTEX_INITIALIZER };

const struct gt_nccl_api *const gt_nccl = &nccl_library.api;

/* Versions before 2.9 count by thousands. */
struct gt_nccl_version gt_nccl_version_text(int version)
{
	int major = version < 10000 ? version / 1000 : version / 10000;
	struct gt_nccl_version text;

	snprintf(text.s, sizeof(text.s), "%d.%d.%d", major,
	    version < 10000 ? version / 100 % 10 : version / 100 % 100, version % 100);
	return text;
}

static int check_version(int version, const char *name, struct gt_err *err)
{
	if (version >= GT_NCCL_VERSION && version < 30000)
		return 0;
	gt_err_set(err, GT_EDEVICE, "%s is of version %s, which is too %s", name,
	    gt_nccl_version_text(version).s, version < GT_NCCL_VERSION ? "old" : "new");
	return gt_err_hint(err, "%s", nccl.hint);
}

/* A library is never closed: it has threads. */
int gt_nccl_find(struct gt_nccl_api *out, int *version, const char *name, struct gt_err *err)
{
	struct gt_library version_only = nccl;
	struct gt_nccl_api found;
	void *handle;

	version_only.functions = version_function;
	if (gt_library_open(&handle, &nccl, name, err) ||
	    gt_library_find(&found, &version_only, handle, name, err))
		return err->code;
	*version = 0;
	found.GetVersion(version);
	if (check_version(*version, name, err) || gt_library_find(&found, &nccl, handle, name, err))
		return err->code;
	*out = found;
	return 0;
}

/*
 * Open NCCL's library and fill the table gt_nccl. The library is never closed. The first call does
 * the work; later calls return the same result. Any thread may call this. *version is set to the
 * library's version (21400 means 2.14.0); `version` may be NULL.
 *
 * Errors: GT_EDEVICE if the library or one of its functions is missing, or if its version is older
 * than 2.14 or is 3.0 or newer.
 */
int gt_nccl_open(int *version, struct gt_err *err)
{
	int rc;

	pthread_mutex_lock(&nccl_library.lock);
	if (!nccl_library.opened)
		gt_nccl_find(
		    &nccl_library.api, &nccl_library.version, nccl_name, &nccl_library.failed);
	nccl_library.opened = true;
	rc = nccl_library.failed.code;
	if (rc)
		*err = nccl_library.failed;
	else if (version)
		*version = nccl_library.version;
	pthread_mutex_unlock(&nccl_library.lock);
	return rc;
}
