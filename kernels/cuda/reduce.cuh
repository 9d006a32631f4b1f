/* reduce.cuh - sums and maxima over the threads of a block, always in the same order. */
#ifndef GT_KERNELS_CUDA_REDUCE_CUH
#define GT_KERNELS_CUDA_REDUCE_CUH

#include "kernels/cuda/gpu.cuh"

template <class T> __device__ __forceinline__ T gt_warp_sum(T x)
{
	for (int step = 16; step; step /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	return x;
}

/* The sum of x over all threads of a block, for every thread. Blocks have one dimension, a multiple
 * of 32 threads; `shared` is 32 elements, free for other use when it returns. */
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

/* The largest x of a warp or block, for every thread. No x may be NaN. */
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
