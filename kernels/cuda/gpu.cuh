/* gpu.cuh - macros and functions of kernels that differ between nvcc and the simulator. */
#ifndef GT_KERNELS_CUDA_GPU_CUH
#define GT_KERNELS_CUDA_GPU_CUH

/*
 * A .cu file of this folder is compiled by nvcc for GPUs. For tests, a C++ compiler compiles it
 * with the simulator's headers (tests/cudasim/) in place of the toolkit's. Kernels are CUDA C++17,
 * with these macros:
 *
 *   GT_SHARED(type, name, count)    shared memory of a block; `name` is a pointer to it
 *   GT_DYNAMIC_SHARED(type, name)   shared memory whose size the launch sets, aligned to 128 bytes;
 *                                   at most once per kernel
 *   GT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, arguments...)
 *                                   at least one argument; a template's name in parentheses
 *
 * and numbers of 16 bits, which are gt_f16 and gt_bf16 with gt_to_float() and gt_from_float(). The
 * simulator's headers define these macros before this file does. No sum of floats may use an
 * atomic: its order, and so its last bits, would change from run to run. A shuffle exchanges values
 * of at most 8 bytes among all 32 lanes.
 */
#include <cuda_runtime.h>
#include <stdint.h>

#ifndef GT_LAUNCH
#define GT_SHARED(type, name, count) __shared__ type name[count]
#define GT_DYNAMIC_SHARED(type, name)                                                              \
	extern __shared__ __align__(128) unsigned char gt_dynamic_shared[];                        \
	type *name = (type *)gt_dynamic_shared
#define GT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, ...)                                 \
	kernel<<<grid, block, dynamic_bytes, stream>>>(__VA_ARGS__)
#endif

/* ---- numbers of 16 bits ---- */

struct gt_f16 {
	uint16_t bits;
};

struct gt_bf16 {
	uint16_t bits;
};

/* Conversions round once, to nearest even. They turn a NaN into the same NaN as lib/base/half.h. */
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float gt_to_float(gt_f16 x)
{
	return __half2float(__ushort_as_half(x.bits));
}

__device__ __forceinline__ float gt_to_float(gt_bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

__device__ __forceinline__ void gt_from_float(gt_f16 *to, float x)
{
	uint16_t nan = 0x7e00 | (__float_as_uint(x) >> 16 & 0x8000);

	to->bits = x != x ? nan : __half_as_ushort(__float2half_rn(x));
}

__device__ __forceinline__ void gt_from_float(gt_bf16 *to, float x)
{
	to->bits = x != x ? 0x7fc0 : __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
#else
#include "lib/base/half.h"

inline float gt_to_float(gt_f16 x)
{
	return gt_float_of_f16(x.bits);
}

inline float gt_to_float(gt_bf16 x)
{
	return gt_float_of_bf16(x.bits);
}

inline void gt_from_float(gt_f16 *to, float x)
{
	to->bits = gt_f16_of_float(x);
}

inline void gt_from_float(gt_bf16 *to, float x)
{
	to->bits = gt_bf16_of_float(x);
}
#endif

/* The type in which kernels compute with elements of type T; and conversions to it and from it. */
template <class T> struct gt_wide {
	typedef T type;
};
template <> struct gt_wide<gt_f16> {
	typedef float type;
};
template <> struct gt_wide<gt_bf16> {
	typedef float type;
};

template <class T> __device__ __forceinline__ T gt_load(T x)
{
	return x;
}

__device__ __forceinline__ float gt_load(gt_f16 x)
{
	return gt_to_float(x);
}

__device__ __forceinline__ float gt_load(gt_bf16 x)
{
	return gt_to_float(x);
}

template <class T> __device__ __forceinline__ void gt_store(T *to, T x)
{
	*to = x;
}

__device__ __forceinline__ void gt_store(gt_f16 *to, float x)
{
	gt_from_float(to, x);
}

__device__ __forceinline__ void gt_store(gt_bf16 *to, float x)
{
	gt_from_float(to, x);
}

#endif
