/* host_call.h - call functions on the host from a stream of a GPU. */
#ifndef GT_KERNELS_CUDA_HOST_CALL_H
#define GT_KERNELS_CUDA_HOST_CALL_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

/* host_call() of gt_cuda_backend, described in lib/device/backend.h. A thread of the host makes the
 * calls of a stream; the first call starts this thread. */
int gt_cuda_host_call(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
    size_t bytes, struct gt_err *err);

/* End the thread that makes the stream's host calls, if there is one. Call this when all work of
 * the stream is done, or when its device has failed. */
void gt_cuda_end_calls(struct gt_stream *stream);

/* The type of the driver's function cuStreamWaitValue32(), which lets a stream wait for a value in
 * memory. */
typedef __typeof__(cuStreamWaitValue32) gt_cuda_wait_value_fn;
/* Find this function in the driver. `index` is the index of the device, for errors. Errors:
 * GT_EDEVICE. */
int gt_cuda_find_wait_value(gt_cuda_wait_value_fn **out, int index, struct gt_err *err);

/* Store an error for the device with this index. Later calls for the device return the error, as
 * they do after a host call that failed. If an error is already stored, it is kept. */
void gt_cuda_fail(int index, const struct gt_err *err);

/* Return the stored error of the device with this index, or 0 if there is none. It is the error of
 * the first host call that failed, or of gt_cuda_fail(). It is cleared when the last stream of the
 * device is freed. */
int gt_cuda_call_error(int index, struct gt_err *err);

/* Add `by` (1, -1 or 0) to the number of streams of the device with this index, and return the
 * result. If it is 0, clear the stored error of the device. */
int gt_cuda_count_stream(int index, int by);

#endif
