/* profile.h - profile some steps of a run: a trace of all work, and sums of its times. */
#ifndef GT_TRAIN_REPORT_PROFILE_H
#define GT_TRAIN_REPORT_PROFILE_H

#include "lib/data/core/data.h"
#include "lib/graph/plan.h"

struct gt_train;   /* lib/train/state.h */
struct gt_program; /* lib/train/program.h */

/* The schedule of torch.profiler: skip `wait` steps, record `warmup` steps and forget them, then
 * record `active` steps (0: no profile). This is a cycle, which is done `repeat` times, or, if that
 * is 0, until the run ends. */
struct gt_profile_options {
	int64_t wait, warmup, active, repeat;
};

/* Parse "wait=1,warmup=1,active=3,repeat=1", in any order; these are the defaults. Errors:
 * GT_EINVAL. */
int gt_profile_parse(struct gt_profile_options *out, const char *text, struct gt_err *err);

/* Sums and means over the recorded steps of the last cycle. */
struct gt_profile_summary {
	/* first and last recorded step, counted from 1; last 0: none was recorded */
	int64_t first, last;
	int64_t cycles;       /* cycles that were recorded */
	double step_s;        /* mean time of a step */
	double collectives_s; /* mean time of collectives in the background, per step */
	/* The fraction of collectives_s, 0 to 1, during which kernels of the plan ran that do not
	 * wait for collectives. */
	double hidden;
	/* the name of what a step spends most time with: "data" (waiting for it), "ranks" (waiting
	 * for others), "products", "arithmetic", "memory", "launch", "update" or "host"; and the
	 * share of a step's time, 0 to 1 */
	const char *bound;
	double bound_share;
	/* the number of steps that were not recorded, without the first of the run, and their mean
	 * time */
	int64_t other_steps;
	double other_step_s;
};

/* the name of gt_profile_note() for the time in which the host waits for a batch */
#define GT_PROFILE_WAITING "wait for data"
/* the name of the phase in which gradients are set to zero before they are added up */
#define GT_PROFILE_ZEROING "zero gradients"
/* the name of the phase in which the optimizer updates the parameters */
#define GT_PROFILE_UPDATE "optimizer"

/* A list of events: steps, phases of a step, kernels, collectives, copies of batches, and work of
 * the host, with their times. */
struct gt_profile;

/* Make the profile of an open run, which must outlive it. *summary is set when a cycle ends. */
int gt_profile_new(struct gt_profile **out, struct gt_train *t, struct gt_profile_summary *summary,
    struct gt_err *err);
void gt_profile_free(struct gt_profile *p);

/* These do nothing if p is NULL or, except gt_profile_step(), gt_profile_time() and
 * gt_profile_end(), in steps that are not recorded. Names are borrowed until p is freed. */

/* Begin a step: `index` counts in gt_train_run(), from 0; `number` in the run, from 1. */
int gt_profile_step(struct gt_profile *p, int64_t index, int64_t number, struct gt_err *err);

/* Record all work that the compute stream gets between the two calls. */
int gt_profile_phase(struct gt_profile *p, const char *name, struct gt_err *err);
int gt_profile_phase_done(struct gt_profile *p, struct gt_err *err);

/* Record the copy of a batch, which gt_program_feed() queues between the two calls, and when a
 * thread of the loader read the batch. */
void gt_profile_feed(
    struct gt_profile *p, struct gt_program *program, const struct gt_batch *batch);
void gt_profile_fed(struct gt_profile *p, struct gt_program *program);

/* Record each kernel of a run of a plan, between the two calls. */
void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan);
void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan);

/* Record the collectives that the host has run in the background since the last call, and which
 * have ended. */
void gt_profile_background(struct gt_profile *p);

/* Record work of the host from the time `began` (gt_clock_s()) until now. */
void gt_profile_note(struct gt_profile *p, const char *name, double began);

/* End a step. After the last one of a cycle, write the trace to DIR/trace/, with times of the clock
 * of the host, log the sums, and set the summary. */
int gt_profile_step_done(struct gt_profile *p, struct gt_err *err);

/* Note that the host took so many seconds for the latest step, to tell the cost of recording. */
void gt_profile_time(struct gt_profile *p, double seconds);

/* End the profile with the run: write the steps of an unfinished cycle, or warn if no step was
 * recorded. */
int gt_profile_end(struct gt_profile *p, struct gt_err *err);

#endif
