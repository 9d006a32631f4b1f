/* cuda_runtime_api.h - the simulator's run-time: the calls that gtrain makes, in C. */
#ifndef CUDASIM_CUDA_RUNTIME_API_H
#define CUDASIM_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Names, numbers and meanings are those of CUDA's manual ("CUDA Runtime API"); this is the subset
 * in use. Everything queued is done late, see cudasim.h. Where the manual leaves something
 * undefined, the simulator reports a fault.
 */
#define CUDART_VERSION 13000

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorDeviceUninitialized = 201,
	cudaErrorPeerAccessUnsupported = 217,
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorIllegalState = 401,
	cudaErrorNotReady = 600,
	cudaErrorPeerAccessAlreadyEnabled = 704,
	cudaErrorPeerAccessNotEnabled = 705,
	cudaErrorTooManyPeers = 711,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorHostMemoryNotRegistered = 713,
	cudaErrorLaunchFailure = 719,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureUnmatched = 903,
	cudaErrorStreamCaptureUnjoined = 904,
	cudaErrorStreamCaptureIsolation = 905,
	cudaErrorCapturedEvent = 907
} cudaError_t;

enum cudaMemcpyKind {
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3
};

enum { cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone = 0,
	cudaStreamCaptureStatusActive = 1,
	cudaStreamCaptureStatusInvalidated = 2
};

enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult {
	cudaDriverEntryPointSuccess = 0,
	cudaDriverEntryPointSymbolNotFound = 1
};

typedef struct cudasim_stream *cudaStream_t; /* NULL: the default stream of the device */
typedef struct cudasim_event *cudaEvent_t;
typedef struct cudasim_graph *cudaGraph_t, *cudaGraphExec_t;

enum cudaDeviceAttr {
	cudaDevAttrClockRate = 13, /* kHz */
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrCanFlushRemoteWrites = 98
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 /* bytes */ };

struct cudaDeviceProp {
	char name[256];
	size_t totalGlobalMem;
	int major, minor, multiProcessorCount;
};

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void); /* of this thread; it is success from then on */

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device);
cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus);
cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr which, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
    unsigned long long flags, enum cudaDriverEntryPointQueryResult *found);

cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);

enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtReadWrite = 3 };

struct cudaMemLocation {
	enum cudaMemLocationType type;
	int id;
};

struct cudaMemAccessDesc {
	struct cudaMemLocation location;
	enum cudaMemAccessFlags flags;
};

typedef struct cudasim_pool *cudaMemPool_t;

cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device);
cudaError_t cudaMemPoolSetAccess(
    cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count);
cudaError_t cudaMemcpyPeerAsync(
    void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream);

enum { cudaIpcMemLazyEnablePeerAccess = 1 };

typedef struct cudaIpcMemHandle_st {
	char reserved[64];
} cudaIpcMemHandle_t;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p);
cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *p);

enum { cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2 };

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);

#ifdef __cplusplus
}
#endif

#endif
