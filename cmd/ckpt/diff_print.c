/* diff_print.c - findings of gtrain ckpt diff as text and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cmd/ckpt/diff.h"
#include "cmd/ckpt/value.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"

enum { SIDE_SIZE = 256, VALUE_SIZE = 72, CELL_SIZE = 2 * SIDE_SIZE + 200 };

static const char *const kinds[] = {
	[GT_DIFF_ONLY_A] = "only in A",
	[GT_DIFF_ONLY_B] = "only in B",
	[GT_DIFF_SHAPE] = "shape",
	[GT_DIFF_DTYPE] = "dtype",
	[GT_DIFF_NUMBERS] = "numbers",
	[GT_DIFF_VALUE] = "value",
};

/* ---- text ---- */

/* "float32 [3, 4]", or a value. */
static void print_side(
    char out[SIDE_SIZE], const struct gt_tree *value, const struct gt_tree_tensor *tensor)
{
	char dims[GT_CKPT_DIMS_SIZE];

	if (tensor) {
		gt_ckpt_print_dims(dims, tensor->shape, tensor->ndim);
		snprintf(out, SIDE_SIZE, "%s %.200s", gt_ckpt_tensor_type(tensor), dims);
	} else {
		gt_ckpt_print_value(out, VALUE_SIZE, value);
	}
}

static void print_numbers(char *out, size_t size, const struct gt_diff_row *row)
{
	size_t at;

	if (!row->differing) {
		snprintf(out, size, row->count ? "the numbers are the same" : "");
		return;
	}
	at = (size_t)snprintf(
	    out, size, "%" PRIu64 " of %" PRIu64 " differ", row->differing, row->count);
	if (row->differing > row->one_nan && !isnan(row->max_abs))
		at += (size_t)snprintf(out + at, size - at, ", by at most %.3g (relative: %.3g)",
		    row->max_abs, row->max_rel);
	if (row->one_nan)
		snprintf(out + at, size - at, "; %" PRIu64 " NaN on one side alone", row->one_nan);
}

static void print_cell(char cell[CELL_SIZE], const struct gt_diff_row *row)
{
	char a[SIDE_SIZE] = "", b[SIDE_SIZE] = "";
	size_t at;

	if (row->kind == GT_DIFF_NUMBERS) {
		print_numbers(cell, CELL_SIZE, row);
		return;
	}
	if (row->a || row->tensor_a)
		print_side(a, row->a, row->tensor_a);
	if (row->b || row->tensor_b)
		print_side(b, row->b, row->tensor_b);
	at = (size_t)snprintf(cell, CELL_SIZE, "%s%s%s", a, *a && *b ? " against " : "", b);
	if (row->kind != GT_DIFF_DTYPE)
		return;
	snprintf(cell + at, CELL_SIZE - at, "; ");
	print_numbers(cell + at + 2, CELL_SIZE - at - 2, row);
}

static void print_rows(FILE *out, const struct gt_diff *d)
{
	struct gt_table table = { .out = out };
	char cell[CELL_SIZE];

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		for (size_t i = 0; i < d->count; i++) {
			const char *key = d->rows[i].key;
			const char *cells[] = { kinds[d->rows[i].kind], *key ? key : "(the file)",
				cell };

			print_cell(cell, &d->rows[i]);
			gt_table_row(&table, cells, 3);
		}
	}
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

void gt_ckpt_diff_text(FILE *out, const struct gt_diff *d, const char *a, const char *b)
{
	if (!d->count) {
		fprintf(out, "the same: %zu tensor%s", d->tensors, plural(d->tensors));
		if (d->values)
			fprintf(out, ", %zu other value%s", d->values, plural(d->values));
		fputc('\n', out);
		return;
	}
	fputs("A: ", out);
	gt_log_put(out, a);
	fputs("\nB: ", out);
	gt_log_put(out, b);
	fputc('\n', out);
	print_rows(out, d);
	fprintf(out, "%zu difference%s; %zu tensor%s and %zu other value%s are in both\n", d->count,
	    plural(d->count), d->tensors, plural(d->tensors), d->values, plural(d->values));
}

/* ---- JSON ---- */

static void put_diff_tensor(FILE *out, const char *name, const struct gt_tree_tensor *t)
{
	fprintf(out, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [", name, gt_ckpt_tensor_type(t));
	for (int i = 0; i < t->ndim; i++)
		fprintf(out, "%s%" PRId64, i ? ", " : "", t->shape[i]);
	fputs("]}", out);
}

static void put_side(
    FILE *out, const char *name, const struct gt_tree *value, const struct gt_tree_tensor *tensor)
{
	if (tensor) {
		put_diff_tensor(out, name, tensor);
	} else if (value) {
		fprintf(out, ", \"%s\": ", name);
		gt_ckpt_json_value(out, value);
	}
}

static void put_row(FILE *out, const struct gt_diff_row *row)
{
	static const char *const words[] = {
		[GT_DIFF_ONLY_A] = "only_a",
		[GT_DIFF_ONLY_B] = "only_b",
		[GT_DIFF_SHAPE] = "shape",
		[GT_DIFF_DTYPE] = "dtype",
		[GT_DIFF_NUMBERS] = "numbers",
		[GT_DIFF_VALUE] = "value",
	};

	fprintf(out, "{\"kind\": \"%s\", \"key\": ", words[row->kind]);
	gt_json_text(out, row->key);
	put_side(out, "a", row->a, row->tensor_a);
	put_side(out, "b", row->b, row->tensor_b);
	if (row->count) {
		fprintf(out,
		    ", \"elements\": %" PRIu64 ", \"differing\": %" PRIu64 ", \"one_nan\": %" PRIu64
		    ", \"max_abs\": ",
		    row->count, row->differing, row->one_nan);
		gt_json_real(out, row->max_abs);
		fputs(", \"max_rel\": ", out);
		gt_json_real(out, row->max_rel);
	}
	fputc('}', out);
}

void gt_ckpt_diff_json(FILE *out, const struct gt_diff *d)
{
	fprintf(out, "{\"same\": %s, \"tensors\": %zu, \"values\": %zu, \"differences\": [",
	    d->count ? "false" : "true", d->tensors, d->values);
	for (size_t i = 0; i < d->count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		put_row(out, &d->rows[i]);
	}
	fputs("]}\n", out);
}
