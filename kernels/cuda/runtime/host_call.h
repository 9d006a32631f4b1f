/* host_call.h - host calls: functions that the host runs when a GPU's stream reaches them. */
#ifndef GT_KERNELS_CUDA_RUNTIME_HOST_CALL_H
#define GT_KERNELS_CUDA_RUNTIME_HOST_CALL_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

/* Queue a call of fn(self, err) on the stream. This is the function `host_call` of gt_cuda_backend
 * (lib/device/backend.h). Each stream has its own thread of the host, which makes the host calls of
 * this stream. The first host call of the stream starts the thread. If 64 calls of the stream have
 * not returned, this function waits until one of them has. */
int gt_cuda_host_call(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
    size_t bytes, struct gt_err *err);

/* End the thread that makes the stream's host calls, if there is one. Call this when all work of
 * the stream is done, or when its device has failed. */
void gt_cuda_end_calls(struct gt_stream *stream);

/* The type of cuStreamWaitValue32(), a function of the CUDA driver. The function makes a stream
 * wait until a number in memory reaches a given value. */
typedef __typeof__(cuStreamWaitValue32) gt_cuda_wait_value_fn;
/* Find cuStreamWaitValue32() in the driver. `index` is the index of the device; it is used in error
 * messages. Errors: GT_EDEVICE if the driver is too old. */
int gt_cuda_find_wait_value(gt_cuda_wait_value_fn **out, int index, struct gt_err *err);

/* Store an error for the device with this index. Later calls for the device return the error. A
 * host call that fails stores its error in the same way. If the device already has a stored error,
 * keep that error. */
void gt_cuda_fail(int index, const struct gt_err *err);

/* If a failed host call or gt_cuda_fail() has stored an error for the device with this index, set
 * *err to this error, and return its code. Otherwise return 0. The stored error is cleared when the
 * last stream of the device is freed. */
int gt_cuda_call_error(int index, struct gt_err *err);

/* Add `by` (1, -1 or 0) to the number of streams of the device with this index, and return the new
 * number. If the new number is 0, clear the stored error of the device. */
int gt_cuda_count_stream(int index, int by);

#endif
