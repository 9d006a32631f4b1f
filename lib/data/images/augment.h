/* augment.h - augmentation of training images: NAME[:key=value[:key=value]],... */
#ifndef GT_DATA_IMAGES_AUGMENT_H
#define GT_DATA_IMAGES_AUGMENT_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/setting.h"

/*
 * Augmentations are applied in this order, whatever the order of the list. Random numbers depend
 * only on (seed, sample, epoch); for mixup, on (seed, epoch, batch, rank).
 *
 *   rrc     torchvision's RandomResizedCrop, from the original picture (rrc.c)
 *   crop    pad with zeros, by 4 pixels or an eighth of the width from 64 pixels on, and crop
 *   flip    mirror left to right with probability 1/2
 *   jitter  torchvision's ColorJitter for PIL images (jitter.c)
 *   mixup   torchvision's RandomMixup, after all others; targets must be classes (mixup.c)
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

enum { GT_AUGMENT_SETTINGS = 4 };

/* The chosen augmentations; zeroed: none. */
struct gt_augment {
	bool chosen[GT_AUGMENTATIONS];
	/* value[i][k] is that of gt_augment_form(i)->settings[k] */
	double value[GT_AUGMENTATIONS][GT_AUGMENT_SETTINGS];
};

/* Parse a list such as `crop,flip,jitter:hue=0.1`, `none` or "". Errors: GT_EINVAL. */
int gt_augment_parse(struct gt_augment *out, const char *list, struct gt_err *err);

/* Return whether any augmentation is chosen. */
bool gt_augment_any(const struct gt_augment *a);

/* Return whether mixup is chosen: inputs are then float32, and targets struct gt_mixed_target. */
bool gt_augment_mixes(const struct gt_augment *a);

/* Check that the chosen augmentations suit the samples of `info`. Errors: GT_EINVAL. */
int gt_augment_check(
    const struct gt_augment *a, const struct gt_data_info *info, struct gt_err *err);

/* Name, settings and manual of an augmentation. */
struct gt_augment_form {
	const char *name;
	const char *summary;               /* a phrase: lower case, no full stop */
	const struct gt_setting *settings; /* numbers; the last row has no help */
	const char *example;
};

/* Return row i of the table, or NULL. */
const struct gt_augment_form *gt_augment_form(int i);

#endif
