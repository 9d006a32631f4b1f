/* misclassified.h - private: show the images that a model takes for another class. */
#ifndef GT_TRAIN_TENSORBOARD_MISCLASSIFIED_H
#define GT_TRAIN_TENSORBOARD_MISCLASSIFIED_H

#include "lib/train/evaluate.h"
#include "lib/train/tensorboard/events.h"

/* Write the wrong predictions with the highest probability (gt_misses_find()): the images under the
 * tag "misclassified/images", and a table of their classes under "misclassified/table". For data
 * sets of images; nothing is written for others. */
int gt_misclassified_write(struct gt_events *e, int64_t step, struct gt_dataset *data,
    const struct gt_predictions *p, struct gt_err *err);

#endif
