/* run_points.c - read metrics.jsonl. */
#include "lib/train/run/run_points.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/train/run/run_dir.h"

enum { MOST_LINES = 1 << 22 };

/* Steps above this are not exact in JSON's numbers. */
#define MOST_STEPS ((json_int_t)1 << 53)

const char *const gt_run_key_names[GT_RUN_KEYS] = {
	[GT_RUN_LOSS] = "loss",
	[GT_RUN_LR] = "lr",
	[GT_RUN_GRAD_NORM] = "grad_norm",
	[GT_RUN_LOSS_SCALE] = "loss_scale",
	[GT_RUN_SAMPLES_PER_S] = "samples_per_s",
	[GT_RUN_TOKENS_PER_S] = "tokens_per_s",
	[GT_RUN_DATA_WAIT] = "data_wait",
	[GT_RUN_MEMORY_BYTES] = "memory_bytes",
	[GT_RUN_MFU] = "mfu",
	[GT_RUN_LATE] = "late",
	[GT_RUN_LATE_RANK] = "late_rank",
	[GT_RUN_TOP1] = "top1",
	[GT_RUN_TOP5] = "top5",
	[GT_RUN_PERPLEXITY] = "perplexity",
	[GT_RUN_MSE] = "mse",
	[GT_RUN_MAE] = "mae",
	[GT_RUN_R2] = "r2",
	[GT_RUN_ACCURACY] = "accuracy",
	[GT_RUN_PRECISION] = "precision",
	[GT_RUN_RECALL] = "recall",
	[GT_RUN_F1] = "f1",
	[GT_RUN_EPOCH] = "epoch",
	[GT_RUN_TIME_S] = "time_s",
	[GT_RUN_WALL_TIME] = "wall_time",
};

double gt_run_value(const struct gt_run_points *p, enum gt_run_key key, size_t row)
{
	return p->value[key] ? p->value[key][row] : NAN;
}

bool gt_run_has(const struct gt_run_points *p, enum gt_run_key key)
{
	for (size_t i = 0; p->value[key] && i < p->count; i++)
		if (isfinite(p->value[key][i]))
			return true;
	return false;
}

/* ---- rows ---- */

static void release_points(struct gt_run_points *p)
{
	free(p->step);
	for (int k = 0; k < GT_RUN_KEYS; k++)
		free(p->value[k]);
	*p = (struct gt_run_points){ 0 };
}

void gt_run_metrics_release(struct gt_run_metrics *m)
{
	release_points(&m->train);
	release_points(&m->val);
}

static int grow_column(double **column, size_t capacity, struct gt_err *err)
{
	double *grown = gt_reallocarray(*column, capacity, sizeof(double), err);

	if (!grown)
		return GT_ENOMEM;
	*column = grown;
	return 0;
}

static int grow_points(struct gt_run_points *p, struct gt_err *err)
{
	size_t capacity = p->capacity ? 2 * p->capacity : 64;
	int64_t *step = gt_reallocarray(p->step, capacity, sizeof(*step), err);
	int rc = step ? 0 : GT_ENOMEM;

	if (step)
		p->step = step;
	for (int k = 0; !rc && k < GT_RUN_KEYS; k++)
		if (p->value[k])
			rc = grow_column(&p->value[k], capacity, err);
	if (!rc)
		p->capacity = capacity;
	return rc;
}

/* Drop the rows of this step and of later ones. */
static void drop_rows(struct gt_run_points *p, int64_t step)
{
	while (p->count && p->step[p->count - 1] >= step)
		p->count--;
}

/* Set a value in the last row. The first value of a key begins its column. */
static int put_value(struct gt_run_points *p, int key, double value, struct gt_err *err)
{
	if (!p->value[key]) {
		if (grow_column(&p->value[key], p->capacity, err))
			return GT_ENOMEM;
		for (size_t i = 0; i < p->count; i++)
			p->value[key][i] = NAN;
	}
	p->value[key][p->count - 1] = value;
	return 0;
}

/* ---- lines ---- */

/* Return whether every key has a number, null, or is missing. */
static bool has_numbers(const json_t *line)
{
	for (int k = 0; k < GT_RUN_KEYS; k++) {
		const json_t *value = json_object_get(line, gt_run_key_names[k]);

		if (value && !json_is_number(value) && !json_is_null(value))
			return false;
	}
	return true;
}

static int add_row(struct gt_run_points *p, int64_t step, const json_t *line, struct gt_err *err)
{
	int rc = 0;

	drop_rows(p, step);
	if (p->count == p->capacity)
		rc = grow_points(p, err);
	if (rc)
		return rc;
	p->step[p->count++] = step;
	for (int k = 0; !rc && k < GT_RUN_KEYS; k++) {
		const json_t *value = json_object_get(line, gt_run_key_names[k]);

		p->nulls[k] += value && json_is_null(value);
		if (json_is_number(value))
			rc = put_value(p, k, json_number_value(value), err);
		else if (p->value[k])
			p->value[k][p->count - 1] = NAN;
	}
	return rc;
}

/* Add a line, without its line feed. Lines of other programs have another split or none. */
static int add_line(struct gt_run_metrics *m, const char *text, size_t length, struct gt_err *err)
{
	json_t *line = length ? json_loadb(text, length, 0, NULL) : NULL;
	const char *split = json_string_value(json_object_get(line, "split"));
	const json_t *step = json_object_get(line, "step");
	bool val = split && !strcmp(split, "val"), own = val || (split && !strcmp(split, "train"));
	int rc = 0;

	if ((length && !line) || (own && !has_numbers(line)))
		m->bad_lines++;
	else if (own && json_is_integer(step) && json_integer_value(step) >= 0 &&
	         json_integer_value(step) <= MOST_STEPS)
		rc = add_row(val ? &m->val : &m->train, json_integer_value(step), line, err);
	else
		m->bad_lines += own;
	json_decref(line);
	return rc;
}

/* ---- the file ---- */

/* A reader of lines. A line of more than GT_RUN_LINE_BYTES is left out. */
struct lines {
	char *buffer; /* [GT_RUN_LINE_BYTES] */
	size_t used;
	bool skipping; /* the bytes up to the next line feed belong to a line that is too long */
};

/* Add the complete lines of the buffer, and move the beginning of the next one to its start. */
static int take_lines(struct lines *l, struct gt_run_metrics *m, struct gt_err *err)
{
	char *at = l->buffer, *end = l->buffer + l->used, *feed;
	int rc = 0;

	while (!rc && (feed = memchr(at, '\n', (size_t)(end - at)))) {
		m->too_big = m->train.count + m->val.count >= MOST_LINES;
		if (l->skipping)
			m->bad_lines++;
		else if (!m->too_big)
			rc = add_line(m, at, (size_t)(feed - at), err);
		l->skipping = false;
		at = feed + 1;
	}
	l->used = (size_t)(end - at);
	memmove(l->buffer, at, l->used);
	if (l->used == GT_RUN_LINE_BYTES) {
		l->skipping = true;
		l->used = 0;
	}
	return rc;
}

static int read_lines(struct gt_run_metrics *m, int fd, const char *path, struct gt_err *err)
{
	struct lines l = { .buffer = gt_calloc(GT_RUN_LINE_BYTES, 1, err) };
	ssize_t got = 1;
	int rc = l.buffer ? 0 : GT_ENOMEM;

	while (!rc && got > 0 && !m->too_big) {
		do
			got = read(fd, l.buffer + l.used, GT_RUN_LINE_BYTES - l.used);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			rc = gt_err_sys(err, "cannot read '%s'", path);
		l.used += got > 0 ? (size_t)got : 0;
		if (!rc)
			rc = take_lines(&l, m, err);
	}
	m->torn = !rc && (l.used > 0 || l.skipping);
	free(l.buffer);
	return rc;
}

int gt_run_metrics_read(
    struct gt_run_metrics *out, const struct gt_folder *folder, struct gt_err *err)
{
	char *path = gt_folder_path(folder, GT_RUN_METRICS, err);
	const struct gt_file_name file = { folder, path };
	int fd, rc = path ? 0 : GT_ENOMEM;

	*out = (struct gt_run_metrics){ 0 };
	if (!rc && gt_file_exists(file)) {
		rc = gt_file_open(&fd, file, O_RDONLY, err);
		if (!rc) {
			rc = read_lines(out, fd, path, err);
			close(fd);
		}
	}
	if (rc)
		gt_run_metrics_release(out);
	free(path);
	return rc;
}
