/* loss.h - functions that the loss kernels of the CPU share. */
#ifndef GT_KERNELS_CPU_LOSS_H
#define GT_KERNELS_CPU_LOSS_H

#include <string.h>

#include "lib/base/mixed_target.h"
#include "lib/graph/fault.h"
#include "lib/graph/kernel.h"

/* sums of the op classify_stats */
enum { GT_STATS = 4 };

/* Check that the targets t[r * step] are less than `classes`. Negative ones are ignored. GT_EINVAL
 * names the first wrong one. */
static inline int gt_check_classes(
    const int32_t *t, int64_t rows, int64_t step, int64_t classes, struct gt_err *err)
{
	int64_t at = 0;
	int bad = 0;

#pragma omp simd reduction(| : bad)
	for (int64_t r = 0; r < rows; r++)
		bad |= t[r * step] >= classes;
	if (!bad)
		return 0;
	while (t[at * step] < classes)
		at++;
	return gt_fault_set(
	    err, &(struct gt_fault){ GT_FAULT_TARGET, { t[at * step], at, classes } });
}

/* The targets of all rows. */
struct gt_targets {
	const int32_t *data; /* [rows]; if mixed, [rows, GT_MIXED_TARGET_WORDS] */
	int64_t rows;
	bool mixed; /* each row has two classes and a weight (lib/base/mixed_target.h) */
};

/* Return the targets in a tensor, mixed if it has more elements than rows. */
static inline struct gt_targets gt_targets_of(const struct gt_tensor *target, int64_t rows)
{
	return (struct gt_targets){ target->data, rows, gt_tensor_elements(target) != rows };
}

/* Check all classes of the targets. */
static inline int gt_check_targets(const struct gt_targets *t, int64_t classes, struct gt_err *err)
{
	int rc;

	if (!t->mixed)
		return gt_check_classes(t->data, t->rows, 1, classes, err);
	rc = gt_check_classes(t->data, t->rows, GT_MIXED_TARGET_WORDS, classes, err);
	return rc ? rc
	          : gt_check_classes(t->data + 1, t->rows, GT_MIXED_TARGET_WORDS, classes, err);
}

/* A row's target. classes[1] is -1 if there is only one. */
struct gt_row_target {
	int64_t classes[2];
	double weights[2]; /* 0 if the class is negative */
	bool counts;       /* a class is not negative */
	/* weighed_target() in loss.inc sets these: the weight that is spread over all classes, and
	 * the sum of it and of `weights` */
	double spread, all;
};

/* Return the target of row r. */
static inline struct gt_row_target gt_row_target(const struct gt_targets *t, int64_t r)
{
	struct gt_row_target row = { { -1, -1 }, { 1, 0 }, false, 0, 0 };
	struct gt_mixed_target mixed;

	if (t->mixed) {
		memcpy(&mixed, t->data + r * GT_MIXED_TARGET_WORDS, sizeof(mixed));
		row = (struct gt_row_target){ { mixed.classes[0], mixed.classes[1] },
			{ (double)mixed.weight, 1 - (double)mixed.weight }, false, 0, 0 };
	} else {
		row.classes[0] = t->data[r];
	}
	for (int k = 0; k < 2; k++)
		row.weights[k] = row.classes[k] < 0 ? 0 : row.weights[k];
	row.counts = row.classes[0] >= 0 || row.classes[1] >= 0;
	return row;
}

/* Return whether class k is in [first, first + n), and not negative. */
static inline bool gt_class_in_range(const struct gt_row_target *t, int k, int64_t first, int64_t n)
{
	return t->classes[k] >= 0 && t->classes[k] >= first && t->classes[k] - first < n;
}

#endif
