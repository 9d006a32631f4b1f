/* details.c - details.json: the parameters of the model, and its predictions. */
#include "lib/train/report/details.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/file.h"
#include "lib/base/json_string.h"
#include "lib/base/opt_json.h"
#include "lib/train/report/misses.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

/* ---- the parameters ---- */

static void add_parameter(struct gt_buf *b, const struct gt_slot *stored)
{
	const struct gt_slot plain = gt_slot_plain(stored), *slot = &plain;

	gt_buf_puts(b, b->length ? ",\n  {\"name\":" : "\n  {\"name\":");
	gt_buf_json(b, slot->name, strlen(slot->name));
	gt_buf_puts(b, ",\"shape\":[");
	for (int i = 0; i < slot->ndim; i++)
		gt_buf_printf(b, "%s%" PRId64, i ? "," : "", slot->shape[i]);
	gt_buf_printf(b, "],\"trained\":%s}", slot->role == GT_PARAMETER ? "true" : "false");
}

static void describe_parameters(struct gt_buf *b, const struct gt_store *store)
{
	for (size_t i = 0; i < store->slot_count; i++)
		if (gt_slot_is_weight(&store->slots[i]))
			add_parameter(b, &store->slots[i]);
}

/* ---- predictions ---- */

/* How many samples of a class were predicted as another one, or as the same. */
struct confusion {
	int32_t class, predicted;
	int64_t count;
};

static int by_classes(const void *x, const void *y)
{
	const struct confusion *a = x, *b = y;

	if (a->class != b->class)
		return a->class < b->class ? -1 : 1;
	return (a->predicted > b->predicted) - (a->predicted < b->predicted);
}

static int by_count(const void *x, const void *y)
{
	const struct confusion *a = x, *b = y;

	return a->count != b->count ? (a->count < b->count) - (a->count > b->count)
	                            : by_classes(x, y);
}

/* Return whether a sample has a class and a prediction. */
static bool is_predicted(const struct gt_predictions *p, int64_t i)
{
	return p->target[i] != GT_DATA_IGNORE && p->predicted[i * p->top] >= 0;
}

/* Count the samples of all pairs of a few classes. Return the number of pairs, in their order. A
 * class that the data do not have has no place in the matrix. */
static size_t count_pairs(struct confusion *out, const struct gt_predictions *p, int classes)
{
	int64_t counts[GT_DETAILS_MATRIX * GT_DETAILS_MATRIX] = { 0 };
	size_t n = 0;

	for (int64_t i = 0; i < p->count; i++) {
		int32_t class = p->target[i], predicted = p->predicted[i * p->top];

		if (is_predicted(p, i) && class >= 0 && class < classes && predicted < classes)
			counts[class * classes + predicted]++;
	}
	for (int pair = 0; pair < classes * classes; pair++)
		if (counts[pair])
			out[n++] =
			    (struct confusion){ pair / classes, pair % classes, counts[pair] };
	return n;
}

/* Count the wrong predictions of many classes. Return the number of pairs, the most frequent
 * first. */
static size_t count_confusions(struct confusion *out, const struct gt_predictions *p)
{
	size_t n = 0, kept = 0;

	for (int64_t i = 0; i < p->count; i++)
		if (is_predicted(p, i) && p->target[i] != p->predicted[i * p->top])
			out[n++] = (struct confusion){ p->target[i], p->predicted[i * p->top], 1 };
	qsort(out, n, sizeof(*out), by_classes);
	for (size_t i = 0; i < n; i++)
		if (kept && !by_classes(&out[kept - 1], &out[i]))
			out[kept - 1].count++;
		else
			out[kept++] = out[i];
	qsort(out, kept, sizeof(*out), by_count);
	return kept;
}

static int describe_pairs(
    struct gt_buf *b, const struct gt_predictions *p, int classes, struct gt_err *err)
{
	struct confusion *c = gt_calloc((size_t)p->count, sizeof(*c), err);
	size_t n;

	if (!c)
		return GT_ENOMEM;
	if (classes <= GT_DETAILS_MATRIX) {
		n = count_pairs(c, p, classes);
	} else {
		n = count_confusions(c, p);
		n = n < GT_DETAILS_PAIRS ? n : GT_DETAILS_PAIRS;
	}
	gt_buf_printf(b, ",\"classes\":%d,\"pairs\":[", classes);
	for (size_t i = 0; i < n; i++)
		gt_buf_printf(b, "%s[%d,%d,%" PRId64 "]", i ? "," : "", c[i].class, c[i].predicted,
		    c[i].count);
	gt_buf_puts(b, "]");
	free(c);
	return 0;
}

static int describe_miss(struct gt_buf *b, struct gt_dataset *data, const struct gt_predictions *p,
    int64_t sample, struct gt_err *err)
{
	const char *name = gt_dataset_sample_name(data, sample);
	double probability = (double)p->probability[sample * p->top];
	struct gt_buf png = { 0 };
	int rc = 0;

	gt_buf_puts(b, "\n  {\"sample\":");
	if (name)
		gt_buf_json(b, name, strlen(name));
	else
		gt_buf_printf(b, "%" PRId64, sample);
	gt_buf_printf(
	    b, ",\"class\":%d,\"predicted\":%d", p->target[sample], p->predicted[sample * p->top]);
	if (isfinite(probability))
		gt_buf_printf(b, ",\"probability\":%.6g", probability);
	if (gt_misses_are_images(data)) {
		rc = gt_misses_png(&png, data, sample, err);
		gt_buf_puts(b, ",\"png\":\"");
		gt_base64_add(b, png.text, png.length);
		gt_buf_puts(b, "\"");
		gt_buf_release(&png);
	}
	gt_buf_puts(b, "}");
	return rc;
}

static int describe_predictions(
    struct gt_buf *b, struct gt_dataset *data, const struct gt_predictions *p, struct gt_err *err)
{
	struct gt_misses misses = gt_misses_find(p);
	int rc = describe_pairs(b, p, gt_dataset_info(data)->form.classes, err);

	gt_buf_puts(b, ",\"misses\":[");
	for (int i = 0; !rc && i < misses.count; i++) {
		gt_buf_puts(b, i ? "," : "");
		rc = describe_miss(b, data, p, misses.samples[i], err);
	}
	gt_buf_puts(b, "]");
	return rc;
}

static int describe_evaluation(
    struct gt_buf *b, struct gt_dataset *data, const struct gt_eval_report *r, struct gt_err *err)
{
	int rc = 0;

	gt_buf_printf(b, "{\"step\":%" PRId64, r->step);
	if (r->predictions)
		rc = describe_predictions(b, data, r->predictions, err);
	if (r->text) {
		gt_buf_puts(b, ",\"prompt\":");
		gt_buf_json(b, r->text, r->prompt_bytes);
		gt_buf_puts(b, ",\"text\":");
		gt_buf_json(b, r->text + r->prompt_bytes, r->text_bytes - r->prompt_bytes);
	}
	gt_buf_puts(b, "}");
	return rc ? rc : gt_buf_check(b, err);
}

/* ---- the file ---- */

static int write_file(const struct gt_details *d, struct gt_err *err)
{
	char *path = gt_folder_path(d->folder, GT_RUN_DETAILS, err);
	struct gt_atomic_file f = { 0 };
	int rc =
	    path ? gt_atomic_open_at(&f, (struct gt_file_name){ d->folder, path }, err) : GT_ENOMEM;

	if (!rc) {
		f.no_sync = true;
		fprintf(f.stream, "{\"parameters\":[%s]", gt_buf_text(&d->parameters));
		if (d->evaluation.length)
			fprintf(f.stream, ",\n\"evaluation\":%s", gt_buf_text(&d->evaluation));
		fputs("}\n", f.stream);
		rc = gt_atomic_commit(&f, err);
	}
	gt_atomic_abandon(&f);
	free(path);
	return rc;
}

static void warn_once(struct gt_details *d, const struct gt_err *failed)
{
	if (!d->warned)
		gt_log_warn(d->log, "%s; the run goes on", failed->text);
	d->warned = true;
}

/* Keep the evaluation that an earlier part of the run has written. */
static void keep_evaluation(struct gt_details *d, int64_t step)
{
	json_t *old = NULL, *evaluation;
	char *text = NULL;

	gt_run_dir_read_json(&old, d->folder, GT_RUN_DETAILS, GT_ERR_IGNORED);
	evaluation = json_object_get(old, "evaluation");
	if (json_is_object(evaluation) &&
	    json_integer_value(json_object_get(evaluation, "step")) <= step)
		text = gt_json_dumps(evaluation, JSON_COMPACT);
	if (text)
		gt_buf_puts(&d->evaluation, text);
	free(text);
	json_decref(old);
}

/* ---- the observer ---- */

static int start_details(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_err failed = GT_ERR_INIT;
	struct gt_details *d = self;

	if (!r->dir->path) /* a run without files */
		return 0;
	d->folder = r->dir;
	describe_parameters(&d->parameters, d->t->s.store);
	if (r->step)
		keep_evaluation(d, r->step);
	if (gt_buf_check(&d->parameters, err))
		return GT_ENOMEM;
	if (write_file(d, &failed))
		warn_once(d, &failed);
	return 0;
}

static int write_best(void *self, const struct gt_eval_report *r, struct gt_err *err)
{
	struct gt_err failed = GT_ERR_INIT;
	struct gt_details *d = self;

	(void)err;
	if (!d->folder || !r->best || (!r->predictions && !r->text))
		return 0;
	gt_buf_cut(&d->evaluation, 0);
	if (describe_evaluation(&d->evaluation, d->t->val, r, &failed) || write_file(d, &failed))
		warn_once(d, &failed);
	return 0;
}

struct gt_observer gt_details_observer(struct gt_details *d)
{
	return (struct gt_observer){ .self = d, .start = start_details, .evaluated = write_best };
}

void gt_details_release(struct gt_details *d)
{
	gt_buf_release(&d->parameters);
	gt_buf_release(&d->evaluation);
}
