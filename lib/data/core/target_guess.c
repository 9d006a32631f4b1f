/* target_guess.c - whether whole numbers as targets are meant as classes. */
#include "lib/data/core/target_guess.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"

/*
 * Class i of C classes is the whole number i, and C is the largest number plus 1. Up to FEW
 * different numbers are taken as classes, unless more than half of the classes, and more than
 * FEW / 2, have no sample. More different numbers are taken as classes only if nearly each class
 * has a sample, and two samples on average:
 *
 *   0 1 2 1 0 2        3 of 3 classes       classes
 *   10 250 3000 10     3 of 3001 classes    neither: an error
 *   prices of houses   250 of 358601        numbers
 *   ages of people     60 of 90             numbers
 */
enum { FEW = 20, MANY = 10 /* classes that are worth a line */ };

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

bool gt_target_is_ignored(const struct gt_data_request *request, double value)
{
	return request->ignores && value == request->ignored;
}

int gt_target_summarize(struct gt_target_numbers *out, const double *values, size_t count,
    size_t step, const struct gt_data_request *request, struct gt_err *err)
{
	double *sorted = gt_calloc(count, sizeof(*sorted), err);

	*out = (struct gt_target_numbers){ 0 };
	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!gt_target_is_ignored(request, values[i * step]))
			sorted[out->count++] = values[i * step];
	qsort(sorted, out->count, sizeof(*sorted), compare_numbers);
	for (size_t i = 0; i < out->count; i++) {
		out->distinct += !i || sorted[i] != sorted[i - 1];
		out->fractions |= sorted[i] != floor(sorted[i]);
	}
	out->smallest = out->count ? sorted[0] : 0;
	out->largest = out->count ? sorted[out->count - 1] : 0;
	free(sorted);
	return 0;
}

/* Negative numbers cannot be classes. They count here as if classes began at the smallest. */
static double count_classes(const struct gt_target_numbers *n)
{
	return n->largest - (n->smallest < 0 ? n->smallest : 0) + 1;
}

enum gt_target_guess gt_target_guess(const struct gt_target_numbers *n)
{
	double classes = count_classes(n), distinct = (double)n->distinct;

	if (n->fractions)
		return GT_TARGET_NUMBERS;
	if (n->distinct <= FEW)
		return classes > 2 * distinct + FEW / 2 ? GT_TARGET_SPARSE : GT_TARGET_CLASSES;
	if (10 * (classes - distinct) > classes + 10 || 2 * n->distinct > n->count)
		return GT_TARGET_NUMBERS;
	return GT_TARGET_CLASSES;
}

const char *gt_target_describe_guess(const struct gt_target_numbers *n, char *text, size_t size)
{
	*text = '\0';
	if (n->fractions)
		snprintf(
		    text, size, "the target has fractions: regression, as with task=regression");
	else if (gt_target_guess(n) == GT_TARGET_NUMBERS)
		snprintf(text, size,
		    "the target has %zu different whole numbers, from %.15g to %.15g, in %zu "
		    "samples: regression, as with task=regression; task=classification makes "
		    "classes of them",
		    n->distinct, n->smallest, n->largest, n->count);
	else if (count_classes(n) > (double)n->distinct)
		snprintf(text, size,
		    "the target has %zu different whole numbers, from %.15g to %.15g: %.15g "
		    "classes, %.15g of them without a sample; task=regression predicts the number",
		    n->distinct, n->smallest, n->largest, n->largest + 1,
		    n->largest + 1 - (double)n->distinct);
	else if (n->distinct > MANY)
		snprintf(text, size,
		    "the target has %zu different whole numbers, from %.15g to %.15g: classes, as "
		    "with task=classification; task=regression predicts the number",
		    n->distinct, n->smallest, n->largest);
	return text;
}

int gt_target_fail_sparse(const struct gt_target_numbers *n, const char *column, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "%s: %zu different whole numbers from %.15g to %.15g are too far apart for classes, "
	    "which are numbered from 0",
	    column, n->distinct, n->smallest, n->largest);
	return gt_err_hint(err,
	    "task=regression predicts the number; for %zu classes, number them from 0 to %zu",
	    n->distinct, n->distinct - 1);
}
