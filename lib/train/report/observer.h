/* observer.h - observers of a run: callbacks that the training loop calls. */
#ifndef GT_TRAIN_REPORT_OBSERVER_H
#define GT_TRAIN_REPORT_OBSERVER_H

#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/train/evaluate.h"

/* The state of a run when it begins. */
struct gt_start_report {
	const struct gt_folder *dir; /* the run directory; not open where no files are written */
	int64_t step, total;         /* steps done before, steps in all */
	bool tokens; /* a language model: rates are in tokens, and perplexity is defined */
	bool images;
	int workers;      /* threads that read data */
	const char *data; /* the spec of the training data */
};

/* One step of the optimizer, done. */
struct gt_step_report {
	int64_t step; /* steps done, this one included */
	int64_t epoch;
	double loss, lr, grad_norm;
	bool skipped;            /* its scaled gradients overflowed: the weights are as before */
	double loss_scale;       /* factor of the next step's loss; 0: the loss is not scaled */
	int64_t samples, tokens; /* in this step; tokens 0 unless a language model */
	/* seconds spent in training steps since the start of this process */
	double train_s;
	/* part of train_s in which the rank waited for data, on ranks that read data */
	double data_s;
	double time_s; /* since the start of this process */
};

struct gt_eval_report {
	int64_t step;
	const struct gt_metrics *metrics;
	bool best; /* better than all earlier evaluations */
	bool ema;  /* metrics of the mean of the weights */
	double time_s;
};

/* A row of callbacks; any may be NULL. `step` must not allocate: it is part of the loop. It is
 * called when the results of the step are known. The next step may have begun by then, unless an
 * observer has `gradients`. */
struct gt_observer {
	void *self;
	int (*start)(void *self, const struct gt_start_report *r, struct gt_err *err);
	/* Called before the update of step `step`, when all gradients are added up. */
	int (*gradients)(void *self, int64_t step, struct gt_err *err);
	int (*step)(void *self, const struct gt_step_report *r, struct gt_err *err);
	int (*evaluated)(void *self, const struct gt_eval_report *r, struct gt_err *err);
	int (*saved)(void *self, int64_t step, const char *path, struct gt_err *err);
	/* The last call. It is made if start() succeeded. rc is the result of the run so far. */
	int (*end)(void *self, int rc, struct gt_err *err);
};

/* ---- metrics.c: metrics.jsonl in the run directory ---- */

struct gt_metrics_writer;

/* Write a line every `every` steps and after the last step (the loss is the mean since the previous
 * line), and one per evaluation. When a run is resumed, gtrain's lines for later steps than the
 * resumed one are removed first, and so is an incomplete line. Lines of other programs are kept.
 * time_s continues from the last line that is kept. */
int gt_metrics_writer_new(struct gt_metrics_writer **out, int64_t every, struct gt_err *err);
void gt_metrics_writer_free(struct gt_metrics_writer *w);
struct gt_observer gt_metrics_observer(struct gt_metrics_writer *w);

/* ---- console.c: the person at the terminal ---- */

/* Progress line on a terminal, plain lines every `every` steps otherwise; evaluations in a line
 * each. Fill in log, progress and every. */
struct gt_watch {
	struct gt_log *log;
	struct gt_progress *progress;
	int64_t every;
	/* its own */
	bool tokens, steady;
	double loss_sum, rate, wait, last_s, last_data_s, scale;
	int64_t count, work;
};

struct gt_observer gt_watch_observer(struct gt_watch *w);

/* ---- data_wait.c: training that waits for its data ---- */

/* Logs once in a run if more than 5 % of its time was spent waiting for data, with advice. The
 * first step, which always waits, does not count. Fill in log and every. */
struct gt_data_wait {
	struct gt_log *log;
	int64_t every;
	/* its own */
	struct gt_start_report start;
	bool begun, said;
	double train_s, data_s; /* at the end of the first step */
	struct gt_step_report latest;
};

struct gt_observer gt_data_wait_observer(struct gt_data_wait *w);

#endif
