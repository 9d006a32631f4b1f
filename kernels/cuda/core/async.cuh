/* async.cuh - copies from global to shared memory that run while the thread computes. */
#ifndef GT_KERNELS_CUDA_CORE_ASYNC_CUH
#define GT_KERNELS_CUDA_CORE_ASYNC_CUH

#include "kernels/cuda/core/gpu.cuh"

/*
 * This file extends gpu.cuh: it has one version for nvcc, and one for the simulator that runs
 * kernels on the CPU in tests (tests/cudasim/). The version for nvcc wraps the instruction cp.async
 * of compute capability 8.0 (PTX ISA, "Data Movement and Conversion Instructions: cp.async"). A
 * thread that copies declares one variable of type gt_async_copies:
 *
 *   copy(to, from, bytes)   Queue a copy to 16 bytes of shared memory. The first `bytes` (0 to 16)
 *                           are read from `from`; the remaining bytes become zero. Both pointers
 *                           must be aligned to 16 bytes.
 *   commit()                Put the copies that were queued since the last commit() into a group.
 *   wait<N>()               Wait until the copies of all groups of this thread are complete, except
 *                           the N newest groups. Other threads of the block see the data after a
 *                           barrier.
 *
 * The simulator writes the data only in wait(). Until then, the bytes of the destination are 0xff,
 * a NaN in each floating-point type. So a test fails if a wait() is missing.
 */
#ifdef __CUDACC__
struct gt_async_copies {
	__device__ __forceinline__ void copy(void *to, const void *from, int bytes)
	{
		uint32_t at = (uint32_t)__cvta_generic_to_shared(to);

		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		             :
		             : "r"(at), "l"(from), "r"(bytes)
		             : "memory");
	}

	__device__ __forceinline__ void commit()
	{
		asm volatile("cp.async.commit_group;" : : : "memory");
	}

	template <int N> __device__ __forceinline__ void wait()
	{
		asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
	}
};
#else
#include <assert.h>
#include <string.h>

class gt_async_copies
{
	enum { MOST = 64 };
	struct {
		void *to;
		const void *from;
		int bytes, group;
	} queue[MOST];
	int first = 0, count = 0, group = 0;

      public:
	void copy(void *to, const void *from, int bytes)
	{
		assert(count < MOST && !((uintptr_t)to % 16) && !((uintptr_t)from % 16));
		queue[(first + count++) % MOST] = { to, from, bytes, group };
		memset(to, 0xff, 16);
	}

	void commit()
	{
		group++;
	}

	template <int N> void wait()
	{
		for (; count && queue[first].group < group - N;
		     count--, first = (first + 1) % MOST) {
			char *to = (char *)queue[first].to;

			memcpy(to, queue[first].from, (size_t)queue[first].bytes);
			memset(to + queue[first].bytes, 0, (size_t)(16 - queue[first].bytes));
		}
	}
};
#endif

#endif
