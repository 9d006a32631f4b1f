/* profile.h - profile some steps of a run: a trace of all work, and sums of its times. */
#ifndef GT_TRAIN_REPORT_PROFILE_H
#define GT_TRAIN_REPORT_PROFILE_H

#include "lib/base/log.h"
#include "lib/graph/plan.h"
#include "lib/parallel/parallel.h"

/* Numbers of steps: skip `wait` and `warmup` steps, then record `active` steps (0: no profile), as
 * torch.profiler.schedule does. */
struct gt_profile_options {
	int64_t wait, warmup, active;
};

/* Parse "wait=1,warmup=1,active=3", in any order; these are the defaults. Errors: GT_EINVAL. */
int gt_profile_parse(struct gt_profile_options *out, const char *text, struct gt_err *err);

/* Sums and means over the recorded steps. */
struct gt_profile_summary {
	/* first and last recorded step, counted from 1; last 0: none was recorded */
	int64_t first, last;
	double step_s;        /* mean time of a step */
	double collectives_s; /* mean time of collectives in the background, per step */
	/* The fraction of collectives_s, 0 to 1, during which kernels of the plan ran that do not
	 * wait for collectives. */
	double hidden;
};

/* A list of events: steps, phases of a step, kernels, collectives and work of the host, with their
 * times. */
struct gt_profile;

/* events that the profile itself adds to a step */
enum { GT_PROFILE_EVENTS = 2 };

/* Make a profile with memory for `events` events in a step, with GT_PROFILE_EVENTS. `parallel` must
 * outlive it. */
int gt_profile_new(struct gt_profile **out, const struct gt_profile_options *options,
    const struct gt_device *device, struct gt_parallel *parallel, size_t events,
    struct gt_err *err);
void gt_profile_free(struct gt_profile *p);

/* These do nothing if p is NULL or, except gt_profile_step() and gt_profile_end(), in steps that
 * are not recorded. Names are borrowed until p is freed. */

/* Begin a step: `index` counts in gt_train_run(), from 0; `number` in the run, from 1. */
int gt_profile_step(struct gt_profile *p, int64_t index, int64_t number, struct gt_err *err);

/* Record all work that the compute stream gets between the two calls. */
int gt_profile_phase(struct gt_profile *p, const char *name, struct gt_err *err);
int gt_profile_phase_done(struct gt_profile *p, struct gt_err *err);

/* Record each kernel of a run of a plan, between the two calls. */
void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan);
void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan);

/* Record the collectives that the host has run in the background since the last call, and which
 * have ended. */
void gt_profile_background(struct gt_profile *p);

/* Record work of the host from the time `began` (gt_clock_s()) until now. */
void gt_profile_note(struct gt_profile *p, const char *name, double began);

/* End a step. After the last one, write DIR/trace/rank-RANK.json for Chrome, with times of the
 * clock of the host, log the sums, and set *summary. */
int gt_profile_step_done(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

/* End the profile with the run: write the steps so far, or warn if there is none. */
int gt_profile_end(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

#endif
