/* limits.cc - the devices, their hardware queues, and the shared memory that launches ask for. */
#include <cstdlib>
#include <map>
#include <vector>

#include "tests/cudasim/inside.h"

/* ---- devices ---- */

static int machine_count()
{
	const char *text = getenv("CUDASIM_DEVICES");
	int n = text ? atoi(text) : 2;

	return n < CUDASIM_DEVICES ? n : CUDASIM_DEVICES;
}

/* The devices that CUDA_VISIBLE_DEVICES numbers, up to the first number that is none. Names by UUID
 * are not simulated. */
static std::vector<int> visible()
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	std::vector<int> found;
	char *end;

	for (int i = 0; !text && i < machine_count(); i++)
		found.push_back(i);
	for (; text && *text; text = end + (*end == ',')) {
		long n = strtol(text, &end, 10);

		if (end == text || n < 0 || n >= machine_count())
			break;
		found.push_back((int)n);
	}
	return found;
}

static int device_count()
{
	return (int)visible().size();
}

int cudasim_visible(int device)
{
	std::vector<int> numbers = visible();

	return device >= 0 && device < (int)numbers.size() ? numbers[(size_t)device] : device;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 0;
	if (cudasim_driver_is_old())
		return cudasim_return(cudaErrorInsufficientDriver);
	*count = device_count();
	cudasim_start_driver();
	return *count ? cudaSuccess : cudasim_return(cudaErrorNoDevice);
}

static bool is_device(int device)
{
	return device >= 0 && device < device_count();
}

cudaError_t cudaSetDevice(int device)
{
	if (!is_device(device))
		return cudasim_return(device_count() ? cudaErrorInvalidDevice : cudaErrorNoDevice);
	cudasim_device = device;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = cudasim_device;
	return cudaSuccess;
}

int cudasim_hardware_queues()
{
	const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int queues = text ? atoi(text) : 0;

	return queues < 1 ? 8 : queues < 32 ? queues : 32;
}

/* ---- shared memory ---- */

/* A block of compute capability 9.0 has at most 227 KiB. */
enum { USUAL_DYNAMIC = 48 << 10, MOST_DYNAMIC = 227 << 10 };
static std::map<const void *, size_t> dynamic_limits;

cudaError_t cudasim_allow_dynamic(const void *kernel, int bytes)
{
	guard g(cudasim_lock);

	if (bytes < 0 || bytes > MOST_DYNAMIC)
		return cudasim_return(cudaErrorInvalidValue);
	dynamic_limits[kernel] = (size_t)bytes;
	return cudaSuccess;
}

bool cudasim_dynamic_allowed(const void *kernel, size_t bytes)
{
	guard g(cudasim_lock);
	auto limit = dynamic_limits.find(kernel);

	if (bytes <= (limit == dynamic_limits.end() ? (size_t)USUAL_DYNAMIC : limit->second))
		return true;
	cudasim_return(cudaErrorInvalidValue);
	return false;
}
