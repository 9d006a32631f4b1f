/* loop.h - private: the state of the training loop, and the functions for one step. */
#ifndef GT_TRAIN_LOOP_H
#define GT_TRAIN_LOOP_H

#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

struct gt_loop {
	struct gt_train *t;
	struct gt_feeder feeder;
	/* Reports of queued steps. At most GT_OPTIM_AHEAD steps wait for their results at the same
	 * time. The report of step i of the loop, from 0 on, is at index i % GT_OPTIM_AHEAD.
	 * `queued` is the number of steps that this loop has queued so far, and `finished` the
	 * number of these steps whose results are known. */
	struct gt_step_report reports[GT_OPTIM_AHEAD];
	int64_t queued, finished;
	/* true: an observer reads the gradients of each step, so the loop waits for the results of
	 * each step before it queues the next one */
	bool wait_each_step;
	const json_t *config; /* the options of the run, for checkpoints and config.json */
	/* the result of gt_about_text() on rank 0, if the run writes files; otherwise NULL */
	char *about;
	const struct gt_observer *observers;
	/* observer_count: number of observers; started_count: how many of them have started */
	int observer_count, started_count;
	/* started: gt_clock_s() at the beginning of the run; left: gt_clock_s() at the end of the
	 * last gt_loop_step() or gt_loop_finish(); outside_s: seconds of the run that were not
	 * spent in these two functions, but in evaluations and checkpoints */
	double started, left, outside_s;
	double train_s; /* seconds of training up to the last report (gt_step_report.train_s) */
	double data_s;  /* part of train_s: seconds in which the loop waited for data */
	struct gt_train_result *result;
	struct gt_profile *profile; /* NULL: no profile */
	int64_t first_step;         /* steps done before this loop began */
	/* saved_step: steps done at the last checkpoint; checked_step: steps done at the last
	 * gt_loop_check_finite(); -1: there was none */
	int64_t saved_step, checked_step;
	struct gt_run_dir dir;             /* open on rank 0 if the run writes files */
	const atomic_bool *stop_requested; /* set when this rank is asked to stop */
	bool stop;                         /* all ranks know that some rank was asked to stop */
};

/* Call the callback named `callback` of every observer that has it, until one fails. The value is 0
 * or the error code of the callback that failed. */
#define GT_TELL(loop, callback, ...)                                                               \
	({                                                                                         \
		int rc_ = 0;                                                                       \
		for (int i_ = 0; !rc_ && i_ < (loop)->observer_count; i_++) {                      \
			const struct gt_observer *o_ = &(loop)->observers[i_];                     \
			if (o_->callback)                                                          \
				rc_ = o_->callback(o_->self, __VA_ARGS__);                         \
		}                                                                                  \
		rc_;                                                                               \
	})

/*
 * Queue the next step, then report the previous step to the observers. So the device already has
 * work while the host waits for the results of the previous step. The new step is reported by the
 * next call, or by gt_loop_finish(). If l->wait_each_step is set, this call waits for the new step
 * and reports it. Errors: any error of gt_loop_finish() or of the queued work.
 */
int gt_loop_step(struct gt_loop *l, struct gt_err *err);

/* Wait for the results of all queued steps except the last `left` steps, and report these results.
 * Errors: GT_EDIVERGED if the loss of a step is not finite, or if its gradient norm is not finite
 * and no smaller loss scale can be tried. The error message has the number of the step. After this
 * error, the weights are the weights before the failed step, because this step and later steps do
 * not update them. */
int gt_loop_finish(struct gt_loop *l, int64_t left, struct gt_err *err);

/* Check that parameters, buffers and optimizer state are finite, before an evaluation or a
 * checkpoint. A finite loss is no proof of this, because the loss of a step is computed before the
 * update of the step. A collective call. Errors: GT_EDIVERGED if a number is not finite. */
int gt_loop_check_finite(struct gt_loop *l, struct gt_err *err);

/* Set *err to GT_EDIVERGED with the message "WHAT is VALUE at step STEP" and a hint. Return
 * GT_EDIVERGED. `what` is the name of the value, such as "the loss". */
int gt_loop_diverged(
    const struct gt_train *t, const char *what, double value, int64_t step, struct gt_err *err);

#endif
