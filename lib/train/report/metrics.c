/* metrics.c - the observer that writes metrics.jsonl. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/train/report/observer.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/run/run_points.h"

/* Bytes of lines that wait for space on the disk, beyond which lines are dropped, and more than a
 * line has. */
enum { WAITING_BYTES = 64 << 10, LINE_BYTES = 4 << 10 };

struct gt_metrics_writer {
	int fd;
	char *path;
	struct gt_log *log;
	struct gt_buf lines; /* the line that is being written, and lines that wait for space */
	size_t waiting;      /* bytes of the latter */
	bool warned;
	int64_t every, total;
	int64_t evaluated;     /* step of the last evaluation written */
	double before_s;       /* time_s of the last line that stays: the run goes on from there */
	uint64_t gpu_bytes;    /* device memory that the run has allocated; 0 on a CPU */
	uint64_t memory_bytes; /* the memory that was read last; 0 if it is not known */
	double memory_s;       /* time_s when it was read */
	double mfu_of_sample;
	struct gt_lag lag;
	struct gt_step_report latest;
	struct gt_number_sink sink; /* add NULL: there is none */
	const char *split;          /* the split and the step of the line that is being written */
	int64_t step;
	/* since the last line */
	double loss_sum, since_s, since_data_s;
	int64_t steps, samples, tokens;
};

int gt_metrics_writer_new(
    struct gt_metrics_writer **out, int64_t every, struct gt_log *log, struct gt_err *err)
{
	*out = gt_calloc(1, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->fd = -1;
	(*out)->log = log;
	(*out)->every = every;
	(*out)->evaluated = -1;
	return 0;
}

void gt_metrics_writer_free(struct gt_metrics_writer *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	gt_buf_release(&w->lines);
	free(w->path);
	free(w);
}

void gt_metrics_writer_send_to(struct gt_metrics_writer *w, struct gt_number_sink sink)
{
	w->sink = sink;
}

/* ---- the lines of an earlier run ---- */

static const char line_start[] = "{\"split\":\"";

/* Return whether lines of gtrain's have this key. */
static bool is_key(const char *name)
{
	static const char *const others[] = { "split", "step", "n", "ema" };

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(name, others[i]))
			return true;
	for (size_t i = 0; i < GT_RUN_KEYS; i++)
		if (!strcmp(name, gt_run_key_names[i]))
			return true;
	return false;
}

/* Whether gtrain wrote this object, which then has a step. Others may add lines of their own. */
static bool is_own(json_t *object)
{
	const char *split = json_string_value(json_object_get(object, "split")), *key;
	json_t *value;

	if (!split || (strcmp(split, "train") && strcmp(split, "val")) ||
	    !json_is_integer(json_object_get(object, "step")))
		return false;
	json_object_foreach(object, key, value) if (!is_key(key)) return false;
	return true;
}

/* The beginning of a line of gtrain's, if it is no more than that. */
static bool is_torn(const char *line, size_t length)
{
	size_t shorter = length < sizeof(line_start) - 1 ? length : sizeof(line_start) - 1;

	return line[length - 1] != '\n' && !memcmp(line, line_start, shorter);
}

/* Return whether a line of the file stays when the run goes on from `step`. A line that no run has
 * written stays. */
static bool line_stays(struct gt_metrics_writer *w, const char *line, size_t length, int64_t step)
{
	json_t *object = json_loadb(line, length, 0, NULL);
	bool stays = !is_torn(line, length) || object;

	if (object && is_own(object)) {
		int64_t at = json_integer_value(json_object_get(object, "step"));
		double time_s = json_number_value(json_object_get(object, "time_s"));
		bool val = !strcmp(json_string_value(json_object_get(object, "split")), "val");

		stays = at <= step;
		if (stays && time_s > w->before_s)
			w->before_s = time_s;
		if (stays && val)
			w->evaluated = at;
	}
	json_decref(object);
	return stays;
}

/* Copy the lines that stay to *out, which is opened at the first line that does not stay. */
static int copy_lines(struct gt_metrics_writer *w, struct gt_file_name file,
    const struct gt_mapping *map, int64_t step, struct gt_atomic_file *out, struct gt_err *err)
{
	const char *text = (const char *)map->data;
	int rc = 0;

	for (size_t at = 0, length; !rc && at < map->size; at += length) {
		size_t left = map->size - at;
		const char *feed =
		    memchr(text + at, '\n', left < GT_RUN_LINE_BYTES ? left : GT_RUN_LINE_BYTES);

		if (!feed && left > GT_RUN_LINE_BYTES) {
			gt_err_set(err, GT_EFORMAT,
			    "'%s': the line at byte %zu has more than %d bytes", file.path, at,
			    GT_RUN_LINE_BYTES);
			return gt_err_hint(err, "this is not a file of metrics: move it away");
		}
		length = feed ? (size_t)(feed - text) + 1 - at : left;
		if (line_stays(w, text + at, length, step)) {
			if (out->stream)
				fwrite(text + at, 1, length, out->stream);
		} else if (!out->stream) {
			rc = gt_atomic_open_at(out, file, err);
			if (!rc)
				fwrite(text, 1, at, out->stream);
		}
	}
	return rc;
}

/* Drop gtrain's own lines of steps beyond `step`, and the one that a kill tore. */
static int keep_lines(
    struct gt_metrics_writer *w, struct gt_file_name file, int64_t step, struct gt_err *err)
{
	struct gt_atomic_file out = { 0 };
	struct gt_mapping map = { .fd = -1 };
	struct stat st;
	bool found;
	int rc = gt_file_check(file, &st, &found, err);

	if (!rc)
		rc = gt_map_at(&map, file, err);
	/* A file that has other names is replaced by a copy: lines are not added to theirs. */
	if (!rc && st.st_nlink > 1)
		rc = gt_atomic_open_at(&out, file, err);
	if (!rc)
		rc = copy_lines(w, file, &map, step, &out, err);
	if (!rc && out.stream)
		rc = gt_atomic_commit(&out, err);
	gt_atomic_abandon(&out);
	gt_unmap(&map);
	return rc;
}

/* End the last line of an earlier writer, so that ours begins a new one. */
static int end_last_line(struct gt_metrics_writer *w, int fd, struct gt_err *err)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char last = '\n';

	if (size < 0 || (size > 0 && pread(fd, &last, 1, size - 1) != 1))
		return gt_err_sys(err, "cannot read '%s'", w->path);
	if (last != '\n' && write(fd, "\n", 1) != 1)
		return gt_err_sys(err, "cannot write '%s'", w->path);
	return 0;
}

/* Take all memory for lines now: steps take none. */
static int reserve_lines(struct gt_metrics_writer *w, struct gt_err *err)
{
	gt_buf_printf(&w->lines, "%*s", WAITING_BYTES + LINE_BYTES, "");
	gt_buf_cut(&w->lines, 0);
	return gt_buf_check(&w->lines, err);
}

static int start_metrics(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;
	struct gt_file_name file = { .folder = r->dir };
	int rc = reserve_lines(w, err);

	w->total = r->total;
	w->gpu_bytes = r->gpu_bytes;
	w->mfu_of_sample = r->mfu_of_sample;
	gt_lag_begin(&w->lag, r->group);
	w->path = rc ? NULL : gt_folder_path(r->dir, GT_RUN_METRICS, err);
	if (!w->path)
		return GT_ENOMEM;
	file.path = w->path;
	if (gt_file_exists(file))
		rc = keep_lines(w, file, r->step, err);
	if (!rc)
		rc = gt_file_open(&w->fd, file, O_RDWR | O_APPEND | O_CREAT, err);
	return rc ? rc : end_last_line(w, w->fd, err);
}

/* ---- lines ---- */

/* Warn once that lines are not in the file. */
static void warn_of_file(struct gt_metrics_writer *w, const char *reason)
{
	if (!w->warned)
		gt_log_warn(w->log, "cannot write '%s': %s; the run goes on", w->path, reason);
	w->warned = true;
}

/* Write the lines that wait. On a full disk, a part of a line may be written; the rest follows when
 * there is space. No error of a write tells that the file was removed. */
static void write_lines(struct gt_metrics_writer *w)
{
	size_t done = 0;
	struct stat st;

	while (done < w->lines.length) {
		ssize_t n = write(w->fd, w->lines.text + done, w->lines.length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			warn_of_file(w, strerror(n ? errno : ENOSPC));
			break;
		}
		done += (size_t)n;
	}
	w->waiting = w->lines.length - done;
	memmove(w->lines.text, w->lines.text + done, w->waiting);
	gt_buf_cut(&w->lines, w->waiting);
	if (!w->warned && !fstat(w->fd, &st) && !st.st_nlink)
		warn_of_file(w, "it was removed");
}

static void send_number(struct gt_metrics_writer *w, enum gt_run_key key, double value)
{
	char name[48];

	if (!w->sink.add)
		return;
	snprintf(name, sizeof(name), "%s/%s", w->split, gt_run_key_names[key]);
	w->sink.add(w->sink.self, name, w->step, value);
}

/* Reading the memory takes some microseconds, so it is read ten times a second at most. */
static void read_memory(struct gt_metrics_writer *w, double time_s)
{
	static const double interval_s = 0.1;

	if (w->memory_bytes && time_s < w->memory_s + interval_s)
		return;
	w->memory_bytes = gt_report_memory(w->gpu_bytes);
	w->memory_s = time_s;
}

/* Write the end of a line, with the times and the memory. */
static void finish_line(struct gt_metrics_writer *w, double time_s)
{
	read_memory(w, time_s);
	gt_buf_printf(&w->lines, ",\"time_s\":%.3f,\"wall_time\":%.3f", w->before_s + time_s,
	    gt_clock_wall_s());
	if (w->memory_bytes) {
		gt_buf_printf(
		    &w->lines, ",\"memory_bytes\":%llu}\n", (unsigned long long)w->memory_bytes);
		send_number(w, GT_RUN_MEMORY_BYTES, (double)w->memory_bytes);
	} else {
		gt_buf_puts(&w->lines, ",\"memory_bytes\":null}\n");
	}
	if (w->lines.length > WAITING_BYTES)
		gt_buf_cut(&w->lines, w->waiting);
	write_lines(w);
}

/* Begin a line, which finish_line() ends. */
static void begin_line(struct gt_metrics_writer *w, const char *split, int64_t step)
{
	w->split = split;
	w->step = step;
	gt_buf_printf(&w->lines, "{\"split\":\"%s\",\"step\":%lld", split, (long long)step);
}

/* ',"key":value', with so many digits; null where it is not finite, which JSON cannot say. */
static void put_real(struct gt_metrics_writer *w, enum gt_run_key key, int digits, double value)
{
	gt_buf_printf(&w->lines, ",\"%s\":", gt_run_key_names[key]);
	if (isfinite(value))
		gt_buf_printf(&w->lines, "%.*g", digits, value);
	else
		gt_buf_puts(&w->lines, "null");
	send_number(w, key, value);
}

/* The rank for which the others waited, if ranks know that of each other. */
static void put_late_rank(struct gt_metrics_writer *w, double seconds)
{
	int rank;
	double late = gt_lag_find(&rank, &w->lag, seconds);

	if (rank < 0)
		return;
	put_real(w, GT_RUN_LATE, 3, late);
	gt_buf_printf(&w->lines, ",\"%s\":%d", gt_run_key_names[GT_RUN_LATE_RANK], rank);
}

/* The line of the steps since the one before. */
static void write_line(struct gt_metrics_writer *w)
{
	const struct gt_step_report *r = &w->latest;
	double seconds = r->train_s - w->since_s;

	begin_line(w, "train", r->step);
	gt_buf_printf(&w->lines, ",\"epoch\":%lld", (long long)r->epoch);
	put_real(w, GT_RUN_LOSS, 9, w->loss_sum / (double)w->steps);
	put_real(w, GT_RUN_LR, 9, r->lr);
	put_real(w, GT_RUN_GRAD_NORM, 9, r->grad_norm);
	if (r->loss_scale > 0)
		put_real(w, GT_RUN_LOSS_SCALE, 9, r->loss_scale);
	put_real(w, GT_RUN_SAMPLES_PER_S, 6, (double)w->samples / seconds);
	if (w->tokens)
		put_real(w, GT_RUN_TOKENS_PER_S, 6, (double)w->tokens / seconds);
	if (w->mfu_of_sample > 0)
		put_real(w, GT_RUN_MFU, 3, w->mfu_of_sample * (double)w->samples / seconds);
	put_real(w, GT_RUN_DATA_WAIT, 3, (r->data_s - w->since_data_s) / seconds);
	put_late_rank(w, seconds);
	w->since_s = r->train_s;
	w->since_data_s = r->data_s;
	w->loss_sum = 0;
	w->steps = w->samples = w->tokens = 0;
	finish_line(w, r->time_s);
}

static int add_metrics_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;

	(void)err;
	w->latest = *r;
	w->loss_sum += r->loss;
	w->steps++;
	w->samples += r->samples;
	w->tokens += r->tokens;
	/* The last step's line comes before its evaluation's. */
	if (r->step % w->every == 0 || r->step == w->total)
		write_line(w);
	return 0;
}

static int end_metrics(void *self, int rc, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;

	(void)err;
	if (!rc && w->steps)
		write_line(w);
	else if (w->waiting)
		write_lines(w);
	return 0;
}

static void put_scores(struct gt_metrics_writer *w, const struct gt_metrics *m)
{
	if (m->pairs) {
		put_real(w, GT_RUN_ACCURACY, 9, m->accuracy);
	} else if (m->target == GT_SAMPLE_NUMBER) {
		put_real(w, GT_RUN_MSE, 9, m->mse);
		put_real(w, GT_RUN_MAE, 9, m->mae);
		put_real(w, GT_RUN_R2, 9, m->r2);
	} else if (m->target == GT_SAMPLE_LABELS) {
		put_real(w, GT_RUN_ACCURACY, 9, m->accuracy);
		put_real(w, GT_RUN_PRECISION, 9, m->precision);
		put_real(w, GT_RUN_RECALL, 9, m->recall);
		put_real(w, GT_RUN_F1, 9, m->f1);
	} else {
		put_real(w, GT_RUN_TOP1, 9, m->top1);
		put_real(w, GT_RUN_TOP5, 9, m->top5);
		/* The perplexity of a finite loss may be infinite. */
		put_real(w, GT_RUN_PERPLEXITY, 9, m->perplexity);
	}
}

static int evaluated(void *self, const struct gt_eval_report *r, struct gt_err *err)
{
	const struct gt_metrics *m = r->metrics;
	struct gt_metrics_writer *w = self;

	(void)err;
	/* A run resumed at its end evaluates once more. */
	if (r->step == w->evaluated)
		return 0;
	w->evaluated = r->step;
	begin_line(w, "val", r->step);
	put_real(w, GT_RUN_LOSS, 9, m->loss);
	if (!m->only_loss)
		put_scores(w, m);
	gt_buf_printf(&w->lines, ",\"n\":%lld", (long long)m->n);
	if (r->average)
		gt_buf_printf(&w->lines, ",\"%s\":true", r->average->name);
	finish_line(w, r->time_s);
	return 0;
}

static int saved(void *self, int64_t step, const char *path, struct gt_err *err)
{
	struct gt_metrics_writer *w = self;

	(void)step;
	(void)path;
	(void)err;
	gt_lag_begin(&w->lag, w->lag.group); /* the others waited for the file */
	return 0;
}

struct gt_observer gt_metrics_observer(struct gt_metrics_writer *w)
{
	return (struct gt_observer){
		.self = w,
		.start = start_metrics,
		.step = add_metrics_step,
		.evaluated = evaluated,
		.saved = saved,
		.end = end_metrics,
	};
}
