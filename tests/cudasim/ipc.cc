/* ipc.cc - the simulator's memory that several processes reach: of devices, and of the host. */
#include "tests/cudasim/inside.h"

#include <cstring>
#include <unistd.h>

static_assert(sizeof(struct cudasim_shared_memory) <= sizeof(cudaIpcMemHandle_t), "it has room");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
	struct cudasim_shared_memory shared = {};
	guard g(cudasim_lock);

	if (!cudasim_export(p, &shared))
		return cudasim_return(cudaErrorInvalidValue);
	memset(out, 0, sizeof(*out));
	memcpy(out, &shared, sizeof(shared));
	return cudaSuccess;
}

/* Opened again, it has the address that it has. A handle is of no use in its own process. The
 * process need not see the GPU that has the memory. */
cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags)
{
	struct cudasim_shared_memory shared;
	guard g(cudasim_lock);

	memcpy(&shared, &handle, sizeof(shared));
	*out = nullptr;
	if (flags != cudaIpcMemLazyEnablePeerAccess || !shared.file.process || shared.device < 0 ||
	    shared.device >= CUDASIM_DEVICES)
		return cudasim_return(cudaErrorInvalidValue);
	if (shared.file.process == getpid())
		return cudasim_return(cudaErrorDeviceUninitialized);
	if (shared.device != cudasim_device && cudasim_has_no_peers())
		return cudasim_return(cudaErrorPeerAccessUnsupported);
	*out = cudasim_open(&shared);
	return *out ? cudaSuccess : cudasim_return(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
	guard g(cudasim_lock);

	return cudasim_close(p) ? cudaSuccess : cudasim_return(cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	guard g(cudasim_lock);

	if (!p || !bytes || flags & ~(unsigned)(cudaHostRegisterPortable | cudaHostRegisterMapped))
		return cudasim_return(cudaErrorInvalidValue);
	return cudasim_register(p, bytes) ? cudaSuccess
	                                  : cudasim_return(cudaErrorHostMemoryAlreadyRegistered);
}

/* GPUs reach registered memory at the host's address. */
cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags)
{
	guard g(cudasim_lock);

	*out = nullptr;
	if (flags || !cudasim_is_pinned(p, 1))
		return cudasim_return(cudaErrorInvalidValue);
	*out = p;
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
	guard g(cudasim_lock);

	return cudasim_unregister(p) ? cudaSuccess
	                             : cudasim_return(cudaErrorHostMemoryNotRegistered);
}
