/* capture.h - record the work of streams as a CUDA graph, and replay it. */
#ifndef GT_KERNELS_CUDA_RUNTIME_CAPTURE_H
#define GT_KERNELS_CUDA_RUNTIME_CAPTURE_H

#include "kernels/cuda/cuda.h"

/* Record the work that is queued on a stream between gt_cuda_capture_begin() and
 * gt_cuda_capture_end(). gt_cuda_replay() then queues all of this work at once. These are functions
 * of gt_cuda_backend (lib/device/backend.h). A thread has at most one capture at a time. A capture
 * begins with one stream. Another stream joins the capture when it waits for an event that was
 * recorded in the capture. */
int gt_cuda_capture_begin(struct gt_stream *stream, struct gt_err *err);
int gt_cuda_capture_end(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
int gt_cuda_replay(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
void gt_cuda_capture_free(struct gt_capture *capture);

/* Call this after a wait for an event was queued on the stream. If the event belongs to this
 * thread's capture, the wait has made the stream a part of the capture. This function then marks
 * the stream as captured. Errors: GT_EDEVICE, GT_ENOMEM. */
int gt_cuda_note_wait(struct gt_stream *stream, struct gt_err *err);

/* Return GT_EDEVICE if the stream is being captured, otherwise 0. Call this before work that cannot
 * be captured. `what` is the name of this work for the error message. */
int gt_cuda_check_not_captured(
    const struct gt_stream *stream, const char *what, struct gt_err *err);

#endif
