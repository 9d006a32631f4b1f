/* observer.h - observers of a run: callbacks that the training loop calls. */
#ifndef GT_TRAIN_REPORT_OBSERVER_H
#define GT_TRAIN_REPORT_OBSERVER_H

#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/train/evaluate.h"

/* Where a run stands when it begins. */
struct gt_start_report {
	const struct gt_folder *dir; /* the run directory; not open where no files are written */
	int64_t step, total;         /* steps done before, steps in all */
	bool tokens; /* a language model: rates in tokens, perplexity means something */
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
	double loss_scale;       /* that the next step's loss is multiplied by; 0: it is not */
	int64_t samples, tokens; /* in this step; tokens 0 unless a language model */
	double train_s;          /* spent in training steps since the start of this process */
	double data_s;           /* of train_s, waited for data; on ranks that read it */
	double time_s;           /* since the start of this process */
};

struct gt_eval_report {
	int64_t step;
	const struct gt_metrics *metrics;
	bool best; /* better than all before */
	bool ema;  /* of the mean of the weights */
	double time_s;
};

/* A row of callbacks; any may be NULL. `step` must not allocate: it is part of the loop. It comes
 * when the results of that step are known; the next step may be under way by then, unless some
 * observer has `gradients`. */
struct gt_observer {
	void *self;
	int (*start)(void *self, const struct gt_start_report *r, struct gt_err *err);
	/* Gradients are added up, and step `step` is about to be taken with them. */
	int (*gradients)(void *self, int64_t step, struct gt_err *err);
	int (*step)(void *self, const struct gt_step_report *r, struct gt_err *err);
	int (*evaluated)(void *self, const struct gt_eval_report *r, struct gt_err *err);
	int (*saved)(void *self, int64_t step, const char *path, struct gt_err *err);
	/* Whenever start succeeded, last of all; rc is the result of the run so far. */
	int (*end)(void *self, int rc, struct gt_err *err);
};

/* ---- metrics.c: metrics.jsonl in the run directory ---- */

struct gt_metrics_writer;

/* A line every `every` steps and after the last (the loss is the mean since the line before) and
 * one per evaluation. Before, the lines that gtrain wrote for steps beyond the one which the run
 * resumes from are dropped, as is a line torn by a kill. Lines of others stay as they are. time_s
 * goes on from that of the last line that stays. */
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

/* Logs, once in a run, that more than 5 % of its time was spent waiting for data, and what to
 * change. The first step, which always waits, does not count. Fill in log and every. */
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
