/* profile.h - where the time of some steps goes: a trace, and its sums. */
#ifndef GT_TRAIN_REPORT_PROFILE_H
#define GT_TRAIN_REPORT_PROFILE_H

#include "lib/base/log.h"
#include "lib/graph/plan.h"
#include "lib/parallel/parallel.h"

/* Which steps, counted from where the run begins: `wait` are left out, `warmup` too, `active` are
 * recorded, once (PyTorch's torch.profiler.schedule with repeat=1). */
struct gt_profile_options {
	int64_t wait, warmup, active; /* active 0: no profile */
};

/* "wait=1,warmup=1,active=3", any of them, in any order; those left out have these values. */
int gt_profile_parse(struct gt_profile_options *out, const char *text, struct gt_err *err);

/* Sums over the recorded steps. */
struct gt_profile_summary {
	int64_t first, last;  /* the steps, numbered from 1; last 0: none was recorded */
	double step_s;        /* of one, on the mean */
	double collectives_s; /* collectives in the background, per step */
	/* The part of that during which kernels ran, other than those that start, make or wait for
	 * collectives; after the update there are none. */
	double hidden;
};

struct gt_profile;

/* `events` is how many a step has at most. Memory for all is taken here. */
int gt_profile_new(struct gt_profile **out, const struct gt_profile_options *options, size_t events,
    struct gt_err *err);
void gt_profile_free(struct gt_profile *p);

/* The functions below do nothing where p is NULL, or the step is none to be recorded. */

/* A step begins, the first of this run being 0; `number` is its number from 1 on, for people. */
void gt_profile_step(struct gt_profile *p, int64_t index, int64_t number);

/* Around a run of a plan: each kernel is an event. */
void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan);
void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan);

/* Add the collectives that `parallel` has run in the background since the last call, or since the
 * step began; none is under way. `parallel` outlives p. */
void gt_profile_background(struct gt_profile *p, const struct gt_parallel *parallel);

/* Anything else that took from `began` (gt_clock_s()) to now. `name` stays where it is. */
void gt_profile_note(struct gt_profile *p, const char *name, double began);

/*
 * The step is over. After the last one to be recorded: write DIR/trace/rank-RANK.json, in Chrome's
 * trace event format (times of all ranks of a host are by one clock), and log the sums. *summary is
 * then filled.
 */
int gt_profile_step_done(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

/* The run has come to its end, maybe before the last step to be recorded: the same for those that
 * there are, a warning if there are none. */
int gt_profile_end(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err);

#endif
