/* host_call.h - functions of the host that streams of GPUs call. */
#ifndef GT_KERNELS_CUDA_HOST_CALL_H
#define GT_KERNELS_CUDA_HOST_CALL_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

/* The backend's function host_call (lib/device/backend.h). The first call starts the stream's
 * thread. */
int gt_cuda_host_call(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
    size_t bytes, struct gt_err *err);

/* End the stream's thread, if it has one. All work of the stream must be done, or its device has
 * failed. */
void gt_cuda_end_calls(struct gt_stream *stream);

/* The driver's function by which a stream waits for a number in memory. Errors: GT_EDEVICE. */
typedef __typeof__(cuStreamWaitValue32) gt_cuda_wait_value_fn;
int gt_cuda_find_wait_value(gt_cuda_wait_value_fn **out, int index, struct gt_err *err);

/* Store an error that later calls for this device return, as if a function of the host in a stream
 * had failed with it. */
void gt_cuda_fail(int index, const struct gt_err *err);

/* The first error of a call on this device, or 0: all later calls for the device return it, until
 * the last of its streams is gone. */
int gt_cuda_call_error(int index, struct gt_err *err);

/* Add `by`, 1 or -1, to the number of the device's streams. Returns the new number. */
int gt_cuda_count_stream(int index, int by);

#endif
