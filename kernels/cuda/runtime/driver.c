/* driver.c - functions of the NVIDIA driver that CUDA's run-time library does not have. */
#include "kernels/cuda/runtime/driver.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

/*
 * The run-time caches functions.
 *
 * Find a function of the driver's library by its name, such as "cuDeviceGet". gtrain is not linked
 * to that library. Several versions of a function can exist. If gtrain is compiled with a toolkit
 * of version 12.5 or above, *out is the version of CUDA 12.0. With an older toolkit, *out is the
 * version of that toolkit. Error messages name the GPU `index`. Errors: GT_EDEVICE.
 */
int gt_cuda_driver_function(void **out, const char *name, int index, struct gt_err *err)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	int rc;

	*out = NULL;
#if CUDART_VERSION >= 12050
	rc = gt_cuda_check(
	    cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableDefault, &found), index,
	    "cudaGetDriverEntryPointByVersion", err);
#else
	rc = gt_cuda_check(cudaGetDriverEntryPoint(name, out, cudaEnableDefault, &found), index,
	    "cudaGetDriverEntryPoint", err);
#endif
	if (!rc && (found != cudaDriverEntryPointSuccess || !*out))
		rc = gt_err_set(
		    err, GT_EDEVICE, "cuda:%d: the driver has no %s: it is too old", index, name);
	return rc;
}

/*
 * The PCI bus id does not identify a device: two MIG instances of a GPU have the same one. The
 * UUID that cudaGetDeviceProperties() returns may be that of the whole GPU. cuDeviceGetUuid_v2(),
 * which is cuDeviceGetUuid() from CUDA 11.4 on, returns the UUID of the instance.
 */
int gt_cuda_identify(int index, char *text, size_t size, struct gt_err *err)
{
	CUresult (*get_device)(CUdevice *, int);
	CUresult (*get_uuid)(CUuuid *, CUdevice);
	CUdevice device;
	CUuuid uuid;
	void *functions[2];

	if (gt_cuda_driver_function(&functions[0], "cuDeviceGet", index, err) ||
	    gt_cuda_driver_function(&functions[1], "cuDeviceGetUuid", index, err))
		return err->code;
	memcpy(&get_device, &functions[0], sizeof(get_device));
	memcpy(&get_uuid, &functions[1], sizeof(get_uuid));
	if (get_device(&device, index) != CUDA_SUCCESS || get_uuid(&uuid, device) != CUDA_SUCCESS)
		return gt_err_set(
		    err, GT_EDEVICE, "cuda:%d: the driver does not return its UUID", index);
	for (size_t i = 0; i < sizeof(uuid.bytes) && 2 * i + 2 < size; i++)
		snprintf(text + 2 * i, size - 2 * i, "%02x", (unsigned char)uuid.bytes[i]);
	return 0;
}
