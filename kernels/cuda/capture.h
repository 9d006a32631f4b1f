/* capture.h - work of streams that is kept and replayed: graphs of CUDA. */
#ifndef GT_KERNELS_CUDA_CAPTURE_H
#define GT_KERNELS_CUDA_CAPTURE_H

#include "kernels/cuda/cuda.h"

/* As lib/device/backend.h has them. A thread captures the work of one stream at a time, and of
 * those that join it. */
int gt_cuda_capture_begin(struct gt_stream *stream, struct gt_err *err);
int gt_cuda_capture_end(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
int gt_cuda_replay(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
void gt_cuda_capture_free(struct gt_capture *capture);

/* The stream has waited for an event: it may have joined a capture of this thread. */
int gt_cuda_note_wait(struct gt_stream *stream, struct gt_err *err);

/* An error where the stream's work is captured: `what` has no part in captures. */
int gt_cuda_check_not_captured(
    const struct gt_stream *stream, const char *what, struct gt_err *err);

#endif
