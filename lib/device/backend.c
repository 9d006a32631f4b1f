/* backend.c - the one list of backends. */
#include "lib/device/backend.h"

const struct gt_backend *const gt_backends[] = {
	&gt_cpu_backend,
#ifdef GT_WITH_CUDA /* the Makefile's: a toolkit was there */
	&gt_cuda_backend,
#endif
	NULL,
};
