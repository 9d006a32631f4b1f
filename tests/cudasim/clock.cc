/* clock.cc - the simulator's clock, bus and driver, and state that libraries share with tests. */
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <unistd.h>

#include "tests/cudasim/inside.h"

double cudasim_ms;
struct cudasim_products cudasim_products;
struct cudasim_nccl cudasim_nccl;
struct cudasim_nvrtc cudasim_nvrtc;
struct cudasim_cudnn cudasim_cudnn = { 91900, 0, -1, false, 0, 0, nullptr };

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
	guard g(cudasim_lock);

	if (!begin->last || !end->last || !begin->timed || !end->timed)
		return cudasim_return(cudaErrorInvalidResourceHandle);
	if (!begin->last->reached || !end->last->reached)
		return cudasim_return(cudaErrorNotReady);
	*ms = (float)(end->last->ms - begin->last->ms);
	return cudaSuccess;
}

static int number_of(const char *variable, int otherwise)
{
	const char *text = getenv(variable);

	return text ? atoi(text) : otherwise;
}

/* Of the machine's GPUs this process sees those from CUDASIM_FIRST on, or those of them that
 * CUDA_VISIBLE_DEVICES numbers. */
static int machine_number(int device)
{
	return number_of("CUDASIM_FIRST", 0) + cudasim_visible(device);
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count)
		return cudasim_return(cudaErrorInvalidDevice);
	snprintf(out, (size_t)size, "0000:%02x:00.0", machine_number(device) + 1);
	return cudaSuccess;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	int count = 0;

	*device = ordinal;
	return cudaGetDeviceCount(&count) == cudaSuccess && ordinal >= 0 && ordinal < count
	           ? CUDA_SUCCESS
	           : CUDA_ERROR_INVALID_VALUE;
}

/* An instance has the bus of its GPU, and a UUID of its own. */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	*uuid = {};
	uuid->bytes[0] = (char)(0xa0 + machine_number(device));
	uuid->bytes[15] = (char)number_of("CUDASIM_INSTANCE", 0);
	return CUDA_SUCCESS;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus)
{
	char text[32];

	for (int i = 0; cudaDeviceGetPCIBusId(text, sizeof(text), i) == cudaSuccess; i++)
		if (!strcmp(text, bus)) {
			*device = i;
			return cudaSuccess;
		}
	return cudasim_return(cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = number_of("CUDASIM_DRIVER", CUDART_VERSION);
	return cudaSuccess;
}

bool cudasim_flushes()
{
	const char *text = getenv("CUDASIM_FLUSH");

	return text && !strcmp(text, "yes");
}

void cudasim_start_driver()
{
	static std::once_flag once;

	std::call_once(once, [] {
		pthread_atfork([] { cudasim_lock.lock(); }, [] { cudasim_lock.unlock(); },
		    [] { cudasim_lock.unlock(); });
		atexit(cudasim_end_driver);
		std::thread([] {
			while (cudasim_drive())
				usleep(1000 * CUDASIM_DRIVER_MS);
		}).detach();
	});
}

bool cudasim_driver_is_old()
{
	int version = 0;

	cudaDriverGetVersion(&version);
	return version / 1000 < CUDART_VERSION / 1000;
}

static std::atomic<long> descriptions;

long cudasim_descriptions()
{
	return descriptions;
}

static int major_capability()
{
	return getenv("CUDASIM_MAJOR") ? atoi(getenv("CUDASIM_MAJOR")) : 9;
}

/* CUDASIM_GPU=NAME,BYTES is the name of another GPU, with so much memory. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
	const char *gpu = getenv("CUDASIM_GPU");
	int count;

	descriptions++;
	if (cudasim_driver_is_old())
		return cudasim_return(cudaErrorInsufficientDriver);
	if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count)
		return cudasim_return(cudaErrorInvalidDevice);
	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "simulated GPU");
	out->totalGlobalMem = cudasim_memory_total();
	if (gpu) {
		snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(gpu, ","), gpu);
		out->totalGlobalMem = strtoull(gpu + strcspn(gpu, ",") + 1, nullptr, 10);
	}
	out->major = major_capability();
	out->multiProcessorCount = 2;
	return cudaSuccess;
}

/* 1 GHz. */
cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr which, int device)
{
	int count;

	if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count)
		return cudasim_return(cudaErrorInvalidValue);
	switch (which) {
	case cudaDevAttrClockRate:
		*out = 1000000;
		return cudaSuccess;
	case cudaDevAttrComputeCapabilityMajor:
		*out = major_capability();
		return cudaSuccess;
	case cudaDevAttrComputeCapabilityMinor:
		*out = 0;
		return cudaSuccess;
	case cudaDevAttrCanFlushRemoteWrites:
		*out = cudasim_flushes();
		return cudaSuccess;
	}
	return cudasim_return(cudaErrorInvalidValue);
}
