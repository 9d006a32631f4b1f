/* cuda_driver.c - what CUDA says of itself, by the functions of the driver's library. */
#include "lib/device/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>

static const char library[] = "libcuda.so.1";

/* The types are those of CUDA's driver API, where a status is an enum. */
struct functions {
	int (*init)(unsigned flags);
	int (*count)(int *devices);
	int (*error_string)(int status, const char **text); /* NULL: not there */
};

static bool open_library(struct functions *f, char reason[GT_CUDA_REASON])
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	const char *why = handle ? NULL : dlerror();

	if (!handle) {
		snprintf(reason, GT_CUDA_REASON, "%s", why ? why : library);
		return false;
	}
	*(void **)&f->init = dlsym(handle, "cuInit");
	*(void **)&f->count = dlsym(handle, "cuDeviceGetCount");
	*(void **)&f->error_string = dlsym(handle, "cuGetErrorString");
	if (f->init && f->count)
		return true;
	snprintf(reason, GT_CUDA_REASON, "%s lacks functions of CUDA's driver", library);
	dlclose(handle);
	return false;
}

static void set_error(
    struct gt_cuda_driver *out, const struct functions *f, const char *call, int status)
{
	const char *text = NULL;

	out->error = status;
	if (!f->error_string || f->error_string(status, &text) || !text)
		text = "unknown error";
	snprintf(out->reason, sizeof(out->reason), "%s: %s (error %d)", call, text, status);
}

void gt_cuda_driver_ask(struct gt_cuda_driver *out)
{
	struct functions f = { 0 };
	int status;

	*out = (struct gt_cuda_driver){ .asked = true };
	if (!open_library(&f, out->reason)) {
		out->missing = true;
		return;
	}
	status = f.init(0);
	if (status) {
		set_error(out, &f, "cuInit", status);
		return;
	}
	status = f.count(&out->devices);
	if (status)
		set_error(out, &f, "cuDeviceGetCount", status);
}
