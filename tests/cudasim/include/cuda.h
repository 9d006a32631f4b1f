/* cuda.h - the simulator's driver: the calls that gtrain makes, in C. */
#ifndef CUDASIM_CUDA_H
#define CUDASIM_CUDA_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As cuda_runtime_api.h: names, numbers and meanings of CUDA's manual ("CUDA Driver API"). */
typedef enum cudaError_enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 } CUresult;

typedef cudaStream_t CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint32_t cuuint32_t;
typedef int CUdevice;
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

enum { CU_STREAM_WAIT_VALUE_GEQ = 0, CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30 };
enum { CU_STREAM_WRITE_VALUE_DEFAULT = 0 };

CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
