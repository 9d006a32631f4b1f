/* reduce.cuh - sums and maxima over the threads of a warp or block, always in the same order. */
#ifndef GT_KERNELS_CUDA_CORE_REDUCE_CUH
#define GT_KERNELS_CUDA_CORE_REDUCE_CUH

#include "kernels/cuda/core/gpu.cuh"

/* Return the sum of the values x of the 32 threads of a warp. Each of these threads gets the
 * sum. */
template <class T> __device__ __forceinline__ T gt_warp_sum(T x)
{
	for (int step = 16; step; step /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	return x;
}

/* Return the sum of the values x of all threads of a block. Each thread gets the sum. The block
 * must be one-dimensional, and its number of threads a multiple of 32. `shared` is shared memory
 * for 32 elements; the caller can use it again when the function has returned. */
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

/* Return the largest of the values x of a warp, or of a block (gt_block_max()). Each thread gets
 * the result. No x may be NaN. The block and `shared` are as in gt_block_sum(). */
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
