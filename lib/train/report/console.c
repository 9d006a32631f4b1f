/* console.c - the observer that tells the person at the terminal. */
#include "lib/base/text.h"
#include "lib/train/report/observer.h"

static int start(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_watch *w = self;

	(void)err;
	w->tokens = r->tokens;
	w->progress->unit = "step";
	w->progress->total = r->total;
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

static int step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_watch *w = self;
	char detail[128], rate[GT_TEXT_SIZE], wait[32] = "";
	bool line;

	(void)err;
	log_scale(w, r);
	w->loss_sum += r->loss;
	w->count++;
	update_rate(w, r);
	line = r->step % w->every == 0 || r->step == w->progress->total;
	if (!line && !w->progress->terminal)
		return 0;
	gt_text_count(rate, w->rate);
	if (w->wait >= 0.01)
		snprintf(wait, sizeof(wait), ", data wait %.0f %%", 100 * w->wait);
	snprintf(detail, sizeof(detail), "loss %.4f lr %.2e %s %s/s%s",
	    w->loss_sum / (double)w->count, r->lr, rate, w->tokens ? "tokens" : "samples", wait);
	if (w->progress->terminal)
		gt_progress_update(w->progress, r->step, detail);
	if (line && (w->progress->launcher_columns || !w->progress->terminal) &&
	    w->log->level >= GT_LOG_NORMAL)
		gt_progress_print(w->progress, r->step, detail);
	if (line) {
		w->loss_sum = 0;
		w->count = 0;
	}
	return 0;
}

static int evaluated(void *self, const struct gt_eval_report *r, struct gt_err *err)
{
	const struct gt_metrics *m = r->metrics;
	struct gt_watch *w = self;

	(void)err;
	if (w->tokens)
		gt_log_info(w->log,
		    "step %lld: val loss %.4f, perplexity %.2f over %lld tokens%s%s",
		    (long long)r->step, m->loss, m->perplexity, (long long)m->n,
		    r->ema ? ", of the EMA" : "", r->best ? " (best)" : "");
	else if (m->regression)
		gt_log_info(w->log,
		    "step %lld: val loss %.4f, MSE %.6g, MAE %.6g, R2 %.4f of %lld%s%s",
		    (long long)r->step, m->loss, m->mse, m->mae, m->r2, (long long)m->n,
		    r->ema ? ", of the EMA" : "", r->best ? " (best)" : "");
	else
		gt_log_info(w->log,
		    "step %lld: val loss %.4f, top-1 %.2f %%, top-5 %.2f %% of %lld%s%s",
		    (long long)r->step, m->loss, 100 * m->top1, 100 * m->top5, (long long)m->n,
		    r->ema ? ", of the EMA" : "", r->best ? " (best)" : "");
	return 0;
}

static int saved(void *self, int64_t at, const char *path, struct gt_err *err)
{
	struct gt_watch *w = self;

	(void)err;
	gt_log_verbose(w->log, "step %lld: saved %s", (long long)at, path);
	return 0;
}

static int end(void *self, int rc, struct gt_err *err)
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
		.start = start,
		.step = step,
		.evaluated = evaluated,
		.saved = saved,
		.end = end,
	};
}
