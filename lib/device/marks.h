/* marks.h - the times at which a device reaches points of its streams, for profiles. */
#ifndef GT_DEVICE_MARKS_H
#define GT_DEVICE_MARKS_H

#include "lib/device/backend.h"

/*
 * A mark is the end of all work that is queued on a stream so far. Its time is the moment at which
 * the device reaches it, on the host's clock (gt_clock_s()). So the time between two marks of one
 * stream is the time that the device takes for the work between them. If the device has to wait for
 * the host to queue this work, the time includes this wait.
 *
 * A backend without timed events (gt_backend.timed_event_new) has done all work when the call that
 * queues the work returns. With such a backend, the time of a mark is the moment at which
 * gt_marks_add() is called.
 *
 * The device's clock is compared with the host's clock at the first mark. The two clocks may drift
 * apart by some parts in a million.
 */
struct gt_marks;

/* Create a list of marks for a device. At most `pending` marks (1 or more) wait for the device. If
 * that many are waiting, gt_marks_add() first waits until the device has reached half of them. */
int gt_marks_new(
    struct gt_marks **out, const struct gt_device *d, size_t pending, struct gt_err *err);
void gt_marks_free(struct gt_marks *m); /* NULL is fine; times not set so far stay unset */

/* Return true if gt_marks_add() may return before the device reaches the mark. Return false if
 * gt_marks_add() sets *time itself, because the backend has no timed events. */
bool gt_marks_are_late(const struct gt_marks *m);

/* Mark the end of all work that is queued on the stream so far. *time is set by this call, or by a
 * later call of gt_marks_add() or gt_marks_read(). The pointer `time` must stay valid until *time
 * is set or gt_marks_free() is called. */
int gt_marks_add(struct gt_marks *m, struct gt_stream *stream, double *time, struct gt_err *err);

/* Wait until the device has reached all marks, and set all their times. */
int gt_marks_read(struct gt_marks *m, struct gt_err *err);

#endif
