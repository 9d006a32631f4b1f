/* nvrtc.c - open NVRTC at run time. */
#include "lib/device/nvrtc.h"

#include <stddef.h>
#include <stdio.h>

#include "lib/base/library.h"

/*
 * The library takes 100 megabytes, and gtrain's kernels do without it. A driver runs code of its
 * own major version of CUDA and of older ones, so the search begins with the driver's version.
 *
 * Source: NVIDIA, "NVRTC", "CUDA Compatibility".
 */
enum { OLDEST = 12 };

struct functions {
	int (*version)(int *major, int *minor);
};

static const struct gt_library_function functions[] = {
	{ "nvrtcVersion", offsetof(struct functions, version), false },
	{ 0 },
};

static const struct gt_library nvrtc = {
	.functions = functions,
	.cannot_open = "cannot open NVRTC",
	.hint = "install NVIDIA's package cuda-nvrtc-13-0 or cuda-nvrtc-12-9, or "
	        "nvidia-cuda-nvrtc of pip with its folder in LD_LIBRARY_PATH",
	.code = GT_EDEVICE,
};

static int open_version(void **handle, int *version, int major, struct gt_err *err)
{
	struct functions f;
	char name[32];
	int minor;

	snprintf(name, sizeof(name), "libnvrtc.so.%d", major);
	if (gt_library_open(handle, &nvrtc, name, err) ||
	    gt_library_find(&f, &nvrtc, *handle, name, err))
		return err->code;
	if (f.version(&major, &minor))
		return gt_err_set(err, GT_EDEVICE, "%s does not return its version", name);
	*version = 1000 * major + 10 * minor;
	return 0;
}

/* The error is that of the first name: the newest library that would do. */
int gt_nvrtc_open(void **handle, int *version, int driver, struct gt_err *err)
{
	for (int major = driver / 1000; major >= OLDEST; major--) {
		struct gt_err own = GT_ERR_INIT;

		if (!open_version(handle, version, major, &own)) {
			*err = GT_ERR_INIT;
			return 0;
		}
		if (major == driver / 1000)
			*err = own;
	}
	if (driver / 1000 < OLDEST)
		return gt_err_set(err, GT_EDEVICE,
		    "NVRTC of CUDA %d or later needs a driver for it: this one runs CUDA up to %d.%d",
		    OLDEST, driver / 1000, driver % 1000 / 10);
	return err->code;
}
