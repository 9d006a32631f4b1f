/* backends.c - the list of backends of programs that have simulated GPUs. */
#include "kernels/cuda/cuda.h"
#include "tests/fake/far/far.h"

const struct gt_backend *const gt_backends[] = { &gt_cpu_backend, &far_backend, &gt_cuda_backend,
	NULL };
