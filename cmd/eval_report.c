/* eval_report.c - the answers of a model to single samples, as text, JSON and CSV. */
#include "cmd/eval_report.h"

#include <inttypes.h>
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

int gt_confusion_count(struct gt_confusion *out, const struct gt_eval *e, struct gt_err *err)
{
	const struct gt_predictions *p = gt_eval_predictions(e);
	int classes = gt_eval_data(e)->form.classes;

	*out = (struct gt_confusion){ .eval = e, .classes = classes };
	out->samples = gt_calloc((size_t)classes, sizeof(*out->samples), err);
	out->right = gt_calloc((size_t)classes, sizeof(*out->right), err);
	out->pairs = gt_calloc((size_t)p->count, sizeof(*out->pairs), err);
	if (!out->samples || !out->right || !out->pairs)
		return GT_ENOMEM;
	for (int64_t i = 0; i < p->count; i++) {
		if (p->target[i] < 0) /* GT_DATA_IGNORE: the sample has no class */
			continue;
		out->samples[p->target[i]]++;
		out->right[p->target[i]] += p->predicted[i] == p->target[i];
		if (p->predicted[i] >= 0)
			out->pairs[out->pair_count++] =
			    (int64_t)p->target[i] * classes + p->predicted[i];
	}
	qsort(out->pairs, (size_t)out->pair_count, sizeof(*out->pairs), compare_pairs);
	return 0;
}

void gt_confusion_release(struct gt_confusion *c)
{
	free(c->samples);
	free(c->right);
	free(c->pairs);
	c->samples = c->right = c->pairs = NULL;
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

void gt_confusion_print_classes(FILE *out, const struct gt_confusion *c)
{
	struct gt_table table = { .out = out, .right = { false, true, true, true } };
	char number[16], n[NUMBER], right[NUMBER], share[NUMBER];
	const char *const title[] = { "class", "samples", "right", "top-1" };

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		gt_table_row(&table, title, 4);
		for (int i = 0; i < c->classes; i++) {
			const char *cells[] = { gt_eval_class_name(c->eval, i, number), n, right,
				share };

			if (!c->samples[i])
				continue;
			snprintf(n, sizeof(n), "%" PRId64, c->samples[i]);
			snprintf(right, sizeof(right), "%" PRId64, c->right[i]);
			snprintf(share, sizeof(share), "%.2f %%",
			    100 * (double)c->right[i] / (double)c->samples[i]);
			gt_table_row(&table, cells, 4);
		}
	}
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
	if (m->regression)
		return json_pack("{s:o,s:o,s:o,s:o,s:I}", "loss", gt_json_number(m->loss), "mse",
		    gt_json_number(m->mse), "mae", gt_json_number(m->mae), "r2",
		    gt_json_number(m->r2), "n", (json_int_t)m->n);
	return json_pack("{s:o,s:f,s:f,s:o,s:I}", "loss", gt_json_number(m->loss), "top1", m->top1,
	    "top5", m->top5, "perplexity", gt_json_number(m->perplexity), "n", (json_int_t)m->n);
}

static int append_json(json_t *list, json_t *value)
{
	return list && value ? json_array_append_new(list, value) : -1;
}

json_t *gt_confusion_classes_json(const struct gt_confusion *c)
{
	json_t *list = json_array();
	char number[16];

	for (int i = 0; list && i < c->classes; i++) {
		const char *name = gt_eval_class_name(c->eval, i, number);

		if (append_json(
		        list, json_pack("{s:o,s:I,s:I}", "class",
		                  gt_json_string_value(name, strlen(name)), "n",
		                  (json_int_t)c->samples[i], "right", (json_int_t)c->right[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
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

int gt_predictions_write(struct gt_atomic_file *file, const struct gt_eval *e, struct gt_err *err)
{
	const struct gt_predictions *p = gt_eval_predictions(e);

	fputs(p->value ? "sample,target,predicted\n" : "sample,class,predicted,probability\n",
	    file->stream);
	for (int64_t i = 0; i < p->count; i++)
		if (!gt_eval_is_damaged(e, i))
			(p->value ? put_number : put_sample)(file->stream, e, i);
	return gt_atomic_commit(file, err);
}
