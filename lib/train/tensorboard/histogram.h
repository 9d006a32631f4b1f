/* histogram.h - private: count numbers in buckets of equal width. */
#ifndef GT_TRAIN_TENSORBOARD_HISTOGRAM_H
#define GT_TRAIN_TENSORBOARD_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { GT_HISTOGRAM_BUCKETS = 30 }; /* as many as TensorBoard's own writer makes */

/* Numbers that are not finite do not count. A zeroed struct is empty. */
struct gt_histogram {
	int64_t finite;  /* numbers that gt_histogram_widen() has seen */
	double min, max; /* of these */
	int64_t counts[GT_HISTOGRAM_BUCKETS];
};

/* First let the range include all numbers, in any number of calls, then count all of them. */
void gt_histogram_widen(struct gt_histogram *h, const float *numbers, size_t count);
void gt_histogram_count(struct gt_histogram *h, const float *numbers, size_t count);

/* Write left edge, right edge and count of each bucket, the edges multiplied by `scale`. */
void gt_histogram_rows(
    double rows[GT_HISTOGRAM_BUCKETS][3], const struct gt_histogram *h, double scale);

#endif
