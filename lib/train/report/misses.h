/* misses.h - the samples that a model takes for another class, and their images. */
#ifndef GT_TRAIN_REPORT_MISSES_H
#define GT_TRAIN_REPORT_MISSES_H

#include "lib/base/buf.h"
#include "lib/train/evaluate.h"

enum { GT_MISSES_MAX = 8 };

/* Wrong predictions of an evaluation: the numbers of samples. */
struct gt_misses {
	int64_t samples[GT_MISSES_MAX];
	int count;
};

/* Return the wrong predictions with the highest probability, in descending order. There are none if
 * samples do not have one class. */
struct gt_misses gt_misses_find(const struct gt_predictions *p);

/* Return whether a sample of the data is one image. */
bool gt_misses_are_images(const struct gt_dataset *data);

/* Append the image of a sample, as the model reads it, in the format PNG. */
int gt_misses_png(struct gt_buf *out, struct gt_dataset *data, int64_t sample, struct gt_err *err);

#endif
