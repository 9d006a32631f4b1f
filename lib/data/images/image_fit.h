/* image_fit.h - how a picture becomes an image of the model's size: resize, crop the centre. */
#ifndef GT_DATA_IMAGES_IMAGE_FIT_H
#define GT_DATA_IMAGES_IMAGE_FIT_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

enum gt_fit_kind {
	GT_FIT_COVER,   /* keep the ratio of the sides: the smallest size that covers the image */
	GT_FIT_SHORTER, /* keep the ratio: the shorter side gets `height` pixels */
	GT_FIT_SHARE,   /* keep the ratio: the image's longer side is `share` of the shorter side */
	GT_FIT_EXACT,   /* `height` x `width` pixels, whatever the ratio */
	GT_FIT_SQUASH,  /* the size of the image, whatever the ratio */
	GT_FIT_NONE     /* do not resize */
};

/* The filters for resizing, as Pillow has them, all antialiased. */
enum gt_interpolation { GT_BILINEAR, GT_BICUBIC, GT_LANCZOS, GT_INTERPOLATIONS };

/* The size of a picture after resizing. The image is the centre of the resized picture. The zeroed
 * struct is the default. */
struct gt_fit {
	enum gt_fit_kind kind;
	int height, width;
	double share; /* above 0, at most 1 */
	enum gt_interpolation interpolation;
};

struct gt_spec;

/* The names of the filters, ended by NULL. */
extern const char *const gt_interpolation_names[];

/* Return whether a spec has the setting `resize` or `crop`. */
bool gt_fit_is_given(const struct gt_spec *spec);

/* Read the settings `resize`, `crop` and `interpolation`. What is not given stays as it is in *fit.
 * Errors: GT_EINVAL. */
int gt_fit_from_spec(struct gt_fit *fit, const struct gt_spec *spec, struct gt_err *err);

/* Check that every picture can be made an image of height x width pixels. Errors: GT_EINVAL. */
int gt_fit_check(const struct gt_fit *fit, int height, int width, struct gt_err *err);

enum { GT_FIT_TEXT = 48 };

/* Write the size as a setting: "resize=256", "crop=0.875", ...; "" for the default. Return
 * `text`. */
const char *gt_fit_text(char text[GT_FIT_TEXT], const struct gt_fit *fit);

/* Return whether both give pictures the same size. */
bool gt_fit_same_size(const struct gt_fit *a, const struct gt_fit *b);

/* Add "resize", "crop" and "interpolation" to an object, where they are not the default. Return 0,
 * or -1 if memory ran out. */
int gt_fit_to_json(const struct gt_fit *fit, json_t *object);

/* Read them from an object that gt_fit_to_json() wrote. Errors: GT_EFORMAT. */
int gt_fit_from_json(struct gt_fit *fit, const json_t *object, struct gt_err *err);

#endif
