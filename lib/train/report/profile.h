/* profile.h - profile some steps of a run: a trace of all work, and sums of its times. */
#ifndef GT_TRAIN_REPORT_PROFILE_H
#define GT_TRAIN_REPORT_PROFILE_H

#include "lib/base/log.h"
#include "lib/graph/plan.h"
#include "lib/parallel/parallel.h"

/* The steps to record, counted from the first step of this run: skip `wait` steps, skip `warmup`
 * more steps, then record `active` steps, as torch.profiler.schedule does with repeat=1. */
struct gt_profile_options {
	int64_t wait, warmup, active; /* active 0: no profile */
};

/* Parse options such as "wait=1,warmup=1,active=3", in any order. The values in this example are
 * the defaults of missing options. Errors: GT_EINVAL. */
int gt_profile_parse(struct gt_profile_options *out, const char *text, struct gt_err *err);

/* Sums and means over the recorded steps. */
struct gt_profile_summary {
	/* first and last recorded step, counted from 1; last 0: no step was recorded */
	int64_t first, last;
	double step_s;        /* mean time of a step, in seconds */
	double collectives_s; /* mean seconds of collectives in the background, per step */
	/* Fraction of collectives_s, 0 to 1, during which kernels of the plan ran. Kernels that
	 * start, run or wait for collectives do not count. Collectives after the update are never
	 * hidden. */
	double hidden;
};

/*
 * A profile is a list of events. An event is a piece of work with the times of its begin and end: a
 * step, a phase (a part of a step, such as the optimizer's update), a kernel, a collective, or work
 * of the host. Except for work of the host, the times are those at which the device does the work
 * (lib/device/marks.h). A GPU does the work later than the host queues it. So, with a GPU, the
 * profile reads the times of a step while later steps run, and the times of the last steps when the
 * profile ends. The trace of a GPU has one more row, for the work of the host.
 */
struct gt_profile;

/* The largest number of events that the profile itself adds to a step. */
enum { GT_PROFILE_EVENTS = 2 };

/* Make a profile of steps on this device, and allocate memory for all its events. `events` is the
 * largest number of events in a step, including GT_PROFILE_EVENTS. `parallel` must outlive the
 * profile. */
int gt_profile_new(struct gt_profile **out, const struct gt_profile_options *options,
    const struct gt_device *device, struct gt_parallel *parallel, size_t events,
    struct gt_err *err);
void gt_profile_free(struct gt_profile *p);

/* The functions below do nothing if p is NULL. In steps that are not recorded, all of them except
 * gt_profile_step() and gt_profile_end() also do nothing. */

/* Begin a step. `index` counts the steps since gt_train_run() was called, from 0 on. `number`
 * counts all steps of the run, from 1 on; it is used in messages. */
int gt_profile_step(struct gt_profile *p, int64_t index, int64_t number, struct gt_err *err);

/* Record a phase of a step as an event: all work that is queued on the compute stream between
 * gt_profile_phase() and gt_profile_phase_done(). `name` is borrowed until p is freed. */
int gt_profile_phase(struct gt_profile *p, const char *name, struct gt_err *err);
int gt_profile_phase_done(struct gt_profile *p, struct gt_err *err);

/* Record each kernel in a run of a plan as an event. Call gt_profile_plan() before the run, and
 * gt_profile_plan_done() after the run. */
void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan);
void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan);

/* Record the collectives that the host has run in the background since the last call, or since the
 * step began. All these collectives must have ended. Collectives that the device runs are recorded
 * without this call. */
void gt_profile_background(struct gt_profile *p);

/* Record work of the host as an event that began at the time `began` (gt_clock_s()) and ends now.
 * `name` is borrowed until p is freed. */
void gt_profile_note(struct gt_profile *p, const char *name, double began);

/*
 * End a step. After the last step that is recorded, write the events to DIR/trace/rank-RANK.json,
 * where DIR is `dir` and RANK is `rank`, log the sums, and set *summary. The file is in Chrome's
 * trace event format. Times of devices are converted to the host's clock. All ranks of a host use
 * the same clock, so the traces of these ranks can be shown side by side.
 */
int gt_profile_step_done(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

/* End the profile at the end of a run. If the run ended before the last step that should be
 * recorded, write and log the steps recorded so far, as gt_profile_step_done() does. If no step was
 * recorded, log a warning. */
int gt_profile_end(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

#endif
