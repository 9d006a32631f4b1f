/* eval_report.c - the answers of a model to single samples, as text, JSON and CSV. */
#include "cmd/eval_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

enum { NUMBER = 24, MOST_COLUMNS = 10, FEWEST_LETTERS = 3 };

static int compare_pairs(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* ---- counts ---- */

/* A sample with a class, for the area under the ROC curve. */
struct scored {
	double margin;
	bool positive; /* the sample is of class 1 */
};

static int compare_margins(const void *a, const void *b)
{
	double x = ((const struct scored *)a)->margin, y = ((const struct scored *)b)->margin;

	return (x > y) - (x < y);
}

/* Go through groups of equal margins, the lowest first: a positive sample beats all negative ones
 * of the groups before, and half of those in its own. */
static double area_of(const struct scored *s, int64_t count)
{
	double beaten = 0, negative = 0, positive = 0;

	for (int64_t i = 0; i < count;) {
		double own[2] = { 0, 0 };
		int64_t first = i;

		for (; i < count && s[i].margin == s[first].margin; i++)
			own[s[i].positive]++;
		beaten += own[1] * (negative + own[0] / 2);
		negative += own[0];
		positive += own[1];
	}
	return beaten / negative / positive;
}

static int measure_area(
    struct gt_confusion *out, const struct gt_predictions *p, struct gt_err *err)
{
	struct scored *s = gt_calloc((size_t)p->count, sizeof(*s), err);
	int64_t count = 0;
	bool nan = false;

	if (!s)
		return GT_ENOMEM;
	for (int64_t i = 0; i < p->count; i++) {
		if (p->target[i] < 0)
			continue;
		s[count++] = (struct scored){ p->margin[i], p->target[i] == 1 };
		nan = nan || isnan(p->margin[i]);
	}
	if (!nan) {
		qsort(s, (size_t)count, sizeof(*s), compare_margins);
		out->roc_auc = area_of(s, count);
	}
	free(s);
	return 0;
}

/* Count the labels of sample i that hold, that are predicted, and that are both. */
static void count_labels(struct gt_confusion *out, const struct gt_predictions *p, int64_t i)
{
	for (int k = 0; k < p->top; k++) {
		int32_t label = p->predicted[i * p->top + k];
		bool predicted = label >= 0 && p->probability[i * p->top + k] > 0.5f;

		if (predicted) {
			out->predicted[label]++;
			out->right[label] += gt_predictions_label(p, i, label) == 1;
		}
	}
	for (int c = 0; c < p->labels; c++)
		out->samples[c] += gt_predictions_label(p, i, c) == 1;
}

static void count_class(struct gt_confusion *out, const struct gt_predictions *p, int64_t i)
{
	if (p->target[i] < 0) /* GT_DATA_IGNORE: the sample has no class */
		return;
	out->samples[p->target[i]]++;
	out->right[p->target[i]] += p->predicted[i] == p->target[i];
	if (p->predicted[i] < 0) /* a logit is NaN */
		return;
	out->predicted[p->predicted[i]]++;
	out->pairs[out->pair_count++] = (int64_t)p->target[i] * out->classes + p->predicted[i];
}

int gt_confusion_count(struct gt_confusion *out, const struct gt_eval *e, struct gt_err *err)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	int classes = gt_eval_data(e)->form.classes;

	*out = (struct gt_confusion){
		.eval = e, .classes = classes, .labels = p->labels > 0, .roc_auc = NAN
	};
	out->samples = gt_calloc((size_t)classes, sizeof(*out->samples), err);
	out->right = gt_calloc((size_t)classes, sizeof(*out->right), err);
	out->predicted = gt_calloc((size_t)classes, sizeof(*out->predicted), err);
	out->pairs = gt_calloc((size_t)p->count, sizeof(*out->pairs), err);
	if (!out->samples || !out->right || !out->predicted || !out->pairs)
		return GT_ENOMEM;
	for (int64_t i = 0; i < p->count; i++)
		(out->labels ? count_labels : count_class)(out, p, i);
	qsort(out->pairs, (size_t)out->pair_count, sizeof(*out->pairs), compare_pairs);
	return p->margin ? measure_area(out, p, err) : 0;
}

static double divide(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static struct gt_class_scores score(double right, double samples, double predicted)
{
	return (struct gt_class_scores){ divide(right, predicted), divide(right, samples),
		divide(2 * right, predicted + samples) };
}

struct gt_class_scores gt_confusion_scores(const struct gt_confusion *c, int class)
{
	return score(
	    (double)c->right[class], (double)c->samples[class], (double)c->predicted[class]);
}

struct gt_class_scores gt_confusion_micro(const struct gt_confusion *c)
{
	double right = 0, samples = 0, predicted = 0;

	for (int i = 0; i < c->classes; i++) {
		right += (double)c->right[i];
		samples += (double)c->samples[i];
		predicted += (double)c->predicted[i];
	}
	return score(right, samples, predicted);
}

static bool is_met(const struct gt_confusion *c, int class)
{
	return c->labels || c->samples[class] || c->predicted[class];
}

struct gt_class_scores gt_confusion_macro(const struct gt_confusion *c)
{
	struct gt_class_scores sum = { 0 };
	int count = 0;

	for (int i = 0; i < c->classes; i++) {
		struct gt_class_scores own = gt_confusion_scores(c, i);

		sum.precision += own.precision;
		sum.recall += own.recall;
		sum.f1 += own.f1;
		count += is_met(c, i);
	}
	return (struct gt_class_scores){ divide(sum.precision, count), divide(sum.recall, count),
		divide(sum.f1, count) };
}

void gt_confusion_release(struct gt_confusion *c)
{
	free(c->samples);
	free(c->right);
	free(c->predicted);
	free(c->pairs);
	c->samples = c->right = c->predicted = c->pairs = NULL;
}

/* Return how many samples have the pair at pairs[*at], and move *at behind them. */
static int64_t count_equal(const struct gt_confusion *c, int64_t *at)
{
	int64_t first = *at;

	while (*at < c->pair_count && c->pairs[*at] == c->pairs[first])
		++*at;
	return *at - first;
}

/* Write row `class` of the matrix to row[classes]. Its pairs begin at *at, which moves behind
 * them. */
static void fill_row(int64_t *row, const struct gt_confusion *c, int class, int64_t *at)
{
	memset(row, 0, (size_t)c->classes * sizeof(*row));
	while (*at < c->pair_count && c->pairs[*at] / c->classes == class) {
		int predicted = (int)(c->pairs[*at] % c->classes);

		row[predicted] = count_equal(c, at);
	}
}

/* ---- text ---- */

enum { CLASS_COLUMNS = 6 };

/* Measure or print a row of the table of classes. */
static void put_scores(struct gt_table *table, const char *name, int64_t samples, int64_t right,
    struct gt_class_scores scores)
{
	const double shares[] = { scores.precision, scores.recall, scores.f1 };
	char numbers[CLASS_COLUMNS][NUMBER];
	const char *cells[CLASS_COLUMNS] = { name };

	snprintf(numbers[1], NUMBER, "%" PRId64, samples);
	snprintf(numbers[2], NUMBER, "%" PRId64, right);
	for (int k = 0; k < 3; k++)
		snprintf(numbers[3 + k], NUMBER, "%.2f %%", 100 * shares[k]);
	for (int k = 1; k < CLASS_COLUMNS; k++)
		cells[k] = numbers[k];
	gt_table_row(table, cells, CLASS_COLUMNS);
}

static void put_classes(struct gt_table *table, const struct gt_confusion *c)
{
	static const char *const title[] = { "class", "samples", "right", "precision", "recall",
		"F1" };
	static const char *const label_title[] = { "label", "samples", "right", "precision",
		"recall", "F1" };
	int64_t samples = 0, right = 0;
	char number[16];

	gt_table_row(table, c->labels ? label_title : title, CLASS_COLUMNS);
	for (int i = 0; i < c->classes; i++) {
		samples += c->samples[i];
		right += c->right[i];
		if (is_met(c, i))
			put_scores(table, gt_eval_class_name(c->eval, i, number), c->samples[i],
			    c->right[i], gt_confusion_scores(c, i));
	}
	put_scores(table, "macro average", samples, right, gt_confusion_macro(c));
	if (c->labels)
		put_scores(table, "micro average", samples, right, gt_confusion_micro(c));
}

void gt_confusion_print_classes(FILE *out, const struct gt_confusion *c)
{
	struct gt_table table = { .out = out, .right = { false, true, true, true, true, true } };

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		put_classes(&table, c);
	}
	if (c->classes == 2 && !c->labels)
		fprintf(out, "area under the ROC curve %.6f\n", gt_text_real(c->roc_auc));
}

/* Measure or print the matrix. Names above the columns have `letters` characters at most. */
static void put_matrix(struct gt_table *table, const struct gt_confusion *c, size_t letters)
{
	char heads[MOST_COLUMNS][4 * GT_TABLE_WIDEST], numbers[MOST_COLUMNS][NUMBER], name[16];
	const char *cells[1 + MOST_COLUMNS] = { "class \\ predicted" };
	int64_t row[MOST_COLUMNS], at = 0;

	for (int k = 0; k < c->classes; k++) {
		gt_table_cut(
		    heads[k], sizeof(heads[k]), gt_eval_class_name(c->eval, k, name), letters);
		cells[1 + k] = heads[k];
	}
	gt_table_row(table, cells, (size_t)c->classes + 1);
	for (int i = 0; i < c->classes; i++) {
		cells[0] = gt_eval_class_name(c->eval, i, name);
		fill_row(row, c, i, &at);
		for (int k = 0; k < c->classes; k++) {
			snprintf(numbers[k], NUMBER, "%" PRId64, row[k]);
			cells[1 + k] = numbers[k];
		}
		gt_table_row(table, cells, (size_t)c->classes + 1);
	}
}

/* Rows are the right classes, columns the predicted ones. Names are cut as far as needed. */
static void print_matrix(FILE *out, const struct gt_confusion *c, size_t columns)
{
	struct gt_table table;
	size_t letters = GT_TABLE_WIDEST;

	for (;; letters--) {
		table = (struct gt_table){ .out = out, .measuring = true };
		for (int k = 0; k < c->classes; k++)
			table.right[1 + k] = true;
		put_matrix(&table, c, letters);
		if (!columns || letters <= FEWEST_LETTERS ||
		    gt_table_total(&table, (size_t)c->classes + 1) <= columns)
			break;
	}
	table.measuring = false;
	put_matrix(&table, c, letters);
}

static void print_pairs(FILE *out, const struct gt_confusion *c)
{
	struct gt_table table = { .out = out, .right = { false, false, true } };
	const char *const title[] = { "class", "taken for", "samples" };
	char a[16], b[16], n[NUMBER];

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		gt_table_row(&table, title, 3);
		for (int64_t at = 0; at < c->pair_count;) {
			int i = (int)(c->pairs[at] / c->classes);
			int k = (int)(c->pairs[at] % c->classes);
			const char *cells[] = { gt_eval_class_name(c->eval, i, a),
				gt_eval_class_name(c->eval, k, b), n };

			snprintf(n, sizeof(n), "%" PRId64, count_equal(c, &at));
			if (i != k)
				gt_table_row(&table, cells, 3);
		}
	}
}

void gt_confusion_print(FILE *out, const struct gt_confusion *c, size_t columns)
{
	if (c->classes <= MOST_COLUMNS)
		print_matrix(out, c, columns);
	else
		print_pairs(out, c);
}

/* ---- JSON ---- */

/* The perplexity of a finite loss may be beyond a double. */
json_t *gt_metrics_json(const struct gt_metrics *m)
{
	if (m->only_loss)
		return json_pack(
		    "{s:o,s:I}", "loss", gt_json_number(m->loss), "n", (json_int_t)m->n);
	if (m->target == GT_SAMPLE_NUMBER)
		return json_pack("{s:o,s:o,s:o,s:o,s:I}", "loss", gt_json_number(m->loss), "mse",
		    gt_json_number(m->mse), "mae", gt_json_number(m->mae), "r2",
		    gt_json_number(m->r2), "n", (json_int_t)m->n);
	if (m->target == GT_SAMPLE_LABELS)
		return json_pack("{s:o,s:f,s:f,s:f,s:f,s:I}", "loss", gt_json_number(m->loss),
		    "accuracy", m->accuracy, "precision", m->precision, "recall", m->recall, "f1",
		    m->f1, "n", (json_int_t)m->n);
	return json_pack("{s:o,s:f,s:f,s:o,s:I}", "loss", gt_json_number(m->loss), "top1", m->top1,
	    "top5", m->top5, "perplexity", gt_json_number(m->perplexity), "n", (json_int_t)m->n);
}

static int append_json(json_t *list, json_t *value)
{
	return list && value ? json_array_append_new(list, value) : -1;
}

static json_t *class_json(const struct gt_confusion *c, int class)
{
	struct gt_class_scores scores = gt_confusion_scores(c, class);
	char number[16];
	const char *name = gt_eval_class_name(c->eval, class, number);

	return json_pack("{s:o,s:I,s:I,s:I,s:f,s:f,s:f}", "class",
	    gt_json_string_value(name, strlen(name)), "n", (json_int_t)c->samples[class], "right",
	    (json_int_t)c->right[class], "predicted", (json_int_t)c->predicted[class], "precision",
	    scores.precision, "recall", scores.recall, "f1", scores.f1);
}

json_t *gt_confusion_classes_json(const struct gt_confusion *c)
{
	json_t *list = json_array();

	for (int i = 0; list && i < c->classes; i++)
		if (append_json(list, class_json(c, i))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *scores_json(struct gt_class_scores s)
{
	return json_pack("{s:f,s:f,s:f}", "precision", s.precision, "recall", s.recall, "f1", s.f1);
}

int gt_confusion_add_scores(json_t *document, const struct gt_confusion *c)
{
	int rc = json_object_set_new(document, "classes", gt_confusion_classes_json(c));

	rc |= json_object_set_new(document, "macro", scores_json(gt_confusion_macro(c)));
	if (c->labels)
		rc |= json_object_set_new(document, "micro", scores_json(gt_confusion_micro(c)));
	if (c->classes == 2 && !c->labels)
		rc |= json_object_set_new(document, "roc_auc", gt_json_number(c->roc_auc));
	return rc ? -1 : 0;
}

static json_t *numbers_json(const int64_t *numbers, int count)
{
	json_t *list = json_array();

	for (int i = 0; list && i < count; i++)
		if (append_json(list, json_integer((json_int_t)numbers[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

json_t *gt_confusion_json(const struct gt_confusion *c)
{
	int64_t *row = gt_calloc((size_t)c->classes, sizeof(*row), GT_ERR_IGNORED), at = 0;
	json_t *rows = row ? json_array() : NULL;

	for (int i = 0; rows && i < c->classes; i++) {
		fill_row(row, c, i, &at);
		if (append_json(rows, numbers_json(row, c->classes))) {
			json_decref(rows);
			rows = NULL;
		}
	}
	free(row);
	return rows;
}

/* ---- CSV ---- */

/* The name of a sample, or its number. */
static void put_name(FILE *out, const struct gt_eval *e, int64_t i)
{
	const char *name = gt_eval_sample_name(e, i);

	if (name)
		gt_csv_field(out, name);
	else
		fprintf(out, "%" PRId64, i);
	fputc(',', out);
}

static void put_number(FILE *out, const struct gt_eval *e, int64_t i)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	int digits = gt_predictions_digits(p);
	char text[GT_TEXT_SIZE];
	double number;
	float scaled;

	put_name(out, e, i);
	memcpy(&scaled, &p->target[i], sizeof(scaled));
	if (gt_eval_number(e, i, &number))
		fputs(gt_text_number(text, number), out);
	else
		fprintf(out, "%.*g", digits, (double)scaled * p->target_std + p->target_mean);
	fprintf(out, ",%.*g\n", digits, gt_text_real((double)p->value[i]));
}

static void put_sample(FILE *out, const struct gt_eval *e, int64_t i)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	char number[16];

	put_name(out, e, i);
	gt_csv_field(out, gt_eval_class_name(e, p->target[i], number));
	fputc(',', out);
	if (p->predicted[i] >= 0)
		gt_csv_field(out, gt_eval_class_name(e, p->predicted[i], number));
	fprintf(out, ",%.6g\n", gt_text_real((double)p->probability[i]));
}

/* A line for each label, the likeliest first; where a logit is NaN, in their own order. */
static void put_labels(FILE *out, const struct gt_eval *e, int64_t i)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	char number[16];

	for (int k = 0; k < p->top; k++) {
		int32_t best = p->predicted[i * p->top + k];
		int c = best < 0 ? k : best;

		put_name(out, e, i);
		gt_csv_field(out, gt_eval_class_name(e, c, number));
		fprintf(out, ",%g,%.6g\n", (double)gt_predictions_label(p, i, c),
		    gt_text_real((double)p->probability[i * p->top + k]));
	}
}

int gt_predictions_write(struct gt_atomic_file *file, const struct gt_eval *e, struct gt_err *err)
{
	const struct gt_predictions *p = gt_eval_predictions(e);

	fputs(p->value    ? "sample,target,predicted\n"
	      : p->labels ? "sample,label,target,probability\n"
	                  : "sample,class,predicted,probability\n",
	    file->stream);
	for (int64_t i = 0; i < p->count; i++)
		if (!gt_eval_is_damaged(e, i))
			(p->value       ? put_number
			    : p->labels ? put_labels
			                : put_sample)(file->stream, e, i);
	return gt_atomic_commit(file, err);
}
