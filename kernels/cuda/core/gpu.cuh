/* gpu.cuh - macros, 16-bit types and words shared with the host, for nvcc and the GPU simulator. */
#ifndef GT_KERNELS_CUDA_CORE_GPU_CUH
#define GT_KERNELS_CUDA_CORE_GPU_CUH

/*
 * nvcc compiles the .cu files of this folder for GPUs. For tests, a C++ compiler compiles the same
 * files, with the headers of a simulator (tests/cudasim/) instead of the CUDA toolkit's headers.
 * Kernels are written in CUDA C++17 with these macros:
 *
 *   GT_SHARED(type, name, count)    Declare `count` elements of shared memory; `name` points to
 *                                   them.
 *   GT_DYNAMIC_SHARED(type, name)   Declare shared memory with the size given at the launch,
 *                                   aligned to 128 bytes. A kernel uses this at most once.
 *   GT_LAUNCH(kernel, grid, block, dynamic_bytes, stream, arguments...)
 *                                   Launch a kernel with at least one argument. Put the kernel in
 *                                   parentheses if it is an instance of a template.
 *
 * The simulator's headers define these macros before this file is read.
 *
 * Rules for kernels: 16-bit numbers have the types gt_f16 and gt_bf16, and are converted by
 * gt_to_float() and gt_from_float(). Floating-point sums must not use atomic operations: the order
 * of additions would change from run to run, and with it the last bits of the sum. All 32
 * lanes of a warp must call a shuffle together, with values of at most 8 bytes.
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

/* ---- 16-bit numbers ---- */

struct gt_f16 {
	uint16_t bits;
};

struct gt_bf16 {
	uint16_t bits;
};

/* gt_from_float() rounds to nearest, ties to even. A NaN is converted to the same bits as by the
 * functions of lib/base/half.h. */
#ifdef __CUDACC__
/* The instructions by which cuda_fp16.h and cuda_bf16.h convert. To read these headers would take
 * nvcc as long as to compile a small file of kernels. */
__device__ __forceinline__ float gt_to_float(gt_f16 x)
{
	float y;

	asm("{  cvt.f32.f16 %0, %1;}\n" : "=f"(y) : "h"(x.bits));
	return y;
}

__device__ __forceinline__ float gt_to_float(gt_bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

__device__ __forceinline__ uint16_t gt_round_to_f16(float x)
{
	uint16_t bits;

	asm("{  cvt.rn.f16.f32 %0, %1;}\n" : "=h"(bits) : "f"(x));
	return bits;
}

__device__ __forceinline__ uint16_t gt_round_to_bf16(float x)
{
	uint16_t bits;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
	asm("{  cvt.rn.bf16.f32 %0, %1;}\n" : "=h"(bits) : "f"(x));
#else
	/* Older GPUs lack the instruction. Add half of the last place, or less in a tie to even. */
	bits = (uint16_t)((__float_as_uint(x) + 0x7fff + (__float_as_uint(x) >> 16 & 1)) >> 16);
#endif
	return bits;
}

__device__ __forceinline__ void gt_from_float(gt_f16 *to, float x)
{
	uint16_t nan = 0x7e00 | (__float_as_uint(x) >> 16 & 0x8000);

	to->bits = x != x ? nan : gt_round_to_f16(x);
}

__device__ __forceinline__ void gt_from_float(gt_bf16 *to, float x)
{
	to->bits = x != x ? 0x7fc0 : gt_round_to_bf16(x);
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

/* gt_wide<T>::type is the wide type of T. Kernels with elements of type T compute in this type: in
 * float for 16-bit types, in T itself for other types. gt_load() converts an element to the wide
 * type. gt_store() converts a value of the wide type to T and stores it. */
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

/* ---- words that the host and other GPUs read and write while a kernel runs ---- */

/* Read or write such a word. Other accesses are not ordered before or after these on a GPU: that
 * takes __threadfence_system(). */
#ifdef __CUDACC__
__device__ __forceinline__ uint32_t gt_load_word(const uint32_t *word)
{
	return *(const volatile uint32_t *)word;
}

__device__ __forceinline__ void gt_store_word(uint32_t *word, uint32_t x)
{
	*(volatile uint32_t *)word = x;
}
#else
/* The simulator's fence does nothing: these accesses themselves order the others. */
inline uint32_t gt_load_word(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

inline void gt_store_word(uint32_t *word, uint32_t x)
{
	__atomic_store_n(word, x, __ATOMIC_RELEASE);
}
#endif

#endif
