/* async.cuh - copies from global to shared memory that go on while their thread computes. */
#ifndef GT_KERNELS_CUDA_ASYNC_CUH
#define GT_KERNELS_CUDA_ASYNC_CUH

#include "kernels/cuda/gpu.cuh"

/*
 * A part of the thin layer of gpu.cuh: cp.async of compute capability 8.0 (PTX ISA, "Data Movement
 * and Conversion Instructions: cp.async"). A thread has one gt_async_copies:
 *
 *   copy(to, from, bytes)   queue a copy of 16 bytes to shared memory: `bytes` of them, 0 to 16,
 *                           are read from `from`, the others are zero; both aligned to 16 bytes
 *   commit()                the copies queued since the last commit are a group
 *   wait<N>()               wait until all groups of this thread but its last N have arrived; other
 *                           threads of the block see them behind a barrier
 *
 * The simulator makes a copy when it is waited for, and the place holds NaN until then: so a test
 * sees that a wait is missing.
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
