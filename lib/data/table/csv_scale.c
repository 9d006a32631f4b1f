/* csv_scale.c - statistics of columns of a table: mean, deviation, values for missing ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/data/table/csv.h"

/* The numbers at a place in some rows; missing ones are left out. */
static int collect_numbers(double **out, size_t *count, const struct gt_csv *c, int place,
    const int64_t *index, int64_t rows, struct gt_err *err)
{
	*count = 0;
	*out = gt_calloc((size_t)rows, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	for (int64_t i = 0; i < rows; i++) {
		double x = c->cells[(size_t)index[i] * c->width + (size_t)place];

		if (!isnan(x))
			(*out)[(*count)++] = x;
	}
	return 0;
}

/* Mean and deviation. Numbers are added relative to the first one: in a column that does not vary,
 * all differences are exactly 0, and so is its deviation. Return false if the numbers vary, but the
 * squares of their deviations are too small for float64. */
static bool measure_column(const double *x, size_t count, double *mean, double *std)
{
	double sum = 0, square = 0;
	bool vary = false;

	for (size_t i = 0; i < count; i++) {
		sum += x[i] - x[0];
		vary |= x[i] != x[0];
	}
	sum /= (double)count;
	for (size_t i = 0; i < count; i++)
		square += (x[i] - x[0] - sum) * (x[i] - x[0] - sum);
	*std = sqrt(square / (double)count);
	*mean = x[0] + sum;
	return !vary || *std > 1e-150;
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

static int fail_column(const struct gt_data_column *column, int k, const char *why,
    const char *hint, struct gt_err *err)
{
	char number[12];

	snprintf(number, sizeof(number), "%d", k);
	gt_err_set(
	    err, GT_EFORMAT, "column '%.100s' %s", column->name ? column->name : number, why);
	return gt_err_hint(err, "%s", hint);
}

/* A column that does not vary keeps its scale. Without a number here, the training's mean replaces
 * missing values. */
static int fit_column(const struct gt_csv *c, struct gt_data_column *column, int k, bool scale,
    const int64_t *index, int64_t rows, struct gt_err *err)
{
	double *x, std = 0;
	bool measured = true;
	size_t count;

	if (collect_numbers(&x, &count, c, k, index, rows, err))
		return GT_ENOMEM;
	column->fill = column->mean;
	if (count)
		measured = measure_column(x, count, &column->fill, &std);
	if (count && scale) {
		column->mean = column->fill;
		column->std = std > 0 ? std : 1;
	}
	if (count && c->source.missing == GT_DATA_MISSING_MEDIAN)
		column->fill = find_median(x, count);
	free(x);
	if (!count && scale)
		return fail_column(column, k, "has no value in the rows to train on",
		    "leave the column out with skip=, or hold out fewer rows", err);
	return measured || !scale
	           ? 0
	           : fail_column(column, k, "has numbers too near each other to be standardized",
	                 "write the column in another unit", err);
}

int gt_csv_fit(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err)
{
	struct gt_csv *c = (struct gt_csv *)self;
	int rc = 0;

	for (int k = 0; k < self->column_count && !c->fitted && !rc; k++)
		if (!self->columns[k].count && !self->columns[k].whole) {
			self->columns[k].filled = true;
			rc = fit_column(c, &self->columns[k], k, !c->known, index, count, err);
		}
	if (!rc && self->info.form.target == GT_SAMPLE_NUMBER && !c->target_known)
		rc = fit_column(c, &self->target, self->column_count, true, index, count, err);
	return rc;
}
