/* data_wait.c - the observer that logs advice if training waits for its data. */
#include <string.h>

#include "lib/train/report/observer.h"

/* The warning needs some time of training, and a share of waiting that is worth a change. */
static const double least_s = 10, least_at_end_s = 3, most_percent = 5;

static int start_data_wait(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_data_wait *w = self;

	(void)err;
	w->start = *r;
	return 0;
}

/* Return the changes that reading images allows. */
static const char *change_of_images(const struct gt_start_report *r)
{
	if (!r->images)
		return "";
	if (strstr(r->data, "reduce=no"))
		return "; smaller files of images take less time, and so does reduce=yes";
	return "; smaller files of images take less time";
}

/* Log the advice if it is due after so many seconds of training. */
static void advise(struct gt_data_wait *w, double after_s)
{
	double train_s = w->latest.train_s - w->train_s, data_s = w->latest.data_s - w->data_s;
	const char *more = change_of_images(&w->start);
	double percent = train_s > 0 ? 100 * data_s / train_s : 0;

	if (w->said || !w->begun || train_s < after_s || percent <= most_percent)
		return;
	w->said = true;
	if (w->start.workers)
		gt_log_info(w->log,
		    "training waited for data for %.0f %% of the time: more {workers} than %d read "
		    "faster%s",
		    percent, w->start.workers, more);
	else
		gt_log_info(w->log,
		    "training waited for data for %.0f %% of the time: with {workers} 1 or more it is "
		    "read while training goes on%s",
		    percent, more);
}

static int note_data_wait_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_data_wait *w = self;

	(void)err;
	w->latest = *r;
	if (!w->begun) {
		w->begun = true;
		w->train_s = r->train_s;
		w->data_s = r->data_s;
	}
	if (r->step % w->every == 0)
		advise(w, least_s);
	return 0;
}

static int end_data_wait(void *self, int rc, struct gt_err *err)
{
	(void)err;
	if (!rc)
		advise(self, least_at_end_s);
	return 0;
}

struct gt_observer gt_data_wait_observer(struct gt_data_wait *w)
{
	return (struct gt_observer){ .self = w,
		.start = start_data_wait,
		.step = note_data_wait_step,
		.end = end_data_wait };
}
