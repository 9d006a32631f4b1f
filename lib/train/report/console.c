/* console.c - the observer that tells the person at the terminal. */
#include <math.h>
#include <stdarg.h>

#include "lib/base/text.h"
#include "lib/train/report/observer.h"
#include "lib/train/report/start_lines.h"

static int start_watch(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_watch *w = self;

	(void)err;
	w->tokens = r->tokens;
	w->only_loss = r->only_loss;
	w->beside_image =
	    r->info && r->info->form.kind == GT_SAMPLE_IMAGE && r->info->form.field_count > 1;
	w->vocab = r->vocab && !(r->info && r->info->form.masks); /* it writes no texts */
	w->epochs = r->epochs;
	w->classes = r->info ? r->info->form.classes : 0;
	w->loss = NAN;
	w->gpu_bytes = r->gpu_bytes;
	w->mfu_of_sample = r->mfu_of_sample;
	gt_lag_begin(&w->lag, r->group);
	w->progress->unit = "step";
	w->progress->total = r->total;
	gt_start_lines_log(w->log, r);
	gt_start_lines_warn(w->log, r, w->batch_given);
	gt_progress_start(w->progress, r->step);
	return 0;
}

/* Steps of a second give rates that hold still; before there is one, all there were. */
static void update_rate(struct gt_watch *w, const struct gt_step_report *r)
{
	double elapsed = r->train_s - w->last_s;

	w->work += w->tokens ? r->tokens : r->samples;
	w->samples += r->samples;
	if (elapsed > 0 && (elapsed >= 1 || !w->steady)) {
		w->rate = (double)w->work / elapsed;
		w->mfu = w->mfu_of_sample * (double)w->samples / elapsed;
		w->wait = (r->data_s - w->last_data_s) / elapsed;
	}
	if (elapsed < 1)
		return;
	w->late = gt_lag_find(&w->late_rank, &w->lag, elapsed);
	w->steady = true;
	w->last_s = r->train_s;
	w->last_data_s = r->data_s;
	w->work = w->samples = 0;
}

/* The mean of the first steps, then an exponential mean of about SMOOTH_STEPS steps. */
static void update_loss(struct gt_watch *w, double loss)
{
	enum { SMOOTH_STEPS = 20 };
	int64_t steps = ++w->steps < SMOOTH_STEPS ? w->steps : SMOOTH_STEPS;

	w->loss_sum += loss;
	w->loss = w->loss_sum / (double)++w->count;
	w->smooth_loss += (loss - w->smooth_loss) / (double)steps;
}

/* Log a change of the loss scale. */
static void log_scale(struct gt_watch *w, const struct gt_step_report *r)
{
	if (r->skipped)
		gt_log_info(w->log,
		    "step %lld: gradients overflow, so the weights stay; loss scale %g",
		    (long long)r->step, r->loss_scale);
	else if (w->scale > 0 && r->loss_scale > w->scale)
		gt_log_info(w->log, "step %lld: loss scale %g", (long long)r->step, r->loss_scale);
	w->scale = r->loss_scale;
}

/* The fields of a line, in their order on it, with the order in which they go if it is too long. */
enum field { EPOCH, LOSS, LR, RATE, MFU, MEMORY, WAIT, LATE, ELAPSED, FIELDS };

static const int priorities[FIELDS] = {
	[ELAPSED] = GT_PROGRESS_EXTRA - 4,
	[EPOCH] = GT_PROGRESS_EXTRA - 3,
	[LR] = GT_PROGRESS_EXTRA - 2, /* it is the schedule's */
	[MEMORY] = GT_PROGRESS_EXTRA - 1,
	[MFU] = GT_PROGRESS_EXTRA,
	[WAIT] = GT_PROGRESS_EXTRA + 1,
	[RATE] = GT_PROGRESS_EXTRA + 2,
	[LATE] = GT_PROGRESS_EXTRA + 3,
	[LOSS] = GT_PROGRESS_EXTRA + 4,
};

struct step_texts {
	char text[FIELDS][48];
	struct gt_progress_field fields[FIELDS + 1];
	int count;
};

static void add_field(struct step_texts *t, enum field which, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_field(struct step_texts *t, enum field which, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(t->text[which], sizeof(t->text[which]), format, ap);
	va_end(ap);
	t->fields[t->count++] = (struct gt_progress_field){ t->text[which], priorities[which] };
}

/* Write the fields of the progress line if `drawn`, else those of a line that stays, which has the
 * mean loss since the line before, as metrics.jsonl has. */
static void write_texts(
    struct step_texts *t, const struct gt_watch *w, const struct gt_step_report *r, bool drawn)
{
	static const double least_wait = 0.01, least_late = 0.05;
	char text[GT_TEXT_SIZE];

	*t = (struct step_texts){ 0 };
	if (w->epochs > 1)
		add_field(
		    t, EPOCH, "epoch %lld/%lld", (long long)r->epoch + 1, (long long)w->epochs);
	add_field(t, LOSS, "loss %.4f", drawn ? w->smooth_loss : w->loss);
	add_field(t, LR, "lr %.2e", r->lr);
	add_field(
	    t, RATE, "%s %s/s", gt_text_count(text, w->rate), w->tokens ? "tokens" : "samples");
	if (drawn && w->mfu > 0)
		add_field(t, MFU, "MFU %.0f%%", 100 * w->mfu);
	if (drawn)
		add_field(t, MEMORY, "%s", gt_text_bytes(text, gt_report_memory(w->gpu_bytes)));
	if (w->wait >= least_wait)
		add_field(t, WAIT, "data wait %.0f %%", 100 * w->wait);
	if (drawn && w->late >= least_late)
		add_field(t, LATE, "rank %d late %.0f %%", w->late_rank, 100 * w->late);
	add_field(t, ELAPSED, "elapsed %s", gt_text_duration(text, r->time_s));
}

static int report_watch_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_watch *w = self;
	struct step_texts texts;
	bool line = r->step % w->every == 0 || r->step == w->progress->total;

	(void)err;
	log_scale(w, r);
	update_loss(w, r->loss);
	update_rate(w, r);
	if (line && w->log->level >= GT_LOG_NORMAL) {
		write_texts(&texts, w, r, false);
		gt_progress_print(w->progress, r->step, texts.fields);
	}
	if (gt_progress_is_due(w->progress)) {
		write_texts(&texts, w, r, true);
		gt_progress_update(w->progress, r->step, texts.fields);
	}
	if (line) {
		w->loss_sum = 0;
		w->count = 0;
	}
	return 0;
}

enum { ENDING = 64 };

/* Write the end of the line about an evaluation: the average that was evaluated, if any, and
 * whether this evaluation is the best one. */
static void write_ending(char out[ENDING], const struct gt_eval_report *r)
{
	snprintf(out, ENDING, "%s%s%s", r->average ? ", of the " : "",
	    r->average ? r->average->title : "", r->best ? " (best)" : "");
}

static int evaluated(void *self, const struct gt_eval_report *r, struct gt_err *err)
{
	const struct gt_metrics *m = r->metrics;
	struct gt_watch *w = self;
	char top5[GT_METRICS_TOP5], ending[ENDING];

	(void)err;
	write_ending(ending, r);
	if (m->only_loss)
		gt_log_info(w->log, "step %lld: val loss %.4f of %lld%s", (long long)r->step,
		    m->loss, (long long)m->n, ending);
	else if (m->pairs)
		gt_log_info(w->log, "step %lld: val loss %.4f, %.2f %% of %lld pairs right%s",
		    (long long)r->step, m->loss, 100 * m->accuracy, (long long)m->n, ending);
	else if (w->tokens)
		gt_log_info(w->log, "step %lld: val loss %.4f, perplexity %.2f over %lld tokens%s",
		    (long long)r->step, m->loss, m->perplexity, (long long)m->n, ending);
	else if (m->target == GT_SAMPLE_LABELS)
		gt_log_info(w->log,
		    "step %lld: val loss %.4f, %.2f %% of %lld labels right, F1 %.2f %%%s",
		    (long long)r->step, m->loss, 100 * m->accuracy, (long long)m->n, 100 * m->f1,
		    ending);
	else if (m->target == GT_SAMPLE_NUMBER)
		gt_log_info(w->log,
		    "step %lld: val loss %.4f, MSE %.6g, MAE %.6g, R2 %.4f of %lld%s",
		    (long long)r->step, m->loss, m->mse, m->mae, m->r2, (long long)m->n, ending);
	else
		gt_log_info(w->log, "step %lld: val loss %.4f, top-1 %.2f %%%s of %lld%s",
		    (long long)r->step, m->loss, 100 * m->top1,
		    gt_metrics_top5(top5, ", ", m, w->classes), (long long)m->n, ending);
	return 0;
}

static int saved(void *self, int64_t at, const char *path, struct gt_err *err)
{
	struct gt_watch *w = self;

	(void)err;
	gt_lag_begin(&w->lag, w->lag.group); /* the others waited for the file */
	gt_log_verbose(w->log, "step %lld: saved %s", (long long)at, path);
	return 0;
}

static int end_watch(void *self, int rc, struct gt_err *err)
{
	struct gt_watch *w = self;

	(void)rc;
	(void)err;
	gt_progress_hide(w->progress);
	return 0;
}

struct gt_observer gt_watch_observer(struct gt_watch *w)
{
	return (struct gt_observer){
		.self = w,
		.start = start_watch,
		.step = report_watch_step,
		.evaluated = evaluated,
		.saved = saved,
		.end = end_watch,
	};
}
