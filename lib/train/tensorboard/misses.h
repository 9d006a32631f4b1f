/* misses.h - private: show the images that a model takes for another class. */
#ifndef GT_TRAIN_TENSORBOARD_MISSES_H
#define GT_TRAIN_TENSORBOARD_MISSES_H

#include "lib/train/evaluate.h"
#include "lib/train/tensorboard/events.h"

enum { GT_MISSES_MAX = 8 };

/* Write the wrong predictions with the highest probability, at most GT_MISSES_MAX: the images under
 * the tag "misclassified/images", and a table of their classes under "misclassified/table". For
 * data sets of images; nothing is written for others. */
int gt_misses_write(struct gt_events *e, int64_t step, struct gt_dataset *data,
    const struct gt_predictions *p, struct gt_err *err);

#endif
