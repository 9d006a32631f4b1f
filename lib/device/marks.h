/* marks.h - the times at which a device reaches points of its streams, for profiles. */
#ifndef GT_DEVICE_MARKS_H
#define GT_DEVICE_MARKS_H

#include "lib/device/backend.h"

/* A mark is the end of the work queued on a stream so far. Its time is when the device reaches it,
 * on the host's clock (gt_clock_s()), so that two marks of a stream enclose the time for the work
 * between them, including waits for the host. Without timed events, it is the time of
 * gt_marks_add(). The device's clock may drift by some parts in a million. */
struct gt_marks;

/* Create a list of marks. If `pending` marks (1 or more) wait for the device, gt_marks_add() waits
 * until half of them are reached. */
int gt_marks_new(
    struct gt_marks **out, const struct gt_device *d, size_t pending, struct gt_err *err);
void gt_marks_free(struct gt_marks *m); /* NULL is fine; open times stay unset */

/* Return whether gt_marks_add() may return before *time is set. */
bool gt_marks_are_late(const struct gt_marks *m);

/* Add a mark. *time is set now, or by a later call of this function or gt_marks_read(), so `time`
 * must stay valid until then. */
int gt_marks_add(struct gt_marks *m, struct gt_stream *stream, double *time, struct gt_err *err);

/* Wait for all marks, and set their times. */
int gt_marks_read(struct gt_marks *m, struct gt_err *err);

#endif
