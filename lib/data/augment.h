/* augment.h - augmentation of training images: NAME[:key=value[:key=value]],... */
#ifndef GT_DATA_AUGMENT_H
#define GT_DATA_AUGMENT_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/setting.h"

/*
 * Each augmentation is a row of the table in augment.c. Augmentations are applied in the order of
 * these rows, not of the list. Random numbers depend only on (seed, sample, epoch), so the result
 * is the same for every rank, worker or step that reads the image; those of mixup, which acts on
 * batches, depend on (seed, epoch, batch, rank).
 *
 *   rrc     torchvision's RandomResizedCrop: a random part, resized to the size of the data set.
 *           For images in files, the part is taken from the whole picture (rrc.c).
 *   crop    Pad with 4 zero pixels on each side (an eighth of the width from 64 pixels on), and
 *           crop back at a random place.
 *   flip    Mirror left to right with probability 1/2.
 *   jitter  torchvision's ColorJitter, with its arithmetic for PIL images: on bytes, each of the
 *           four adjustments rounded to bytes, in a random order (jitter.c). For grey images only
 *           brightness and contrast change.
 *   mixup   torchvision's RandomMixup: the loader mixes the images of a batch with each other. The
 *           rows above have changed them before (mixup.c). For images with classes.
 */
enum gt_augmentation {
	GT_AUGMENT_RRC,
	GT_AUGMENT_CROP,
	GT_AUGMENT_FLIP,
	GT_AUGMENT_JITTER,
	GT_AUGMENT_MIXUP,
	GT_AUGMENTATIONS
};

struct gt_data_info;

enum { GT_AUGMENT_SETTINGS = 4 }; /* limit of settings per augmentation */

/* A parsed list; {0} changes nothing. */
struct gt_augment {
	bool chosen[GT_AUGMENTATIONS];
	/* Values of the settings of chosen augmentations, in the order of gt_augment_form(). */
	double value[GT_AUGMENTATIONS][GT_AUGMENT_SETTINGS];
};

/* Parse `crop,flip,jitter:hue=0.1`, `none` or ``. Errors: GT_EINVAL. */
int gt_augment_parse(struct gt_augment *out, const char *list, struct gt_err *err);

/* Whether anything is chosen. */
bool gt_augment_any(const struct gt_augment *a);

/* Whether batches are mixtures: see struct gt_batch. */
bool gt_augment_mixes(const struct gt_augment *a);

/* Check that these augmentations can be applied to samples of this form. Errors: GT_EINVAL. */
int gt_augment_check(
    const struct gt_augment *a, const struct gt_data_info *info, struct gt_err *err);

/* How an augmentation is written. */
struct gt_augment_form {
	const char *name;
	const char *summary;               /* half a line: lower case, no full stop */
	const struct gt_setting *settings; /* numbers; ended by a row without help */
	const char *example;
};

/* The form of row i of the table, or NULL after the last. */
const struct gt_augment_form *gt_augment_form(int i);

#endif
