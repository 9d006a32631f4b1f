/* console.c - the observer that tells the person at the terminal. */
#include <math.h>

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
	w->vocab = r->vocab;
	w->epochs = r->epochs;
	w->classes = r->info ? r->info->form.classes : 0;
	w->loss = NAN;
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
	if (elapsed > 0 && (elapsed >= 1 || !w->steady)) {
		w->rate = (double)w->work / elapsed;
		w->wait = (r->data_s - w->last_data_s) / elapsed;
	}
	if (elapsed < 1)
		return;
	w->steady = true;
	w->last_s = r->train_s;
	w->last_data_s = r->data_s;
	w->work = 0;
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

/* The texts of a step's line, in their order on it. */
enum { EPOCH, LOSS, LR, RATE, WAIT, ELAPSED, TEXTS };

struct step_texts {
	char text[TEXTS][48];
	struct gt_progress_field fields[TEXTS + 1];
};

static void add_field(struct step_texts *t, int which, int priority)
{
	int n = 0;

	while (t->fields[n].text)
		n++;
	t->fields[n] = (struct gt_progress_field){ t->text[which], priority };
}

/* On a narrow terminal the learning rate goes first, as it is the schedule's, and the loss last. */
static void write_texts(
    struct step_texts *t, const struct gt_watch *w, const struct gt_step_report *r)
{
	enum { LOW = GT_PROGRESS_EXTRA + 1, MIDDLE, HIGH, HIGHEST };
	char rate[GT_TEXT_SIZE], time[GT_TEXT_SIZE];

	*t = (struct step_texts){ 0 };
	snprintf(t->text[EPOCH], sizeof(*t->text), "epoch %lld/%lld", (long long)r->epoch + 1,
	    (long long)w->epochs);
	snprintf(t->text[LOSS], sizeof(*t->text), "loss %.4f", w->loss);
	snprintf(t->text[LR], sizeof(*t->text), "lr %.2e", r->lr);
	snprintf(t->text[RATE], sizeof(*t->text), "%s %s/s", gt_text_count(rate, w->rate),
	    w->tokens ? "tokens" : "samples");
	snprintf(t->text[WAIT], sizeof(*t->text), "data wait %.0f %%", 100 * w->wait);
	snprintf(
	    t->text[ELAPSED], sizeof(*t->text), "elapsed %s", gt_text_duration(time, r->time_s));
	if (w->epochs > 1)
		add_field(t, EPOCH, GT_PROGRESS_EXTRA);
	add_field(t, LOSS, HIGHEST);
	add_field(t, LR, LOW);
	add_field(t, RATE, HIGH);
	if (w->wait >= 0.01)
		add_field(t, WAIT, MIDDLE);
	add_field(t, ELAPSED, GT_PROGRESS_EXTRA);
}

static int report_watch_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_watch *w = self;
	struct step_texts texts;
	bool line = r->step % w->every == 0 || r->step == w->progress->total;

	(void)err;
	log_scale(w, r);
	w->loss_sum += r->loss;
	w->loss = w->loss_sum / (double)++w->count;
	update_rate(w, r);
	if (!line && !w->progress->terminal)
		return 0;
	write_texts(&texts, w, r);
	if (line && w->log->level >= GT_LOG_NORMAL)
		gt_progress_print(w->progress, r->step, texts.fields);
	gt_progress_update(w->progress, r->step, texts.fields);
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
