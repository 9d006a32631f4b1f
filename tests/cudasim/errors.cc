/* errors.cc - the words of the simulator's errors: CUDA's own. */
#include "tests/cudasim/inside.h"

const char *cudaGetErrorString(cudaError_t error)
{
	static const struct {
		cudaError_t error;
		const char *text;
	} texts[] = {
		{ cudaSuccess, "no error" },
		{ cudaErrorInvalidValue, "invalid argument" },
		{ cudaErrorMemoryAllocation, "out of memory" },
		{ cudaErrorInvalidConfiguration, "invalid configuration argument" },
		{ cudaErrorInsufficientDriver,
		    "CUDA driver version is insufficient for CUDA runtime version" },
		{ cudaErrorNoDevice, "no CUDA-capable device is detected" },
		{ cudaErrorInvalidDevice, "invalid device ordinal" },
		{ cudaErrorDeviceUninitialized, "invalid device context" },
		{ cudaErrorPeerAccessUnsupported,
		    "peer access is not supported between these two devices" },
		{ cudaErrorInvalidResourceHandle, "invalid resource handle" },
		{ cudaErrorIllegalState, "the operation cannot be performed in the present state" },
		{ cudaErrorNotReady, "device not ready" },
		{ cudaErrorHostMemoryAlreadyRegistered,
		    "part or all of the requested memory range is already mapped" },
		{ cudaErrorHostMemoryNotRegistered,
		    "pointer does not correspond to a registered memory region" },
		{ cudaErrorLaunchFailure, "unspecified launch failure" },
		{ cudaErrorStreamCaptureUnsupported,
		    "operation not permitted when stream is capturing" },
		{ cudaErrorStreamCaptureInvalidated,
		    "operation failed due to a previous error during capture" },
		{ cudaErrorStreamCaptureUnmatched,
		    "capture was not ended in the same stream as it began" },
		{ cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work" },
		{ cudaErrorStreamCaptureIsolation,
		    "dependency created on uncaptured work in another stream" },
		{ cudaErrorCapturedEvent,
		    "operation not permitted on an event last recorded in a capturing stream" },
	};

	for (const auto &t : texts)
		if (t.error == error)
			return t.text;
	return "unknown error";
}
