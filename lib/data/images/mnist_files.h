/* mnist_files.h - private: find the idx files of MNIST and its relatives. */
#ifndef GT_DATA_IMAGES_MNIST_FILES_H
#define GT_DATA_IMAGES_MNIST_FILES_H

#include <stdbool.h>

#include "lib/base/err.h"

enum gt_mnist_split { GT_MNIST_TRAIN, GT_MNIST_TEST, GT_MNIST_SPLITS };

/* The folder of the files, and the beginning of their names. Zero it before use. */
struct gt_mnist_files {
	char *folder; /* the user's folder, or one below it */
	char *front;  /* "", or for example "emnist-letters-" */
};

/* Find idx files in `folder`, or below it where torchvision and publishers put them (MNIST/raw).
 * `subset` chooses one of several data sets: SUBSET or emnist-SUBSET; NULL: the plain names, or the
 * only one. Without files, out->folder is `folder`. Errors: GT_EINVAL. */
int gt_mnist_files_find(
    struct gt_mnist_files *out, const char *folder, const char *subset, struct gt_err *err);

/* Return the path of the images or labels of a split, which the caller frees; it is the usual one
 * if !*exists. */
char *gt_mnist_files_path(const struct gt_mnist_files *f, enum gt_mnist_split split, bool images,
    bool *exists, struct gt_err *err);

void gt_mnist_files_release(struct gt_mnist_files *f);

#endif
