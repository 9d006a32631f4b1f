/* profile.h - where the time of some steps goes: a trace, and its sums. */
#ifndef GT_TRAIN_REPORT_PROFILE_H
#define GT_TRAIN_REPORT_PROFILE_H

#include "lib/base/log.h"
#include "lib/graph/plan.h"
#include "lib/parallel/parallel.h"

/* The steps to record, counted from the first step of this run: skip `wait` steps, then `warmup`
 * steps, then record `active` steps (torch.profiler.schedule with repeat=1). */
struct gt_profile_options {
	int64_t wait, warmup, active; /* active 0: no profile */
};

/* "wait=1,warmup=1,active=3", any of them, in any order. These are also the values of missing
 * ones. */
int gt_profile_parse(struct gt_profile_options *out, const char *text, struct gt_err *err);

/* Sums over the recorded steps. */
struct gt_profile_summary {
	int64_t first, last;  /* the steps, numbered from 1; last 0: none was recorded */
	double step_s;        /* mean time of a step */
	double collectives_s; /* collectives in the background, per step */
	/* The part of collectives_s during which other kernels ran. Kernels that start, run or wait
	 * for collectives do not count. Collectives after the update are never hidden. */
	double hidden;
};

struct gt_profile;

/* `events` is the largest number of events in a step. This call allocates memory for all of
 * them. */
int gt_profile_new(struct gt_profile **out, const struct gt_profile_options *options, size_t events,
    struct gt_err *err);
void gt_profile_free(struct gt_profile *p);

/* The functions below do nothing if p is NULL or the step is not to be recorded. */

/* A step begins. `index` counts the steps of this run from 0; `number` is the step's number in
 * messages, from 1 on. */
void gt_profile_step(struct gt_profile *p, int64_t index, int64_t number);

/* Call these before and after a run of a plan: each kernel becomes an event. */
void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan);
void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan);

/* Add the collectives that `parallel` has run in the background since the last call, or since the
 * step began; none is under way. `parallel` outlives p. */
void gt_profile_background(struct gt_profile *p, const struct gt_parallel *parallel);

/* Record any other work, which lasted from `began` (gt_clock_s()) until now. `name` is not
 * copied. */
void gt_profile_note(struct gt_profile *p, const char *name, double began);

/*
 * The step is over. After the last one to be recorded: write DIR/trace/rank-RANK.json, in Chrome's
 * trace event format (times of all ranks of a host are by one clock), and log the sums, and set
 * *summary.
 */
int gt_profile_step_done(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

/* The run has ended, maybe before the last step to be recorded: write and log the recorded steps as
 * above, or warn if there are none. */
int gt_profile_end(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

#endif
