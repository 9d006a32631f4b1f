/* mnist_files.h - private: find the idx files of MNIST and its relatives. */
#ifndef GT_DATA_IMAGES_MNIST_FILES_H
#define GT_DATA_IMAGES_MNIST_FILES_H

#include <stdbool.h>

#include "lib/base/err.h"

enum gt_mnist_split { GT_MNIST_TRAIN, GT_MNIST_TEST, GT_MNIST_SPLITS };

/* Where the files are: the folder, and the beginning of their names. Zero it before use, and
 * release it with gt_mnist_files_release(). */
struct gt_mnist_files {
	char *folder; /* the folder that has the files: the user's, or one below it */
	char *front;  /* "", or for example "emnist-letters-" */
};

/*
 * Find the folder that has idx files: `folder` itself, or one of the folders below it into which
 * torchvision and the publishers' archives put them, such as MNIST/raw.
 *
 *   subset   of several data sets in one folder, the one with the name SUBSET or emnist-SUBSET;
 *            NULL: the one whose files have the plain names, or the only one
 *
 * If there are no idx files, out->folder is `folder`. Errors: GT_EINVAL (several folders or data
 * sets, an unknown subset), GT_ENOMEM.
 */
int gt_mnist_files_find(
    struct gt_mnist_files *out, const char *folder, const char *subset, struct gt_err *err);

/* Return the path of a file, which the caller frees with free(): of the images or the labels of a
 * split. If there is no such file, *exists is false, and the path is that of its usual name.
 * Errors: NULL, if memory ran out. */
char *gt_mnist_files_path(const struct gt_mnist_files *f, enum gt_mnist_split split, bool images,
    bool *exists, struct gt_err *err);

void gt_mnist_files_release(struct gt_mnist_files *f);

#endif
