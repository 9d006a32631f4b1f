/* nvrtc.h - find NVRTC, the library that compiles CUDA C++ at run time. */
#ifndef GT_DEVICE_NVRTC_H
#define GT_DEVICE_NVRTC_H

#include "lib/base/err.h"

/*
 * Open the newest NVRTC of CUDA 12 or later whose code runs with a driver that runs CUDA up to
 * `driver` (13000 is 13.0). *version is that of the library, in the same form. The library stays
 * open. Errors: GT_EDEVICE.
 */
int gt_nvrtc_open(void **handle, int *version, int driver, struct gt_err *err);

#endif
