/* cuda_runtime.h - the simulator's device language: with it a C++ compiler compiles kernels. */
#ifndef CUDASIM_CUDA_RUNTIME_H
#define CUDASIM_CUDA_RUNTIME_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>

#include <cuda_runtime_api.h>

#include "tests/cudasim/tf32.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct uint3 {
	unsigned x, y, z;
};

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};

/* Of the thread that runs now. One block runs at a time, on one thread of the host. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* ---- shared memory ---- */

extern "C" void *cudasim_shared(const void *key, size_t bytes);

/* Kernels reach shared memory through these: as pointers, to blocks of the heap that the address
 * sanitizer watches. */
#define GT_SHARED(type, name, count)                                                               \
	static const char name##_key = 0;                                                          \
	type *name = (type *)cudasim_shared(&name##_key, sizeof(type) * (count))
#define GT_DYNAMIC_SHARED(type, name) type *name = (type *)cudasim_shared(nullptr, 0)

/* ---- barriers, shuffles, votes ---- */

enum cudasim_meeting { CUDASIM_SYNC, CUDASIM_SHUFFLE, CUDASIM_VOTE };

extern "C" void cudasim_barrier(const char *file, int line);
/* Wait for the lanes of the mask. A shuffle gives the value of lane `source`, a vote the lanes
 * whose value is not 0. */
extern "C" uint64_t cudasim_meet(cudasim_meeting kind, unsigned mask, uint64_t value,
    unsigned source, const char *file, int line);
extern "C" unsigned cudasim_lane();

template <class T>
inline T cudasim_shuffle(unsigned mask, T value, unsigned source, const char *file, int line)
{
	uint64_t bits = 0;

	static_assert(sizeof(T) <= sizeof(bits), "a shuffle takes 8 bytes at most");
	memcpy(&bits, &value, sizeof(value));
	bits = cudasim_meet(CUDASIM_SHUFFLE, mask, bits, source, file, line);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

#define CUDASIM_HERE    __FILE__, __LINE__
#define __syncthreads() cudasim_barrier(CUDASIM_HERE)
#define __syncwarp(...)                                                                            \
	((void)cudasim_meet(CUDASIM_SYNC, cudasim_mask(__VA_ARGS__), 0, 0, CUDASIM_HERE))
#define __shfl_sync(mask, v, lane) cudasim_shuffle(mask, v, lane, CUDASIM_HERE)
#define __shfl_xor_sync(mask, v, bits)                                                             \
	cudasim_shuffle(mask, v, cudasim_lane() ^ (unsigned)(bits), CUDASIM_HERE)
#define __shfl_down_sync(mask, v, by)                                                              \
	cudasim_shuffle(mask, v,                                                                   \
	    cudasim_lane() + (by) < 32 ? cudasim_lane() + (by) : cudasim_lane(), CUDASIM_HERE)
#define __ballot_sync(mask, yes)                                                                   \
	((unsigned)cudasim_meet(CUDASIM_VOTE, mask, (yes) != 0, 0, CUDASIM_HERE))
#define __any_sync(mask, yes) (__ballot_sync(mask, yes) != 0)
#define __all_sync(mask, yes) (__ballot_sync(mask, yes) == (unsigned)(mask))

/* On a GPU, these sums are no part of a multiply-add. */
inline float __fadd_rn(float a, float b)
{
	return a + b;
}

inline double __dadd_rn(double a, double b)
{
	return a + b;
}

inline unsigned cudasim_mask(unsigned mask = 0xffffffffu)
{
	return mask;
}

/* ---- atomics on integers ---- */

/* Threads run one at a time; it is for the thread sanitizer that these are the compiler's. */
template <class T> inline T atomicAdd(T *p, T value)
{
	static_assert((T)0.5 == 0, "sums of floats by atomics depend on the order of threads");
	return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}

template <class T> inline T atomicCAS(T *p, T expected, T value)
{
	__atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return expected;
}

template <class T> inline T atomicMin(T *p, T value)
{
	T old = __atomic_load_n(p, __ATOMIC_ACQUIRE);

	while (value < old && !__atomic_compare_exchange_n(
	                          p, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	return old;
}

inline void __threadfence()
{
}

inline void __threadfence_system()
{
}

/* ---- launches ---- */

/* The shared memory that launches of a kernel may ask for: 48 KiB, or more after a call of
 * cudaFuncSetAttribute(). The second function leaves an error if `bytes` is too much. */
extern "C" cudaError_t cudasim_allow_dynamic(const void *kernel, int bytes);
extern "C" bool cudasim_dynamic_allowed(const void *kernel, size_t bytes);

template <class... P>
inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute, int value)
{
	return cudasim_allow_dynamic((const void *)kernel, value);
}

extern "C" void cudasim_launch(dim3 grid, dim3 block, size_t dynamic_bytes, cudaStream_t stream,
    void (*call)(void *closure), void (*release)(void *closure), void *closure);

/* The arguments are copied when the kernel is queued, as they are on a GPU. */
template <class... P, class... A>
inline void cudasim_launch_with(void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic_bytes,
    cudaStream_t stream, A... args)
{
	struct closure {
		void (*kernel)(P...);
		std::tuple<P...> args;
	};

	if (!cudasim_dynamic_allowed((const void *)kernel, dynamic_bytes))
		return;
	cudasim_launch(
	    grid, block, dynamic_bytes, stream,
	    [](void *p) { std::apply(((closure *)p)->kernel, ((closure *)p)->args); },
	    [](void *p) { delete (closure *)p; }, new closure{ kernel, std::tuple<P...>(args...) });
}

#define GT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, ...)                                 \
	cudasim_launch_with(kernel, grid, block, dynamic_bytes, stream, __VA_ARGS__)

#endif
