/* kernel.h - kernels that are compiled at run time, once for each source and architecture. */
#ifndef GT_KERNELS_CUDA_NVRTC_KERNEL_H
#define GT_KERNELS_CUDA_NVRTC_KERNEL_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gt_nvrtc_kernel; /* lives as long as the process */

/* Open NVRTC once, for the whole process, and set *version: 13000 is 13.0. If that fails, return
 * GT_EDEVICE, and set *why to the reason, a text that lives as long as the process. */
int gt_nvrtc_version(int *version, const char **why);

/* Return the kernel `name` of a source, compiled for the current device and loaded on it; or NULL,
 * with *why as above. A source that failed fails again, with the same reason. */
struct gt_nvrtc_kernel *gt_nvrtc_kernel_get(const char *source, const char *name, const char **why);

/* Queue a kernel on a stream of a device for which it was returned. */
int gt_nvrtc_kernel_launch(const struct gt_nvrtc_kernel *k, const struct gt_stream *stream,
    unsigned blocks, unsigned threads, void **arguments, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
