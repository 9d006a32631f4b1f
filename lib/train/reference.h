/* reference.h - private: the reference of pairs of texts (lib/model/pairs.h), measured once. */
#ifndef GT_TRAIN_REFERENCE_H
#define GT_TRAIN_REFERENCE_H

#include "lib/base/folder.h"
#include "lib/train/state.h"

/*
 * The reference of a pair is its margin with the weights that a run begins with. So a new run
 * evaluates all pairs before its first step, and gives their margins to the data sets. The run
 * directory gets them as GT_RUN_REFERENCE, a safetensors file, from which a resumed run reads them:
 *
 *   data      float32 [samples]: those of {data}
 *   val       float32 [samples]: those of {val}, if there are any
 *   checksum  int64 [2]: gt_dataset_checksum() of both, 0 without {val}
 *
 * All functions do nothing for other data.
 */

/* Plan the evaluation of {data} by a new run; gt_train_plan() plans that of {val}. */
int gt_reference_plan(struct gt_train *t, struct gt_err *err);

/* Read the references of the run that t->ckpt is of: a collective call. Errors: GT_EINVAL if the
 * file is missing, or is of other pairs; GT_EFORMAT, GT_EIO. */
int gt_reference_read(struct gt_train *t, struct gt_err *err);

/* Measure the references of a new run: a collective call, before samples are read. */
int gt_reference_measure(struct gt_train *t, struct gt_err *err);

/* Write the file, unless the folder has one. */
int gt_reference_write(
    const struct gt_train *t, const struct gt_folder *folder, struct gt_err *err);

#endif
