/* capture.h - record the work of streams, and replay it: CUDA graphs. */
#ifndef GT_KERNELS_CUDA_CAPTURE_H
#define GT_KERNELS_CUDA_CAPTURE_H

#include "kernels/cuda/cuda.h"

/* The backend's functions of these names (lib/device/backend.h). A thread captures one stream at a
 * time, and the streams that wait for its events. */
int gt_cuda_capture_begin(struct gt_stream *stream, struct gt_err *err);
int gt_cuda_capture_end(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
int gt_cuda_replay(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
void gt_cuda_capture_free(struct gt_capture *capture);

/* Call this after the stream has begun to wait for an event. If the event belongs to this thread's
 * capture, the stream is captured, too. */
int gt_cuda_note_wait(struct gt_stream *stream, struct gt_err *err);

/* Fail if the stream is being captured, because `what` cannot be captured. */
int gt_cuda_check_not_captured(
    const struct gt_stream *stream, const char *what, struct gt_err *err);

#endif
