/* api.c - NCCL, opened at run time. */
#include "kernels/cuda/nccl/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char nccl_name[] = "libnccl.so.2";

static const struct {
	const char *name;
	size_t slot;
} symbols[] = {
#define SYMBOL(result, name, arguments) { "nccl" #name, offsetof(struct gt_nccl_api, name) },
	GT_NCCL_FUNCTIONS(SYMBOL)
#undef SYMBOL
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

static int add_hint(struct gt_err *err)
{
	return gt_err_hint(err,
	    "install NCCL 2.14 or newer: the package libnccl2, or nvidia-nccl-cu13 of pip with "
	    "its folder in LD_LIBRARY_PATH");
}

static int find_function(
    void **address, void *library, const char *library_name, const char *name, struct gt_err *err)
{
	*address = dlsym(library, name);
	if (*address)
		return 0;
	gt_err_set(err, GT_EDEVICE, "%s has no function '%s'", library_name, name);
	return add_hint(err);
}

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
	return add_hint(err);
}

/* A library is never closed: it has threads. The version first: an old one lacks functions. */
int gt_nccl_find(struct gt_nccl_api *out, int *version, const char *name, struct gt_err *err)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	struct gt_nccl_api found = { 0 };
	void *address;

	if (!library) {
		gt_err_set(err, GT_EDEVICE, "collectives between GPUs need NCCL: %s", dlerror());
		return add_hint(err);
	}
	if (find_function(&address, library, name, "ncclGetVersion", err))
		return err->code;
	memcpy(&found.GetVersion, &address, sizeof(address));
	*version = 0;
	found.GetVersion(version);
	if (check_version(*version, name, err))
		return err->code;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (find_function(&address, library, name, symbols[i].name, err))
			return err->code;
		memcpy((char *)&found + symbols[i].slot, &address, sizeof(address));
	}
	*out = found;
	return 0;
}

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
