/* csv_scale.c - statistics of columns of a table: mean, deviation, values for missing ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* The numbers of a column, or of the target, in some rows; missing ones are left out. */
static int collect_numbers(double **out, size_t *count, const struct gt_csv *c, int column,
    const int64_t *index, int64_t rows, struct gt_err *err)
{
	size_t columns = (size_t)c->source.column_count;

	*count = 0;
	*out = gt_calloc((size_t)rows, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	for (int64_t i = 0; i < rows; i++) {
		size_t row = (size_t)index[i];
		double x = column < (int)columns ? c->cells[row * columns + (size_t)column]
		                                 : c->numbers[row];

		if (!isnan(x))
			(*out)[(*count)++] = x;
	}
	return 0;
}

/* Mean and deviation. Numbers are added relative to the first one: in a column that does not vary,
 * all differences are exactly 0, and so is its deviation. Deviations are divided by a power of two
 * near the largest, as the squares of small ones would be 0. */
static void measure_column(const double *x, size_t count, double *mean, double *std)
{
	double sum = 0, largest = 0, square = 0;
	int exponent;

	for (size_t i = 0; i < count; i++)
		sum += x[i] - x[0];
	sum /= (double)count;
	for (size_t i = 0; i < count; i++)
		largest = fmax(largest, fabs(x[i] - x[0] - sum));
	frexp(largest, &exponent);
	for (size_t i = 0; i < count; i++) {
		double d = ldexp(x[i] - x[0] - sum, -exponent);

		square += d * d;
	}
	*std = ldexp(sqrt(square / (double)count), exponent);
	*mean = x[0] + sum;
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median; of an even count of numbers, the mean of the two in the middle. Sorts x. */
static double find_median(double *x, size_t count)
{
	double low, high;

	qsort(x, count, sizeof(*x), compare_numbers);
	low = x[(count - 1) / 2];
	high = x[count / 2];
	return low + (high - low) / 2;
}

static int fail_no_number(
    const struct gt_data_column *column, int k, int64_t rows, struct gt_err *err)
{
	char number[12];

	snprintf(number, sizeof(number), "%d", k);
	gt_err_set(err, GT_EFORMAT, "column '%.100s' has no value in the %lld rows to train on",
	    column->name ? column->name : number, (long long)rows);
	return gt_err_hint(err, "leave the column out with skip=, or hold out fewer rows");
}

/* A column that does not vary keeps its scale. Without a number here, the training's mean replaces
 * missing values. */
static int fit_column(const struct gt_csv *c, struct gt_data_column *column, int k, bool scale,
    const int64_t *index, int64_t rows, struct gt_err *err)
{
	double *x, std = 0;
	size_t count;

	if (collect_numbers(&x, &count, c, k, index, rows, err))
		return GT_ENOMEM;
	if (!count && scale) {
		free(x);
		return fail_no_number(column, k, rows, err);
	}
	column->fill = column->mean;
	if (count)
		measure_column(x, count, &column->fill, &std);
	if (count && scale) {
		column->mean = column->fill;
		column->std = std > 0 ? std : 1;
	}
	if (count && c->source.missing == GT_DATA_MISSING_MEDIAN)
		column->fill = find_median(x, count);
	free(x);
	return 0;
}

int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err)
{
	struct gt_csv *c = (struct gt_csv *)self;
	int rc = 0;

	for (int k = 0; k < self->column_count && !c->fitted && !rc; k++)
		if (!self->columns[k].count) {
			self->columns[k].filled = true;
			rc = fit_column(c, &self->columns[k], k, !c->known, index, count, err);
		}
	if (!rc && self->info.form.target == GT_SAMPLE_NUMBER && !c->target_known)
		rc = fit_column(c, &self->target, self->column_count, true, index, count, err);
	return rc;
}
