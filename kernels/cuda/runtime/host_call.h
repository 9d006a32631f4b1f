/* host_call.h - host calls: functions that the host runs when a GPU's stream reaches them. */
#ifndef GT_KERNELS_CUDA_RUNTIME_HOST_CALL_H
#define GT_KERNELS_CUDA_RUNTIME_HOST_CALL_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

/* host_call() of gt_cuda_backend (lib/device/backend.h): a thread of the stream calls fn(self,
 * err). This waits while 64 calls of the stream are open. */
int gt_cuda_host_call(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
    size_t bytes, struct gt_err *err);

/* End the stream's thread, when its work is done or its device has failed. */
void gt_cuda_end_calls(struct gt_stream *stream);

/* cuStreamWaitValue32() of the driver. */
typedef __typeof__(cuStreamWaitValue32) gt_cuda_wait_value_fn;
/* Find it. Errors: GT_EDEVICE if the driver is too old. */
int gt_cuda_find_wait_value(gt_cuda_wait_value_fn **out, int index, struct gt_err *err);

/* Store an error of a device for its later calls, unless one is stored, as failed host calls do. */
void gt_cuda_fail(int index, const struct gt_err *err);

/* Return the device's stored error in *err, or 0. It is cleared with the device's last stream. */
int gt_cuda_call_error(int index, struct gt_err *err);

/* Add `by` to the number of the device's streams, and return the sum. At 0, the stored error is
 * cleared. */
int gt_cuda_count_stream(int index, int by);

#endif
