/* backend.c - the one list of backends. */
#include "lib/device/backend.h"

const struct gt_backend *const gt_backends[] = {
	&gt_cpu_backend,
#ifdef GT_WITH_CUDA /* set by the Makefile if there is a CUDA toolkit */
	&gt_cuda_backend,
#endif
	NULL,
};
