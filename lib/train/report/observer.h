/* observer.h - observers: callbacks of the training loop, for metrics, progress and advice. */
#ifndef GT_TRAIN_REPORT_OBSERVER_H
#define GT_TRAIN_REPORT_OBSERVER_H

#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/comm/group.h"
#include "lib/optim/average.h"
#include "lib/train/evaluate.h"
#include "lib/train/report/lag.h"

/* The ranks and batches of a run. */
struct gt_ranks_report {
	const char *device; /* the device of this rank; of several ranks, the list of devices */
	int ranks;
	/* of several ranks: name of the mode ("ddp"), and of the backend of collectives ("shm") */
	const char *mode, *backend;
	int tensor, stages; /* ranks that share a layer, stages of the pipeline; 1: none */
	/* batch: samples of a micro-batch of one rank; accumulate: micro-batches of a step; step:
	 * samples that all ranks read in a step */
	int64_t batch, accumulate, step;
};

/* The state of a run when it begins. */
struct gt_start_report {
	/* the run directory (lib/train/run/run_dir.h); open only on rank 0, and only if the run
	 * writes files */
	const struct gt_folder *dir;
	/* step: number of steps done before this start; total: number of steps of the whole run */
	int64_t step, total;
	int64_t epochs; /* number of epochs of the whole run; the last one may be cut short */
	/* true for a language model: rates are in tokens per second, and perplexity is defined */
	bool tokens;
	bool vocab;       /* the training data have a vocabulary, so tokens can be read as text */
	bool only_loss;   /* the network returns its loss, so nothing else can be asked of it */
	bool images;      /* the training data are images */
	int workers;      /* threads that read data */
	const char *data; /* the spec of the training data */
	/* info: description of the training data; class_name: the name of the first class, or NULL;
	 * samples, val_samples: number of samples for training and for validation */
	const struct gt_data_info *info;
	const char *class_name;
	int64_t samples, val_samples;
	struct gt_ranks_report ranks;
	/* bytes that the run has allocated on the GPU of this rank; 0: it computes on a CPU */
	uint64_t gpu_bytes;
	/* The share of its device's peak rate (MFU) at which this rank computes while all ranks
	 * together train one sample per second; 0: the peak rate is not known. */
	double mfu_of_sample;
	/* all ranks, if each reads samples of its own; else NULL */
	const struct gt_group *group;
};

/* Return the bytes that the run holds on the device of this rank: `gpu_bytes` of the start report
 * or, if that is 0, the resident memory of the process. 0: not known. */
uint64_t gt_report_memory(uint64_t gpu_bytes);

/* The results of one optimizer step. */
struct gt_step_report {
	int64_t step;  /* steps done, including this step */
	int64_t epoch; /* epoch of this step, from 0 on */
	/* `loss` is the mean loss per target, `lr` the learning rate, and `grad_norm` the global
	 * norm of the gradients before clipping. */
	double loss, lr, grad_norm;
	bool skipped;      /* the scaled gradients overflowed: no update */
	double loss_scale; /* scale of the next step's loss; 0: the loss is not scaled */
	/* samples: number of samples of all ranks in this step; tokens: number of their tokens, or
	 * 0 for images and vectors */
	int64_t samples, tokens;
	/* seconds from the start of the first step to the end of this step, without evaluations
	 * and checkpoints */
	double train_s;
	/* part of train_s: seconds in which this rank waited for data; 0 if it reads no data */
	double data_s;
	double time_s; /* seconds since gt_train_run() was called */
};

struct gt_eval_report {
	int64_t step; /* steps done */
	const struct gt_metrics *metrics;
	/* one predicted class for each sample, if the options ask for them and a sample has one
	 * class; else NULL. Valid during the call. */
	const struct gt_predictions *predictions;
	/* A text of `text_bytes` bytes: a prompt of `prompt_bytes` bytes, and the text that a
	 * language model has written after it. NULL: the options do not ask for it, or this rank
	 * cannot write it. Valid during the call. */
	const char *text;
	size_t text_bytes, prompt_bytes;
	/* the average of the weights that was evaluated; NULL: the weights were evaluated */
	const struct gt_average *average;
	bool best;     /* this evaluation is better than all earlier ones */
	double time_s; /* seconds since gt_train_run() was called */
};

/* The callbacks of an observer, and their first argument `self`. A callback may be NULL. If a
 * callback returns a negative error code, the run ends with this error. */
struct gt_observer {
	void *self;
	int (*start)(void *self, const struct gt_start_report *r, struct gt_err *err);
	/* Called before the update of step `step` (counted from 1), when its gradients are
	 * complete. */
	int (*gradients)(void *self, int64_t step, struct gt_err *err);
	/* If this is not 0, gradients() is called only before steps that it divides. */
	int64_t gradients_every;
	/* Called when the results of a step are known. The next step may have begun by then, unless
	 * gradients() of some observer was called for this step. Otherwise step() must not allocate
	 * memory, because the training loop calls step() in every step. */
	int (*step)(void *self, const struct gt_step_report *r, struct gt_err *err);
	int (*evaluated)(void *self, const struct gt_eval_report *r, struct gt_err *err);
	/* Called after a checkpoint was written to `path`. */
	int (*saved)(void *self, int64_t step, const char *path, struct gt_err *err);
	/* Called at the end of the run, if start() succeeded. rc is the result of the run: 0 or an
	 * error code. */
	int (*end)(void *self, int rc, struct gt_err *err);
};

/* ---- metrics.c: metrics.jsonl in the run directory ---- */

struct gt_metrics_writer;

/*
 * Make a writer of metrics.jsonl; gt_metrics_observer() returns the writer's observer. The observer
 * writes a line of JSON every `every` steps, after the last step, and for each evaluation. The loss
 * in a line about steps is the mean of the losses of all steps since the previous line about steps.
 *
 * If a run is resumed or started again, metrics.jsonl may already have lines for steps after the
 * step at which this run starts. When the run starts, the observer removes these lines, and the
 * last line if it is incomplete. Only lines that gtrain wrote are removed; lines of other programs
 * are kept. The new values of `time_s` continue from the largest time_s in gtrain's remaining
 * lines. The first new line about steps has the mean loss of the steps since the resume. Every line
 * ends with the time since the epoch and the memory of the run.
 *
 * If a line cannot be written, because the disk is full or the file was removed, `log` gets one
 * warning, and the run goes on. Lines wait in memory until they can be written, up to 64 KiB; later
 * ones are dropped. After the run, free the writer with gt_metrics_writer_free().
 */
int gt_metrics_writer_new(
    struct gt_metrics_writer **out, int64_t every, struct gt_log *log, struct gt_err *err);
void gt_metrics_writer_free(struct gt_metrics_writer *w);
struct gt_observer gt_metrics_observer(struct gt_metrics_writer *w);

/* A receiver of numbers. add() gets each number of a line of metrics.jsonl, except counts and
 * times: a key of a line with "split":"train" becomes the name "train/KEY". A number may be NaN.
 * add() must not allocate memory. */
struct gt_number_sink {
	void *self;
	void (*add)(void *self, const char *name, int64_t step, double number);
};

/* Send the numbers of all later lines to `sink`, too. */
void gt_metrics_writer_send_to(struct gt_metrics_writer *w, struct gt_number_sink sink);

/* ---- console.c: progress of the run on the terminal ---- */

/*
 * An observer that prints the data and the ranks at the start, a line every `every` steps, and one
 * for each evaluation. On a terminal, a progress line is below them. The caller sets `log`,
 * `progress`, `every` and `batch_given`.
 *
 * The progress line has, beside the bar, the smoothed loss, the learning rate, the rate, the MFU if
 * the device's peak rate is known, the memory, the share of the time that was spent waiting for
 * data from 1 % on, and the rank that the others wait for from 5 % on. On a narrow terminal they
 * go in this order: elapsed time, epoch, learning rate, memory, MFU; then the bar; then the
 * waiting, the rate, the late rank, the loss.
 */
struct gt_watch {
	struct gt_log *log;
	struct gt_progress *progress;
	int64_t every;
	bool batch_given; /* the user chose the batch size: warn if the data are smaller */
	/* Output. loss: the loss in the line of the last step, which is the mean since the line
	 * before; NaN: no step was done. tokens, vocab, only_loss: as in the report of the
	 * start. beside_image: a sample has an image and other inputs, which no file has. */
	double loss;
	bool tokens, vocab, only_loss, beside_image;
	/* The fields below are the observer's state. */
	bool steady;
	int classes;
	double loss_sum, smooth_loss, rate, mfu, wait, late, last_s, last_data_s, scale;
	int64_t count, steps, work, samples, epochs;
	uint64_t gpu_bytes;
	double mfu_of_sample;
	struct gt_lag lag;
	int late_rank;
};

struct gt_observer gt_watch_observer(struct gt_watch *w);

/* ---- data_wait.c: advice if training waits for its data ---- */

/* An observer that logs advice, once in a run, if the rank waited for data in more than 5 % of the
 * training time. After 10 s of training, the observer checks this fraction every `every` steps. It
 * also checks the fraction at the end of a run without error, if at least 3 s were spent in
 * training. The first step always waits for data, so the time of the first step is not counted. The
 * caller sets `log` and `every`. */
struct gt_data_wait {
	struct gt_log *log;
	int64_t every;
	/* The fields below are the observer's state. */
	struct gt_start_report start;
	bool begun, said;
	double train_s, data_s; /* train_s and data_s of the first step's report */
	struct gt_step_report latest;
};

struct gt_observer gt_data_wait_observer(struct gt_data_wait *w);

#endif
