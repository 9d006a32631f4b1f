/* reduce.cuh - sums and maxima over the threads of a warp or block, always in the same order. */
#ifndef GT_KERNELS_CUDA_REDUCE_CUH
#define GT_KERNELS_CUDA_REDUCE_CUH

#include "kernels/cuda/gpu.cuh"

/* Return the sum of x over the 32 threads of a warp, to each of these threads. */
template <class T> __device__ __forceinline__ T gt_warp_sum(T x)
{
	for (int step = 16; step; step /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	return x;
}

/* Return the sum of x over all threads of a block, to each thread. The block must have one
 * dimension and a multiple of 32 threads. `shared` is shared memory with 32 elements; it can be
 * used again when the function returns. */
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

/* Return the largest x of a warp, or of a block, to each thread. No x may be NaN. `shared` is as in
 * gt_block_sum(). */
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
