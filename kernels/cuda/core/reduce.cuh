/* reduce.cuh - sums and maxima over the threads of a warp or block, always in the same order. */
#ifndef GT_KERNELS_CUDA_CORE_REDUCE_CUH
#define GT_KERNELS_CUDA_CORE_REDUCE_CUH

#include "kernels/cuda/core/gpu.cuh"

/* Return the sum over a warp to its threads. */
template <class T> __device__ __forceinline__ T gt_warp_sum(T x)
{
	for (int step = 16; step; step /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	return x;
}

/* Return the sum over a one-dimensional block of whole warps to its threads. `shared` has 32
 * elements of shared memory, which are free again afterwards. */
template <class T> __device__ T gt_block_sum(T x, T *shared)
{
	int warps = (int)blockDim.x / 32;

	x = gt_warp_sum(x);
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = x;
	__syncthreads();
	x = 0;
	for (int w = 0; w < warps; w++)
		x += shared[w];
	__syncthreads();
	return x;
}

/* The same for the largest x, none of which may be NaN. */
template <class T> __device__ __forceinline__ T gt_warp_max(T x)
{
	for (int step = 16; step; step /= 2) {
		T other = __shfl_xor_sync(0xffffffffu, x, step);

		x = other > x ? other : x;
	}
	return x;
}

template <class T> __device__ T gt_block_max(T x, T *shared)
{
	int warps = (int)blockDim.x / 32;

	x = gt_warp_max(x);
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = x;
	__syncthreads();
	for (int w = 0; w < warps; w++)
		x = shared[w] > x ? shared[w] : x;
	__syncthreads();
	return x;
}

#endif
