/* peak.c - how fast products could be at most. */
#include "kernels/cuda/cuda.h"
#include "lib/device/known.h"

/* The published peak, or that of all multiprocessors at the highest clock. */
double gt_cuda_peak_flops(int index, enum gt_dtype dtype, bool tf32)
{
	const struct gt_known_device *known;
	struct cudaDeviceProp p;
	int khz = 0;

	if (cudaGetDeviceProperties(&p, index) != cudaSuccess ||
	    cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, index) != cudaSuccess) {
		cudaGetLastError();
		return 0;
	}
	known = gt_known_device_described(p.name, (double)p.totalGlobalMem);
	return known ? gt_known_device_peak(known, dtype, tf32)
	             : gt_multiprocessor_peak(p.major, p.minor, dtype, tf32) *
	                   p.multiProcessorCount * khz * 1e3;
}
