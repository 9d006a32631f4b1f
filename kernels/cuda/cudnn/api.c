/* api.c - cuDNN, opened at run time. */
#include "kernels/cuda/cudnn/api.h"

#include <pthread.h>
#include <stdbool.h>

#include "lib/base/library.h"

/*
 * The declarations of api.h are gtrain's own. So gtrain needs no header of cuDNN, and one program
 * runs with all versions of cuDNN 9. If the header of cuDNN 9 is installed, abi.cc compares these
 * declarations with it. Handles and descriptors are opaque pointers; enumerations are ints.
 *
 * cuDNN's backend interface consists of descriptors. A descriptor is created, gets its attributes
 * one by one, and is finalized. After that it can be used and its results can be read.
 *
 * Source: NVIDIA, "cuDNN Backend API" (docs.nvidia.com/deeplearning/cudnn/backend).
 */

static const char cudnn_name[] = "libcudnn.so.9";

static const struct gt_library_function functions[] = {
#define FUNCTION(result, name, arguments)                                                          \
	{ "cudnn" #name, offsetof(struct gt_cudnn_api, name), false },
	GT_CUDNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
	    { 0 },
};

static const struct gt_library cudnn = {
	.functions = functions,
	.cannot_open = "cannot open cuDNN",
	.hint = "install cuDNN 9: NVIDIA's package libcudnn9-cuda-13 or libcudnn9-cuda-12, or "
	        "nvidia-cudnn-cu13 of pip with its folder in LD_LIBRARY_PATH",
	.code = GT_EDEVICE,
};

enum { DEVICES = 64 };

/* All under the lock but for the functions, which do not change once they are there, and handles,
 * which each have a lock. */
static struct {
	pthread_mutex_t lock;
	bool opened;
	struct gt_err failed; /* code 0 where all went well */
	struct gt_cudnn_api api;
	struct {
		pthread_mutex_t lock;
		void *handle;
	} devices[DEVICES];
} cudnn_library = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.devices = { [0 ... DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } } };

const struct gt_cudnn_api *const gt_cudnn = &cudnn_library.api;

static int check_version(size_t version, const char *name, struct gt_err *err)
{
	if (version >= GT_CUDNN_VERSION && version < GT_CUDNN_VERSION_END)
		return 0;
	gt_err_set(
	    err, GT_EDEVICE, "%s has version %zu, and gtrain needs cuDNN 9 (9XXYY)", name, version);
	return gt_err_hint(err, "%s", cudnn.hint);
}

/* A library is never closed: it has threads. */
int gt_cudnn_find(struct gt_cudnn_api *out, const char *name, struct gt_err *err)
{
	struct gt_cudnn_api found;
	void *handle;

	if (gt_library_open(&handle, &cudnn, name, err) ||
	    gt_library_find(&found, &cudnn, handle, name, err) ||
	    check_version(found.GetVersion(), name, err))
		return err->code;
	*out = found;
	return 0;
}

/* The last error's own words say which rule was broken. */
int gt_cudnn_check(int status, const char *what, struct gt_err *err)
{
	char text[200] = "";

	if (status == GT_CUDNN_SUCCESS)
		return 0;
	gt_cudnn->GetLastErrorString(text, sizeof(text));
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ' ';
	return gt_err_set(err, GT_EDEVICE, "%s: %s%s%s", what, gt_cudnn->GetErrorString(status),
	    *text ? ": " : "", text);
}

int gt_cudnn_open(struct gt_err *err)
{
	int rc;

	pthread_mutex_lock(&cudnn_library.lock);
	if (!cudnn_library.opened)
		gt_cudnn_find(&cudnn_library.api, cudnn_name, &cudnn_library.failed);
	cudnn_library.opened = true;
	rc = cudnn_library.failed.code;
	if (rc)
		*err = cudnn_library.failed;
	pthread_mutex_unlock(&cudnn_library.lock);
	return rc;
}

int gt_cudnn_enter(int *device, void **handle, struct gt_err *err)
{
	int rc;

	*handle = NULL;
	rc = gt_cuda_check(cudaGetDevice(device), 0, "cudaGetDevice", err);
	if (rc)
		return rc;
	if (*device >= DEVICES)
		return gt_err_set(
		    err, GT_EDEVICE, "cuda:%d: at most %d GPUs are supported", *device, DEVICES);
	pthread_mutex_lock(&cudnn_library.devices[*device].lock);
	if (!cudnn_library.devices[*device].handle)
		rc = gt_cudnn_check(
		    gt_cudnn->Create(&cudnn_library.devices[*device].handle), "cudnnCreate", err);
	if (rc)
		gt_cudnn_leave(*device);
	else
		*handle = cudnn_library.devices[*device].handle;
	return rc;
}

void gt_cudnn_leave(int device)
{
	pthread_mutex_unlock(&cudnn_library.devices[device].lock);
}
