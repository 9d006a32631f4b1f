/* peak.c - how fast products could be at most. */
#include "kernels/cuda/cuda.h"

/* Operations of a multiprocessor in a cycle; 0: no tensor cores for that type. */
static const struct {
	int major, minor;
	double single, half, bfloat, tf32;
} rates[] = {
	{ 7, 0, 128, 1024, 0, 0 },
	{ 7, 5, 128, 1024, 0, 0 },
	{ 8, 0, 128, 2048, 2048, 1024 },
	{ 8, 6, 256, 1024, 1024, 512 },
	{ 8, 9, 256, 1024, 1024, 512 },
	{ 9, 0, 256, 4096, 4096, 2048 },
	{ 10, 0, 256, 8192, 8192, 4096 },
	{ 10, 3, 256, 8192, 8192, 4096 },
	{ 12, 0, 256, 1024, 1024, 512 },
};

static double per_cycle(const struct cudaDeviceProp *p, enum gt_dtype dtype, bool tf32)
{
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		if (rates[i].major == p->major && rates[i].minor == p->minor)
			return dtype == GT_F32    ? tf32 ? rates[i].tf32 : rates[i].single
			       : dtype == GT_F16  ? rates[i].half
			       : dtype == GT_BF16 ? rates[i].bfloat
			                          : 0;
	return 0;
}

double gt_cuda_peak_flops(int index, enum gt_dtype dtype, bool tf32)
{
	struct cudaDeviceProp p;
	int khz = 0;

	if (cudaGetDeviceProperties(&p, index) != cudaSuccess ||
	    cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, index) != cudaSuccess) {
		cudaGetLastError();
		return 0;
	}
	return per_cycle(&p, dtype, tf32) * p.multiProcessorCount * khz * 1e3;
}
