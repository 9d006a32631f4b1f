/* loop.h - inside train: the training loop's state, and its steps. */
#ifndef GT_TRAIN_LOOP_H
#define GT_TRAIN_LOOP_H

#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

struct gt_loop {
	struct gt_train *t;
	struct gt_feeder feeder;
	/* Steps that were queued, and steps whose results are known: the difference is a window of
	 * the reports, where the oldest is at finished % GT_OPTIM_AHEAD. */
	struct gt_step_report reports[GT_OPTIM_AHEAD];
	int64_t queued, finished;
	bool close; /* an observer reads the gradients and weights of each step */
	const json_t *config;
	char *about; /* gt_about_text(), on rank 0 if it writes checkpoints; otherwise NULL */
	const struct gt_observer *observers;
	int observer_count, started_count;
	double started, train_s;
	double data_s; /* part of train_s in which the loop waited for data */
	struct gt_train_result *result;
	struct gt_profile *profile; /* NULL: none is asked for */
	int64_t first_step;
	int64_t saved_step, evaluated_step, checked_step; /* -1: none */
	struct gt_run_dir dir;                            /* of rank 0 */
	const atomic_bool *asked;                         /* a stop was requested on this rank */
	bool stop;                                        /* all ranks have agreed to stop */
};

/* Call this function of every observer that has it. */
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
 * Queue the next step. The host queues one step ahead of the results that it reads, so the device
 * does not wait for the host. This call reports the step before; this step is reported by the next
 * call or by gt_loop_finish(). With l->close it is reported at once.
 */
int gt_loop_step(struct gt_loop *l, struct gt_err *err);

/* Wait for the results of all but the last `left` steps, and report them. Errors: GT_EDIVERGED,
 * with the step, if a loss or norm is not finite. The weights are then as before that step. */
int gt_loop_finish(struct gt_loop *l, int64_t left, struct gt_err *err);

/* Check that the model is finite before it is evaluated or saved. The loss does not show this,
 * because the loss of a step is computed before its update. A collective call. */
int gt_loop_check_finite(struct gt_loop *l, struct gt_err *err);

/* The error for a value that is not finite. */
int gt_loop_diverged(
    const struct gt_train *t, const char *what, double value, int64_t step, struct gt_err *err);

#endif
