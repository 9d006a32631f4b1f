/* capture.h - record the work of streams as a CUDA graph, and replay it. */
#ifndef GT_KERNELS_CUDA_RUNTIME_CAPTURE_H
#define GT_KERNELS_CUDA_RUNTIME_CAPTURE_H

#include "kernels/cuda/cuda.h"

/* Functions of gt_cuda_backend (lib/device/backend.h): record work instead of running it, and
 * replay it at once. A thread has one capture at a time. Other streams join it when they wait for
 * its events. */
int gt_cuda_capture_begin(struct gt_stream *stream, struct gt_err *err);
int gt_cuda_capture_end(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
int gt_cuda_replay(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
void gt_cuda_capture_free(struct gt_capture *capture);

/* Call this after a wait was queued: the stream may have joined this thread's capture. */
int gt_cuda_note_wait(struct gt_stream *stream, struct gt_err *err);

/* Return GT_EDEVICE if the stream is being captured: `what` cannot be. Otherwise return 0. */
int gt_cuda_check_not_captured(
    const struct gt_stream *stream, const char *what, struct gt_err *err);

#endif
