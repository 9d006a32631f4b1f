/* limits.cc - the shared memory that launches of a kernel may ask for. */
#include <map>

#include "tests/cudasim/inside.h"

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
