/* events.h - private: write a file of events, which TensorBoard reads. */
#ifndef GT_TRAIN_TENSORBOARD_EVENTS_H
#define GT_TRAIN_TENSORBOARD_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/buf.h"
#include "lib/base/folder.h"
#include "lib/base/log.h"

/* An open file of events. If it cannot be written any more, a warning is logged once, and later
 * events are dropped. A zeroed struct drops all events. */
struct gt_events {
	FILE *stream; /* NULL: events are dropped */
	char *path;
	struct gt_log *log;
	struct gt_buf event; /* the event that is being written; its memory is used again */
	double flushed;      /* gt_clock_s() of the last flush */
	bool pending;        /* there are events after the last flush */
};

/* Create a new file in a folder, which must stay open. `step` is the number of steps done before:
 * TensorBoard drops the events of later steps in older files of the folder. */
int gt_events_open(struct gt_events *out, const struct gt_folder *folder, int64_t step,
    struct gt_log *log, struct gt_err *err);

/* Flush and close the file; nothing happens if it is not open. */
void gt_events_close(struct gt_events *e);

/* Flush what was written, at most once a second. */
void gt_events_flush(struct gt_events *e);

/* Write a number under a name such as "train/loss". It may be NaN. */
void gt_events_scalar(struct gt_events *e, int64_t step, const char *tag, double value);

/* Write a text in Markdown. In all texts and names, bytes that are not UTF-8 become '?'. */
void gt_events_text(struct gt_events *e, int64_t step, const char *tag, const char *markdown);

/* Write a histogram of `count` buckets: rows[count][3] with left edge, right edge, and number. */
void gt_events_histogram(
    struct gt_events *e, int64_t step, const char *tag, size_t count, const double rows[][3]);

/* Write `count` images of one size, each in the format PNG. */
void gt_events_images(struct gt_events *e, int64_t step, const char *tag, int width, int height,
    int count, const struct gt_buf *pngs);

/* The state in which a run has ended. */
enum gt_session_status { GT_SESSION_SUCCESS = 1, GT_SESSION_FAILURE };

/* Write the hyperparameters of the run: the numbers, texts, flags and arrays of an object; arrays
 * become texts. */
void gt_events_hparams(struct gt_events *e, const json_t *options);

/* Write the end of the run. TensorBoard reads the first one in a folder. */
void gt_events_end(struct gt_events *e, enum gt_session_status status);

#endif
