/* kernel.c - kernels that are compiled at run time, once for each source and architecture. */
#include "kernels/cuda/nvrtc/kernel.h"

#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/nvrtc/api.h"
#include "kernels/cuda/runtime/driver.h"
#include "lib/base/index.h"
#include "lib/base/mem.h"

/*
 * The threads of a process share the kernels: GPUs of one architecture have one machine code, which
 * each GPU loads as a module of its own. Kernels are compiled under the lock, so that of two
 * threads with the same source one compiles and the other waits. Nothing is compiled or loaded in a
 * launch. Kernels and modules are freed with the process.
 */

enum { DEVICES = 64 };

struct gt_nvrtc_kernel {
	char *source, *name;
	int arch;
	char *cubin; /* NULL: it could not be compiled, see `failed` */
	struct gt_err failed;
	CUfunction functions[DEVICES]; /* NULL: not loaded on the device */
};

struct driver {
	CUresult (*ModuleLoadData)(CUmodule *module, const void *image);
	CUresult (*ModuleGetFunction)(CUfunction *function, CUmodule module, const char *name);
	CUresult (*LaunchKernel)(CUfunction function, unsigned grid_x, unsigned grid_y,
	    unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
	    unsigned shared_bytes, CUstream stream, void **arguments, void **extra);
};

static int compare_kernels(const void *a, const void *b)
{
	const struct gt_nvrtc_kernel *x = a, *y = b;

	return x->arch != y->arch ? x->arch - y->arch : strcmp(x->source, y->source);
}

/* All under the lock but for the driver's functions, which do not change once they are there. */
static struct {
	pthread_mutex_t lock;
	bool opened;
	struct gt_err failed; /* code 0 where all went well */
	struct gt_nvrtc_api api;
	struct driver driver;
	struct gt_index kernels;
} nvrtc_library = { .lock = PTHREAD_MUTEX_INITIALIZER, .kernels = { .compare = compare_kernels } };

/* Find the driver's functions before the library is opened, which takes longer. */
static int find_all(struct gt_err *err)
{
	static const char *const names[] = { "cuModuleLoadData", "cuModuleGetFunction",
		"cuLaunchKernel" };
	void *found[3];
	int version = 0, index = 0;
	int rc = gt_cuda_check(cudaGetDevice(&index), 0, "cudaGetDevice", err);

	if (!rc)
		rc = gt_cuda_check(
		    cudaDriverGetVersion(&version), index, "cudaDriverGetVersion", err);
	for (int i = 0; i < 3 && !rc; i++)
		rc = gt_cuda_driver_function(&found[i], names[i], index, err);
	if (rc)
		return rc;
	memcpy(&nvrtc_library.driver, found, sizeof(found));
	return gt_nvrtc_find(&nvrtc_library.api, version, err);
}

/* Return the reason why there is no NVRTC, or NULL. The caller holds the lock. */
static const char *open_nvrtc(void)
{
	if (!nvrtc_library.opened)
		find_all(&nvrtc_library.failed);
	nvrtc_library.opened = true;
	return nvrtc_library.failed.code ? nvrtc_library.failed.text : NULL;
}

int gt_nvrtc_version(int *version, const char **why)
{
	pthread_mutex_lock(&nvrtc_library.lock);
	*why = open_nvrtc();
	*version = nvrtc_library.api.version;
	pthread_mutex_unlock(&nvrtc_library.lock);
	return *why ? GT_EDEVICE : 0;
}

static int find_arch(int *arch, int index, struct gt_err *err)
{
	int major = 0, minor = 0;
	int rc =
	    gt_cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index),
	        index, "cudaDeviceGetAttribute", err);

	if (!rc)
		rc = gt_cuda_check(
		    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), index,
		    "cudaDeviceGetAttribute", err);
	*arch = 10 * major + minor;
	return rc;
}

/* Return the kernel of a source, compiled or failed; NULL without memory. */
static struct gt_nvrtc_kernel *find_compiled(const char *source, const char *name, int arch)
{
	const struct gt_nvrtc_kernel like = { .source = (char *)source, .arch = arch };
	struct gt_nvrtc_kernel *k = gt_index_find(&nvrtc_library.kernels, &like);
	size_t bytes;

	if (k)
		return k;
	k = gt_calloc(1, sizeof(*k), GT_ERR_IGNORED);
	if (!k)
		return NULL;
	k->arch = arch;
	k->source = gt_strdup(source, GT_ERR_IGNORED);
	k->name = gt_strdup(name, GT_ERR_IGNORED);
	if (!k->source || !k->name || !gt_index_add(&nvrtc_library.kernels, k, GT_ERR_IGNORED)) {
		free(k->source);
		free(k->name);
		free(k);
		return NULL;
	}
	gt_nvrtc_compile(&k->cubin, &bytes, &nvrtc_library.api, source, name, arch, &k->failed);
	return k;
}

/* With lazy loading (CUDA_MODULE_LOADING) the second call loads the kernel, else the first. The
 * numbers of the driver's errors are those of the run-time's. */
static int load_kernel(struct gt_nvrtc_kernel *k, int index, struct gt_err *err)
{
	CUmodule module;
	CUresult status = nvrtc_library.driver.ModuleLoadData(&module, k->cubin);

	if (!status)
		status =
		    nvrtc_library.driver.ModuleGetFunction(&k->functions[index], module, k->name);
	return gt_cuda_check((cudaError_t)status, index, "loading code of NVRTC", err);
}

struct gt_nvrtc_kernel *gt_nvrtc_kernel_get(const char *source, const char *name, const char **why)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_nvrtc_kernel *k = NULL;
	int index = 0, arch;

	*why = "there is no memory for a kernel";
	if (gt_cuda_check(cudaGetDevice(&index), 0, "cudaGetDevice", &err) || index >= DEVICES ||
	    find_arch(&arch, index, &err)) {
		*why = "there is no GPU to compile for";
		return NULL;
	}
	pthread_mutex_lock(&nvrtc_library.lock);
	k = find_compiled(source, name, arch);
	if (k && !k->failed.code && !k->functions[index])
		load_kernel(k, index, &k->failed);
	if (k)
		*why = k->failed.code ? k->failed.text : NULL;
	pthread_mutex_unlock(&nvrtc_library.lock);
	return *why ? NULL : k;
}

int gt_nvrtc_kernel_launch(const struct gt_nvrtc_kernel *k, const struct gt_stream *stream,
    unsigned blocks, unsigned threads, void **arguments, struct gt_err *err)
{
	CUresult status = nvrtc_library.driver.LaunchKernel(k->functions[stream->index], blocks, 1,
	    1, threads, 1, 1, 0, stream->queue, arguments, NULL);

	if (status)
		return gt_cuda_check((cudaError_t)status, stream->index, "cuLaunchKernel", err);
	return gt_cuda_launched(stream, k->name, err);
}
