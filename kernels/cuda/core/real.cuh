/* real.cuh - mathematical functions for GPU code, each with the same name for float and double. */
#ifndef GT_KERNELS_CUDA_CORE_REAL_CUH
#define GT_KERNELS_CUDA_CORE_REAL_CUH

#include <float.h>

#include "kernels/cuda/core/gpu.cuh"

__device__ __forceinline__ float gt_exp(float x)
{
	return expf(x);
}

__device__ __forceinline__ double gt_exp(double x)
{
	return exp(x);
}

__device__ __forceinline__ float gt_log(float x)
{
	return logf(x);
}

__device__ __forceinline__ double gt_log(double x)
{
	return log(x);
}

__device__ __forceinline__ float gt_erf(float x)
{
	return erff(x);
}

__device__ __forceinline__ double gt_erf(double x)
{
	return erf(x);
}

/* The lowest (most negative) finite number of type W. */
template <class W> struct gt_lowest;
template <> struct gt_lowest<float> {
	static constexpr float value = -FLT_MAX;
};
template <> struct gt_lowest<double> {
	static constexpr double value = -DBL_MAX;
};

#endif
