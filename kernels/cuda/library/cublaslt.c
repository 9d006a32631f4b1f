/* cublaslt.c - cuBLASLt, opened at run time. */
#include "kernels/cuda/library/cublaslt.h"

#include <pthread.h>
#include <stdio.h>

#include "lib/base/library.h"

/*
 * The declarations of cublaslt.h are gtrain's own and need no header of cuBLASLt. So gtrain also
 * compiles without CUDA's toolkit, as in the tests on simulated GPUs (tests/cudasim/). The same
 * binary of gtrain runs with the libraries of CUDA 12 and of CUDA 13, because the functions
 * declared there have had the same binary interface since CUDA 11. If a toolkit is
 * installed, cublaslt_abi.cc compares every number and every size with the toolkit's header.
 * Handles and descriptors are opaque pointers; enumerations are ints.
 *
 * Source: NVIDIA, "cuBLAS Library", "Using the cuBLASLt API".
 */

/*
 * Opened rather than linked: the library takes hundreds of megabytes, and a program that is linked
 * to it does not start on a machine without it, where all but GPUs work.
 */
static const char *const library_names[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL };

static const struct gt_library_function functions[] = {
#define FUNCTION(result, name, arguments)                                                          \
	{ "cublasLt" #name, offsetof(struct gt_lt_api, name), false },
	GT_LT_FUNCTIONS(FUNCTION)
#undef FUNCTION
	    { 0 },
};

static const struct gt_library cublaslt = {
	.functions = functions,
	.cannot_open = "products of matrices on GPUs need cuBLASLt",
	.hint = "install cuBLAS of CUDA 13 or 12: NVIDIA's package libcublas-13-0 or "
	        "libcublas-12-9, or nvidia-cublas of pip with its folder in LD_LIBRARY_PATH",
	.code = GT_EDEVICE,
};

enum { DEVICES = 64 };

/* All under the lock but for the functions, which do not change once they are there. */
static struct {
	pthread_mutex_t lock;
	bool opened;
	struct gt_lt_api api;
	void *handles[DEVICES]; /* one for each GPU, as the library wants it */
} lt_library = { .lock = PTHREAD_MUTEX_INITIALIZER };

const struct gt_lt_api *const gt_lt = &lt_library.api;

int gt_lt_check(int status, const char *what, struct gt_err *err)
{
	static const struct {
		int status;
		const char *text;
	} texts[] = {
		{ 1, "not initialized" },
		{ GT_LT_ALLOC_FAILED, "out of memory" },
		{ GT_LT_INVALID_VALUE, "invalid value" },
		{ 8, "the GPU is too old for it" },
		{ 11, "no access to memory" },
		{ 13, "a kernel failed" },
		{ 14, "internal error" },
		{ GT_LT_NOT_SUPPORTED, "not supported" },
	};
	const char *text = "unknown error";

	if (status == GT_LT_SUCCESS)
		return 0;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].status == status)
			text = texts[i].text;
	return gt_err_set(err, GT_EDEVICE, "%s: %s (status %d)", what, text, status);
}

/* Result of trying a library: it is absent; it was opened; or it was opened, but the GPU lacks
 * memory for a handle. */
enum found { ABSENT, THERE, FULL };

/* Create a handle by an open library. *found becomes FULL if the GPU has too little free memory,
 * which no other library would change. */
static int create(void **handle, const struct gt_lt_api *api, const char *library_name,
    enum found *found, struct gt_err *err)
{
	char what[80];
	int status = api->Create(handle);

	snprintf(what, sizeof(what), "%s: cublasLtCreate", library_name);
	if (status == GT_LT_ALLOC_FAILED)
		*found = FULL;
	return gt_lt_check(status, what, err);
}

/* A library that was found is never closed: it has threads. */
static int try_library(
    struct gt_lt_api *out, void **handle, const char *name, enum found *found, struct gt_err *err)
{
	void *library;

	*found = ABSENT;
	if (gt_library_open(&library, &cublaslt, name, err))
		return err->code;
	*found = THERE;
	if (gt_library_find(out, &cublaslt, library, name, err))
		return err->code;
	return create(handle, out, name, found, err);
}

/*
 * A library that is there says more about the trouble than a name that is not. So the error is that
 * of the first library that is there, or of the first name if none is.
 *
 * Open the first library in the list `names` that creates a handle for the current device, and set
 * the members of *out to its functions. The list ends with NULL. It has several libraries because
 * the library of CUDA 13 creates no handle if the driver is for CUDA 12. If the GPU has too little
 * free memory, fail without trying the other libraries. Only gt_lt_open() and its test call this.
 * Errors: GT_EDEVICE.
 */
int gt_lt_find(struct gt_lt_api *out, void **handle, const char *const *names, struct gt_err *err)
{
	enum found found = ABSENT;
	bool any = false;

	for (int i = 0; names[i] && found != FULL; i++) {
		struct gt_err own = GT_ERR_INIT;
		struct gt_lt_api api = { 0 };

		if (!try_library(&api, handle, names[i], &found, &own)) {
			*out = api;
			*err = (struct gt_err){ 0 };
			return 0;
		}
		if (!i || found == FULL || (found && !any))
			*err = own;
		any |= found != ABSENT;
	}
	return err->code;
}

/* Create the handle of a device. The caller holds the lock. */
static int open_handle(int device, struct gt_err *err)
{
	if (device >= DEVICES)
		return gt_err_set(
		    err, GT_EDEVICE, "cuda:%d: at most %d GPUs are supported", device, DEVICES);
	if (!lt_library.opened &&
	    gt_lt_find(&lt_library.api, &lt_library.handles[device], library_names, err))
		return err->code;
	lt_library.opened = true;
	if (lt_library.handles[device])
		return 0;
	return gt_lt_check(gt_lt->Create(&lt_library.handles[device]), "cublasLtCreate", err);
}

/*
 * Open the library, unless it is open. Create a handle of cuBLASLt for the current device of the
 * calling thread, unless this device already has a handle. Set *handle to the device's handle. The
 * handle is borrowed. The library and the handles stay open until the process ends. Any thread may
 * call this, any number of times.
 *
 * Errors: GT_EDEVICE if the library or one of its functions is missing, if the library finds no
 * GPU, if the GPU has too little free memory, or if its index is too large.
 */
int gt_lt_open(void **handle, struct gt_err *err)
{
	int device = 0, rc;

	*handle = NULL;
	rc = gt_cuda_check(cudaGetDevice(&device), device, "cudaGetDevice", err);
	if (rc)
		return rc;
	pthread_mutex_lock(&lt_library.lock);
	rc = open_handle(device, err);
	if (!rc)
		*handle = lt_library.handles[device];
	pthread_mutex_unlock(&lt_library.lock);
	return rc;
}
