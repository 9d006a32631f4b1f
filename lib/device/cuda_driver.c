/* cuda_driver.c - ask the driver's library for CUDA's devices. */
#include "lib/device/cuda_driver.h"

#include <stddef.h>
#include <stdio.h>

#include "lib/base/library.h"

static const char file[] = "libcuda.so.1";

/* The types are those of CUDA's driver API, where a status is an enum. */
struct functions {
	int (*init)(unsigned flags);
	int (*count)(int *devices);
	int (*error_string)(int status, const char **text); /* NULL if the library lacks it */
};

static const struct gt_library_function functions[] = {
	{ "cuInit", offsetof(struct functions, init), false },
	{ "cuDeviceGetCount", offsetof(struct functions, count), false },
	{ "cuGetErrorString", offsetof(struct functions, error_string), true },
	{ 0 },
};

static const struct gt_library cuda = { .functions = functions, .code = GT_EDEVICE };

static bool open_library(struct functions *f, char reason[GT_CUDA_REASON])
{
	struct gt_err err = GT_ERR_INIT;
	void *handle;

	if (gt_library_open(&handle, &cuda, file, &err)) {
		snprintf(reason, GT_CUDA_REASON, "%.*s", GT_CUDA_REASON - 1, err.text);
		return false;
	}
	if (!gt_library_find(f, &cuda, handle, file, &err))
		return true;
	snprintf(reason, GT_CUDA_REASON, "%s lacks functions of CUDA's driver", file);
	gt_library_close(handle);
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
	struct functions f;
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
