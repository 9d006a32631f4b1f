/* augment.h - augmentation of training images: NAME[:key=value[:key=value]],... */
#ifndef GT_DATA_IMAGES_AUGMENT_H
#define GT_DATA_IMAGES_AUGMENT_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/setting.h"

/*
 * Each augmentation is a row of the table in augment.c. The order of the user's list does not
 * matter: augmentations are always applied in the order below.
 *
 * Random numbers depend only on (seed, sample, epoch). So the change of an image does not depend on
 * the rank or thread that reads the image, nor on the step. Mixup acts on batches: its random
 * numbers depend on (seed, epoch, batch, rank).
 *
 *   rrc     torchvision's RandomResizedCrop: crop a random part, and resize it to the image size of
 *           the data set. For image files, the part is cropped from the original picture (rrc.c).
 *   crop    Pad each side with zero pixels, and crop back to the old size at a random position. The
 *           padding is 4 pixels; for images at least 64 pixels wide, it is an eighth of the width.
 *   flip    Mirror left to right with probability 1/2.
 *   jitter  torchvision's ColorJitter with its arithmetic for PIL images: the four adjustments are
 *           applied in a random order, and each result is rounded to bytes (jitter.c). For gray
 *           images only brightness and contrast change.
 *   mixup   torchvision's RandomMixup: the loader mixes the images of a batch with each other,
 *           after all other augmentations (mixup.c). The images must have classes as targets.
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

enum { GT_AUGMENT_SETTINGS = 4 }; /* maximum number of settings of an augmentation */

/* The augmentations that a user chose. A zeroed struct means none. */
struct gt_augment {
	bool chosen[GT_AUGMENTATIONS];
	/* Values of the settings of chosen augmentations: value[i][k] is the value of
	 * gt_augment_form(i)->settings[k]. */
	double value[GT_AUGMENTATIONS][GT_AUGMENT_SETTINGS];
};

/* Parse a list such as `crop,flip,jitter:hue=0.1`. `none` and the empty string choose nothing.
 * Errors: GT_EINVAL. */
int gt_augment_parse(struct gt_augment *out, const char *list, struct gt_err *err);

/* Return whether any augmentation is chosen. */
bool gt_augment_any(const struct gt_augment *a);

/* Return whether mixup is chosen. If so, inputs of a batch are float32 instead of bytes, and its
 * targets are rows of struct gt_mixed_target (lib/base/mixed_target.h). */
bool gt_augment_mixes(const struct gt_augment *a);

/* Check that the chosen augmentations can be applied to the samples that `info` describes. Errors:
 * GT_EINVAL. */
int gt_augment_check(
    const struct gt_augment *a, const struct gt_data_info *info, struct gt_err *err);

/* Name, settings and manual text of an augmentation. */
struct gt_augment_form {
	const char *name;
	const char *summary;               /* a short phrase: lower case, no full stop */
	const struct gt_setting *settings; /* values are numbers; the last row has no help */
	const char *example;
};

/* Return the form of row i of the table, or NULL after the last row. */
const struct gt_augment_form *gt_augment_form(int i);

#endif
