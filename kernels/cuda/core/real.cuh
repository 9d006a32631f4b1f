/* real.cuh - mathematical functions for GPU code, each with the same name for float and double. */
#ifndef GT_KERNELS_CUDA_CORE_REAL_CUH
#define GT_KERNELS_CUDA_CORE_REAL_CUH

#include <float.h>

#include "kernels/cuda/core/gpu.cuh"

/* gt_exp(x) and the other functions of real.inc. */
#define GT_REAL_1(type, name, function)                                                            \
	__device__ __forceinline__ type gt_##name(type x)                                          \
	{                                                                                          \
		return function(x);                                                                \
	}
#define GT_REAL_2(type, name, function)                                                            \
	__device__ __forceinline__ type gt_##name(type x, type y)                                  \
	{                                                                                          \
		return function(x, y);                                                             \
	}
#define GT_REAL(arguments, name, single, full)                                                     \
	GT_REAL_##arguments(float, name, single) GT_REAL_##arguments(double, name, full)
#include "kernels/cuda/core/real.inc"

/* The lowest (most negative) finite number of type W. */
template <class W> struct gt_lowest;
template <> struct gt_lowest<float> {
	static constexpr float value = -FLT_MAX;
};
template <> struct gt_lowest<double> {
	static constexpr double value = -DBL_MAX;
};

#endif
