/* csv_scale.c - statistics of columns of a table: mean, deviation, values for missing ones. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/data/csv.h"

/* The number of a row in column k, minus the offset of the column; the target is the column behind
 * the last. */
static double number_at(const struct gt_csv *c, int64_t row, int k)
{
	int columns = c->source.column_count;

	return k < columns ? (double)c->cells[(size_t)row * (size_t)columns + (size_t)k]
	                   : c->numbers[row];
}

/* The rows whose number in column k is not missing, in the order of `index`. */
struct present {
	int64_t *index; /* [count] */
	int64_t count;
};

static int find_present(struct present *out, const struct gt_csv *c, int k, const int64_t *index,
    int64_t count, struct gt_err *err)
{
	*out = (struct present){ .index = gt_calloc((size_t)count, sizeof(*index), err) };
	if (!out->index)
		return GT_ENOMEM;
	for (int64_t i = 0; i < count; i++)
		if (!isnan(number_at(c, index[i], k)))
			out->index[out->count++] = index[i];
	return 0;
}

/* Numbers are added relative to the first one: in a column that does not vary, all differences are
 * exactly 0. */
static double mean_from(const struct gt_csv *c, int k, const int64_t *index, int64_t count)
{
	double first = number_at(c, index[0], k), sum = 0;

	for (int64_t i = 0; i < count; i++)
		sum += number_at(c, index[i], k) - first;
	return sum / (double)count;
}

/* The standard deviation of numbers from first + mean. Squares of small ones would be 0, so
 * deviations are divided by a power of two that is near the largest. */
static double deviation_from(
    const struct gt_csv *c, int k, double mean, const int64_t *index, int64_t count)
{
	double first = number_at(c, index[0], k), largest = 0, square = 0;
	int exponent;

	for (int64_t i = 0; i < count; i++)
		largest = fmax(largest, fabs(number_at(c, index[i], k) - first - mean));
	frexp(largest, &exponent);
	for (int64_t i = 0; i < count; i++) {
		double d = ldexp(number_at(c, index[i], k) - first - mean, -exponent);

		square += d * d;
	}
	return ldexp(sqrt(square / (double)count), exponent);
}

/* The mean is rounded to 15 digits if this moves the features by no more than 1e-4. Rounding would
 * move them further where numbers are large and near each other (1.7e18, 1.7e18 + 256), and in a
 * column of one number such as 1e38: its deviation is 0. */
static double round_mean(double mean, double std)
{
	double rounded = gt_csv_round_digits(mean);

	return fabs(rounded - mean) <= 1e-4 * std ? rounded : mean;
}

/* A column that does not vary keeps its scale. */
static void fit_column(const struct gt_csv *c, struct gt_data_column *column, int k,
    const struct present *rows, bool scale)
{
	double first = number_at(c, rows->index[0], k);
	double mean = mean_from(c, k, rows->index, rows->count);
	double std = deviation_from(c, k, mean, rows->index, rows->count);

	column->fill = round_mean(column->offset + (first + mean), std);
	if (!scale)
		return;
	column->mean = column->fill;
	column->std = gt_csv_round_digits(std);
	if (!(column->std > 0) || column->std > FLT_MAX)
		column->std = 1;
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of a column. Of an even count of numbers, it is the mean of the two in the middle. */
static int find_median(const struct gt_csv *c, struct gt_data_column *column, int k,
    const struct present *rows, struct gt_err *err)
{
	double *sorted = gt_calloc((size_t)rows->count, sizeof(*sorted), err);
	size_t n = (size_t)rows->count;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = column->offset + number_at(c, rows->index[i], k);
	qsort(sorted, n, sizeof(*sorted), compare_numbers);
	column->fill =
	    gt_csv_round_digits(sorted[(n - 1) / 2] + (sorted[n / 2] - sorted[(n - 1) / 2]) / 2);
	free(sorted);
	return 0;
}

/* Without any number, the column keeps its scale, and a missing value becomes its mean. */
static int fit_numbers(
    struct gt_csv *c, int k, const int64_t *index, int64_t count, struct gt_err *err)
{
	struct gt_data_column *column = &c->source.columns[k];
	struct present rows;
	int rc = find_present(&rows, c, k, index, count, err);

	if (rc)
		return rc;
	column->filled = true;
	column->fill = column->mean;
	if (rows.count)
		fit_column(c, column, k, &rows, !c->known);
	if (rows.count && c->source.missing == GT_DATA_MISSING_MEDIAN)
		rc = find_median(c, column, k, &rows, err);
	free(rows.index);
	return rc;
}

int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err)
{
	struct gt_csv *c = (struct gt_csv *)self;
	struct present all = { (int64_t *)index, count };
	int rc = 0;

	for (int k = 0; k < self->column_count && !c->fitted && !rc; k++)
		if (!self->columns[k].count)
			rc = fit_numbers(c, k, index, count, err);
	if (!rc && self->info.regression && !c->target_known)
		fit_column(c, &self->target, self->column_count, &all, true);
	return rc;
}
