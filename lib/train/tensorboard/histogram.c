/* histogram.c - buckets between the smallest and the largest number. */
#include "lib/train/tensorboard/histogram.h"

#include <math.h>

void gt_histogram_widen(struct gt_histogram *h, const float *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double x = (double)numbers[i];

		if (!isfinite(x))
			continue;
		if (!h->finite || x < h->min)
			h->min = x;
		if (!h->finite || x > h->max)
			h->max = x;
		h->finite++;
	}
}

/* The largest number belongs to the last bucket; so do all numbers if they are equal. */
void gt_histogram_count(struct gt_histogram *h, const float *numbers, size_t count)
{
	const double per_unit = GT_HISTOGRAM_BUCKETS / (h->max - h->min);

	for (size_t i = 0; i < count; i++) {
		double x = (double)numbers[i];
		int bucket = GT_HISTOGRAM_BUCKETS - 1;

		if (!isfinite(x))
			continue;
		if (x < h->max)
			bucket = (int)((x - h->min) * per_unit);
		h->counts[bucket < GT_HISTOGRAM_BUCKETS ? bucket : GT_HISTOGRAM_BUCKETS - 1]++;
	}
}

void gt_histogram_rows(
    double rows[GT_HISTOGRAM_BUCKETS][3], const struct gt_histogram *h, double scale)
{
	const double width = (h->max - h->min) / GT_HISTOGRAM_BUCKETS;

	for (int i = 0; i < GT_HISTOGRAM_BUCKETS; i++) {
		rows[i][0] = scale * (h->min + i * width);
		rows[i][1] = scale * (h->min + (i + 1) * width);
		rows[i][2] = (double)h->counts[i];
	}
	rows[GT_HISTOGRAM_BUCKETS - 1][1] = scale * h->max; /* without the error of rounding */
}
