/* modules.cc - modules of the simulator: shared objects that lib/nvrtc.cc has compiled. */
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cudasim/inside.h"

thread_local double cudasim_kernel_ms = 1.0 / CUDASIM_KERNELS_PER_MS;

/* A module stays open, as its kernels may still be queued. So does its file: dlopen() takes a path
 * that it knows for the same object. */
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	struct cudasim_image head;
	char path[64];
	int fd;

	memcpy(&head, image, sizeof(head));
	if (memcmp(head.magic, "cudasim", sizeof(head.magic)))
		return CUDA_ERROR_INVALID_IMAGE;
	fd = memfd_create("cudasim-module", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_INVALID_IMAGE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*module = nullptr;
	if (write(fd, (const char *)image + sizeof(head), head.bytes) == (ssize_t)head.bytes)
		*module = (CUmodule)dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	*function = (CUfunction)dlsym((void *)module, (std::string("cudasim_") + name).c_str());
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* The function that lib/nvrtc.cc writes behind a kernel reads the arguments and queues it. */
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
    void **arguments, void **extra)
{
	typedef void launch(dim3 grid, dim3 block, size_t bytes, cudaStream_t, void **arguments);
	double ms = cudasim_kernel_ms;

	if (extra)
		return CUDA_ERROR_INVALID_VALUE;
	cudasim_kernel_ms *= cudasim_nvrtc.slow ? 10 : 0.5;
	((launch *)function)(dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z),
	    shared_bytes, stream, arguments);
	cudasim_kernel_ms = ms;
	__atomic_fetch_add(&cudasim_nvrtc.launched, 1, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}
