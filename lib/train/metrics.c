/* metrics.c - the observer that writes metrics.jsonl. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/train/observer.h"

struct gt_metrics_writer {
	FILE *stream;
	char *path;
	int64_t every, total;
	int64_t evaluated; /* step of the last evaluation written */
	struct gt_step_report latest;
	/* since the last line */
	double loss_sum, since_s;
	int64_t steps, samples, tokens;
};

int gt_metrics_writer_new(struct gt_metrics_writer **out, int64_t every, struct gt_err *err)
{
	*out = gt_calloc(1, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->every = every;
	(*out)->evaluated = -1;
	return 0;
}

void gt_metrics_writer_free(struct gt_metrics_writer *w)
{
	if (!w)
		return;
	if (w->stream)
		fclose(w->stream);
	free(w->path);
	free(w);
}

/* Is this line whole, and of a step that the resumed run has behind it? */
static bool line_stays(struct gt_metrics_writer *w, const char *line, size_t length, int64_t step)
{
	json_t *object = json_loadb(line, length, 0, NULL);
	const json_t *at = json_object_get(object, "step");
	const char *split = json_string_value(json_object_get(object, "split"));
	bool stays = json_is_integer(at) && json_integer_value(at) <= step;

	if (stays && split && !strcmp(split, "val"))
		w->evaluated = json_integer_value(at);
	json_decref(object);
	return stays;
}

static int keep_lines(
    struct gt_metrics_writer *w, const char *path, int64_t step, struct gt_err *err)
{
	struct gt_atomic_file out;
	struct gt_mapping map;
	size_t at = 0;
	int rc = gt_map(&map, path, err);

	if (rc)
		return rc;
	rc = gt_atomic_open(&out, path, err);
	while (!rc && at < map.size) {
		const unsigned char *feed = memchr(map.data + at, '\n', map.size - at);
		size_t length = feed ? (size_t)(feed - map.data) + 1 - at : map.size - at;

		if (feed && line_stays(w, (const char *)map.data + at, length, step))
			fwrite(map.data + at, 1, length, out.stream);
		at += length;
	}
	if (!rc)
		rc = gt_atomic_commit(&out, err);
	gt_unmap(&map);
	return rc;
}

static int start(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;
	FILE *there;

	w->total = r->total;
	w->path = gt_asprintf(err, "%s/metrics.jsonl", r->dir);
	if (!w->path)
		return GT_ENOMEM;
	there = fopen(w->path, "r");
	if (there) {
		fclose(there);
		if (keep_lines(w, w->path, r->step, err))
			return err->code;
	}
	w->stream = fopen(w->path, "ae");
	if (!w->stream)
		return gt_err_sys(err, "cannot write '%s'", w->path);
	return 0;
}

/* A line that cannot be written is a failure: nobody wants a run without its record. */
static int finish_line(struct gt_metrics_writer *w, struct gt_err *err)
{
	if (fputc('\n', w->stream) == EOF || fflush(w->stream))
		return gt_err_sys(err, "cannot write '%s'", w->path);
	return 0;
}

/* The line of the steps since the one before. */
static int write_line(struct gt_metrics_writer *w, struct gt_err *err)
{
	const struct gt_step_report *r = &w->latest;
	double seconds = r->train_s - w->since_s;

	if (!(seconds > 0))
		seconds = 1e-9;
	fprintf(w->stream,
	    "{\"split\":\"train\",\"step\":%lld,\"epoch\":%lld,\"loss\":%.9g,\"lr\":%.9g,"
	    "\"grad_norm\":%.9g,\"samples_per_s\":%.6g",
	    (long long)r->step, (long long)r->epoch, w->loss_sum / (double)w->steps, r->lr,
	    r->grad_norm, (double)w->samples / seconds);
	if (w->tokens)
		fprintf(w->stream, ",\"tokens_per_s\":%.6g", (double)w->tokens / seconds);
	fprintf(w->stream, ",\"time_s\":%.3f}", r->time_s);
	w->since_s = r->train_s;
	w->loss_sum = 0;
	w->steps = w->samples = w->tokens = 0;
	return finish_line(w, err);
}

static int step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;

	w->latest = *r;
	w->loss_sum += r->loss;
	w->steps++;
	w->samples += r->samples;
	w->tokens += r->tokens;
	/* The last step's line comes before its evaluation's. */
	return r->step % w->every == 0 || r->step == w->total ? write_line(w, err) : 0;
}

static int end(void *self, int rc, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;

	return !rc && w->steps ? write_line(w, err) : 0;
}

static int evaluated(void *self, const struct gt_eval_report *r, struct gt_err *err)
{
	const struct gt_metrics *m = r->metrics;
	struct gt_metrics_writer *w = self;

	/* A run resumed at its end evaluates once more. */
	if (r->step == w->evaluated)
		return 0;
	w->evaluated = r->step;
	fprintf(w->stream,
	    "{\"split\":\"val\",\"step\":%lld,\"loss\":%.9g,\"top1\":%.9g,\"top5\":%.9g,",
	    (long long)r->step, m->loss, m->top1, m->top5);
	/* JSON has no infinity: a perplexity beyond a double is null. */
	if (isfinite(m->perplexity))
		fprintf(w->stream, "\"perplexity\":%.9g", m->perplexity);
	else
		fputs("\"perplexity\":null", w->stream);
	fprintf(w->stream, ",\"n\":%lld,\"time_s\":%.3f}", (long long)m->n, r->time_s);
	return finish_line(w, err);
}

struct gt_observer gt_metrics_observer(struct gt_metrics_writer *w)
{
	return (struct gt_observer){
		.self = w,
		.start = start,
		.step = step,
		.evaluated = evaluated,
		.end = end,
	};
}
