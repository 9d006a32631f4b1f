/* loop.h - private: the state of the training loop, and the functions for one step. */
#ifndef GT_TRAIN_LOOP_H
#define GT_TRAIN_LOOP_H

#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

struct gt_loop {
	struct gt_train *t;
	struct gt_feeder feeder;
	/* The caller's samples of the next step; `input` NULL: the feeder reads, or another rank
	 * does. */
	struct gt_batch given;
	/* Reports of queued steps: step i of the loop has index i % GT_OPTIM_AHEAD. `finished` of
	 * the `queued` steps have known results. */
	struct gt_step_report reports[GT_OPTIM_AHEAD];
	int64_t queued, finished;
	const json_t *config; /* the options of the run, for checkpoints and config.json */
	/* the text of gt_about_text() on rank 0, if the run writes files; else NULL */
	char *about;
	const struct gt_observer *observers;
	/* observers, and how many of them have started */
	int observer_count, started_count;
	/* gt_clock_s() at the begin of the run and at the end of the last step; seconds of
	 * evaluations and checkpoints */
	double started, left, outside_s;
	double train_s; /* seconds of training up to the last report */
	double data_s;  /* seconds of train_s that were spent waiting for data */
	struct gt_train_result *result;
	struct gt_profile *profile; /* NULL: no profile */
	int64_t first_step;
	/* steps done at the last checkpoint and gt_loop_check_finite(); -1: none */
	int64_t saved_step, checked_step;
	struct gt_run_dir dir;  /* open on rank 0 if the run writes files */
	struct gt_saver *saver; /* NULL: the run writes no files */
	const atomic_bool *stop_requested;
	bool stop; /* all ranks know that one was asked to stop */
};

/* Call a callback of every observer that has it, until one fails; the value is 0 or its code. */
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

/* Queue the next step, then report the step before, so that the device has work while the host
 * waits. If an observer reads the gradients of the new step, report the new step, too. */
int gt_loop_step(struct gt_loop *l, struct gt_err *err);

/* Return the number of samples that this rank's next step takes. */
int64_t gt_loop_samples(const struct gt_train *t);

/* Wait for all queued steps but the last `left`, and report them. Errors: GT_EDIVERGED with the
 * step if its loss or gradient norm is not finite; the weights are then those before this step. */
int gt_loop_finish(struct gt_loop *l, int64_t left, struct gt_err *err);

/* Check that parameters, buffers and optimizer state are finite; a finite loss does not prove it. A
 * collective call. Errors: GT_EDIVERGED. */
int gt_loop_check_finite(struct gt_loop *l, struct gt_err *err);

/* Return GT_EDIVERGED: "WHAT is VALUE at step STEP", with a hint. */
int gt_loop_diverged(
    const struct gt_train *t, const char *what, double value, int64_t step, struct gt_err *err);

/* ---- train.c ---- */

/* Open the feeder at the run's place in the data, if this rank reads samples. */
int gt_loop_open_loader(struct gt_loop *l, struct gt_err *err);

/* Exchange the weights, on all ranks, with their average, or back. `average` may be NULL: no
 * average is kept. */
int gt_loop_swap_average(
    const struct gt_train *t, const struct gt_average *average, struct gt_err *err);

/* Call gt_evaluate() with the run's programs, after the ranks have shared weights and buffers. */
int gt_loop_evaluate(struct gt_train *t, struct gt_dataset *data,
    const struct gt_evaluate_options *options, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err);

/* Return the state of the run, to be saved. It borrows from *l. */
struct gt_snapshot gt_loop_snapshot(const struct gt_loop *l);

/* Return the facts that checkpoints of the run store (gt_about_text()); the caller frees them. */
char *gt_loop_about(
    const struct gt_train *t, const struct gt_data_description *data, struct gt_err *err);

#endif
