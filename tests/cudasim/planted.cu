/* planted.cu - kernels that are wrong in a known way, and one that uses everything rightly. */
#include "kernels/cuda/core/fault.cuh"
#include "tests/cudasim/planted.h"

/* y[i] = the sum of the lanes of a warp, by shuffles, + 1000 warps of the block, by shared memory
 * + the votes of lanes 0 to 3, + the lane to the right. */
static __global__ void nothing(float *y)
{
	GT_SHARED(float, sums, 32);
	GT_DYNAMIC_SHARED(float, all);
	unsigned t = threadIdx.x, lane = t % 32;
	float sum = (float)lane, right;

	for (unsigned step = 16; step; step /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
	if (lane == 0)
		sums[t / 32] = 1000;
	all[t] = (float)lane;
	__syncthreads();
	for (unsigned w = 0; w < blockDim.x / 32; w++)
		sum += sums[w];
	right = all[t % 32 == 31 ? t : t + 1];
	sum += (float)__ballot_sync(0xffffffffu, lane < 4);
	__syncwarp();
	if (lane < 16) /* half of a warp meets alone */
		right = __shfl_sync(0x0000ffffu, right, lane);
	y[blockIdx.x * blockDim.x + t] = sum + right;
}

static __global__ void missing_barrier(float *y)
{
	GT_SHARED(float, s, PLANTED_THREADS);
	unsigned t = threadIdx.x;

	s[t] = 1;
	y[blockIdx.x * blockDim.x + t] = s[PLANTED_THREADS - 1 - t];
}

static __global__ void divergent_barrier(float *y)
{
	if (threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
	y[threadIdx.x] = 1;
}

static __global__ void absent_lane(float *y)
{
	if (threadIdx.x == 5)
		return;
	y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}

static __global__ void own_mask(float *y)
{
	y[threadIdx.x] = __shfl_sync(0x0000ffffu, 1.0f, 0);
}

static __global__ void other_mask(float *y)
{
	if (threadIdx.x < 16)
		y[threadIdx.x] = __shfl_sync(0x0000ffffu, 1.0f, 20);
}

static __global__ void race(float *y)
{
	y[blockIdx.x * blockDim.x + threadIdx.x / 2] = (float)threadIdx.x;
}

static __global__ void block_race(float *y)
{
	y[threadIdx.x] = (float)blockIdx.x;
}

static __global__ void beyond_shared(float *y)
{
	GT_SHARED(float, s, PLANTED_THREADS - 4);

	s[threadIdx.x] = 1; /* beyond_shared */
	y[threadIdx.x] = s[0];
}

static __global__ void beyond_dynamic(float *y)
{
	GT_DYNAMIC_SHARED(float, s);

	s[threadIdx.x] = 1; /* beyond_dynamic */
	y[threadIdx.x] = s[0];
}

static __global__ void beyond_global(float *y)
{
	y[blockIdx.x * blockDim.x + threadIdx.x + 1] = 1; /* beyond_global */
}

static __global__ void read_beyond(float *y)
{
	y[threadIdx.x] = y[blockIdx.x * blockDim.x + threadIdx.x + 1]; /* read_beyond */
}

void planted_launch(enum planted which, float *y, cudaStream_t stream)
{
	static void (*const kernels[])(float *y) = { nothing, missing_barrier, divergent_barrier,
		absent_lane, own_mask, other_mask, race, block_race, beyond_shared, beyond_dynamic,
		beyond_global, read_beyond };
	size_t dynamic_bytes = sizeof(float) * (which == PLANTED_NOTHING      ? PLANTED_THREADS
	                                           : which == PLANTED_DYNAMIC ? PLANTED_THREADS - 4
	                                                                      : 0);

	GT_LAUNCH(kernels[which], PLANTED_BLOCKS, PLANTED_THREADS, dynamic_bytes, stream, y);
}

static __global__ void add(float *y, const float *x)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	y[i] += x[i];
}

void planted_add(float *y, const float *x, int count, cudaStream_t stream)
{
	GT_LAUNCH(add, (unsigned)count / PLANTED_THREADS, PLANTED_THREADS, 0, stream, y, x);
}

static __global__ void fault(struct gt_fault_slot *slot)
{
	int64_t i = blockIdx.x * blockDim.x + threadIdx.x;

	gt_report_fault(slot, GT_FAULT_TARGET, 100 + i, i, 10);
}

void planted_fault(struct gt_stream *stream)
{
	GT_LAUNCH(fault, PLANTED_BLOCKS, PLANTED_THREADS, 0, stream->queue, stream->faults);
}

cudaError_t planted_allow(int bytes)
{
	return cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

void planted_configure(unsigned threads, size_t dynamic_bytes, float *y)
{
	GT_LAUNCH(nothing, 1, threads, dynamic_bytes, NULL, y);
}

#ifdef __has_feature
#define HAS_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define HAS_TSAN true
#else
#define HAS_TSAN false
#endif

bool planted_has_tsan()
{
	return HAS_TSAN;
}
