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

__device__ __forceinline__ float gt_expm1(float x)
{
	return expm1f(x);
}

__device__ __forceinline__ double gt_expm1(double x)
{
	return expm1(x);
}

__device__ __forceinline__ float gt_log1p(float x)
{
	return log1pf(x);
}

__device__ __forceinline__ double gt_log1p(double x)
{
	return log1p(x);
}

__device__ __forceinline__ float gt_sin(float x)
{
	return sinf(x);
}

__device__ __forceinline__ double gt_sin(double x)
{
	return sin(x);
}

__device__ __forceinline__ float gt_cos(float x)
{
	return cosf(x);
}

__device__ __forceinline__ double gt_cos(double x)
{
	return cos(x);
}

__device__ __forceinline__ float gt_tanh(float x)
{
	return tanhf(x);
}

__device__ __forceinline__ double gt_tanh(double x)
{
	return tanh(x);
}

__device__ __forceinline__ float gt_sqrt(float x)
{
	return sqrtf(x);
}

__device__ __forceinline__ double gt_sqrt(double x)
{
	return sqrt(x);
}

__device__ __forceinline__ float gt_floor(float x)
{
	return floorf(x);
}

__device__ __forceinline__ double gt_floor(double x)
{
	return floor(x);
}

__device__ __forceinline__ float gt_abs(float x)
{
	return fabsf(x);
}

__device__ __forceinline__ double gt_abs(double x)
{
	return fabs(x);
}

__device__ __forceinline__ float gt_pow(float x, float y)
{
	return powf(x, y);
}

__device__ __forceinline__ double gt_pow(double x, double y)
{
	return pow(x, y);
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
