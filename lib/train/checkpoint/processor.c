/* processor.c - preprocessor_config.json: resize, crop, scale and normalization of images. */
#include "lib/train/checkpoint/processor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A class of transformers: IMAGE_CLASS is NAMEImageProcessor, NAMEImageProcessorFast, or in older
 * versions NAMEFeatureExtractor. */
struct class
{
	const char *name;
	bool square; /* a size of N means N x N pixels, and else the shorter side */
	bool crops;  /* do_center_crop, if the file does not say it */
	bool share;  /* the size is a share, crop_pct, of the resized picture */
	enum gt_interpolation filter; /* if the file does not say it */
};

/* Source: transformers, the default arguments of each class. */
static const struct class classes[] = {
	{ "ViT", true, false, false, GT_BILINEAR }, { "DeiT", true, true, false, GT_BICUBIC },
	{ "Siglip", true, false, false, GT_BICUBIC }, { "Bit", false, true, false, GT_BICUBIC },
	{ "CLIP", false, true, false, GT_BICUBIC },
	{ "MobileNetV2", false, true, false, GT_BILINEAR },
	{ "ConvNext", false, false, true, GT_BILINEAR },
	{ NULL, true, false, false, GT_BILINEAR }, /* the defaults of a file that names no class */
};

/* The defaults of these classes. From the last one on, ConvNext's pictures are not cropped. */
enum { DEFAULT_CROP = 224, SHARE_LIMIT = 384 };
#define DEFAULT_SHARE (224 / 256.0)

static int not_supported(const char *key, const char *value, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP, "'%s' is %.60s, which is not supported", key, value);
	return gt_err_hint(err, "gtrain help data describes how images can be read");
}

static bool is_class(const char *text, const char *name)
{
	static const char *const ends[] = { "ImageProcessor", "ImageProcessorFast",
		"ImageProcessorPil", "FeatureExtractor" };
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!strncmp(text, name, length) && !strcmp(text + length, ends[i]))
			return true;
	return false;
}

static int find_class(const struct class **out, const json_t *processor, struct gt_err *err)
{
	const char *key = "image_processor_type", *text;
	const struct class *c = classes;

	if (!json_object_get(processor, key))
		key = "feature_extractor_type";
	text = json_string_value(json_object_get(processor, key));
	while (c->name && (text ? !is_class(text, c->name)
	                        : !c->share || !json_object_get(processor, "crop_pct")))
		c++;
	*out = c;
	return c->name || !text ? 0 : not_supported(key, text, err);
}

/* A flag, or its default if the file does not say it. */
static bool read_flag(const json_t *processor, const char *key, bool otherwise)
{
	const json_t *json = json_object_get(processor, key);

	return json_is_boolean(json) ? json_is_true(json) : otherwise;
}

/* Steps that these classes do not have, and that would change the pixels. */
static int check_other_steps(const json_t *processor, struct gt_err *err)
{
	static const char *const known[] = { "do_resize", "do_center_crop", "do_rescale",
		"do_normalize", "do_convert_rgb", NULL };
	const char *key;
	json_t *json;

	json_object_foreach((json_t *)processor, key, json)
	{
		const char *const *k = known;

		while (*k && strcmp(*k, key) != 0)
			k++;
		if (!*k && (!strncmp(key, "do_", 3) || !strcmp(key, "rescale_offset")) &&
		    json_is_true(json))
			return not_supported(key, "true", err);
	}
	return 0;
}

/* ---- sizes ---- */

static int read_side(int *side, const json_t *json, const char *key, struct gt_err *err)
{
	const json_int_t number = json_integer_value(json);

	if (!json_is_integer(json) || number < 1 || number > GT_DATA_MAX_SIDE)
		return gt_err_set(err, GT_EFORMAT, "'%s' must be a number of pixels from 1 to %d",
		    key, GT_DATA_MAX_SIDE);
	*side = (int)number;
	return 0;
}

/* A size: that of both sides, or with width 0 that of the shorter one. Zero if it is not given. */
struct size {
	int height, width;
};

static int read_size(
    struct size *size, const json_t *processor, const char *key, bool square, struct gt_err *err)
{
	const json_t *json = json_object_get(processor, key),
	             *height = json_object_get(json, "height"),
	             *width = json_object_get(json, "width"),
	             *shorter = json_object_get(json, "shortest_edge");
	int rc;

	*size = (struct size){ 0, 0 };
	if (!json || json_is_null(json))
		return 0;
	if (!json_is_object(json)) {
		rc = read_side(&size->height, json, key, err);
		size->width = square ? size->height : 0;
		return rc;
	}
	if (json_object_size(json) != (shorter ? 1 : 2) || (!shorter && (!height || !width)))
		return not_supported(key, "neither 'height' and 'width' nor 'shortest_edge'", err);
	if (shorter)
		return read_side(&size->height, shorter, key, err);
	rc = read_side(&size->height, height, key, err);
	return rc ? rc : read_side(&size->width, width, key, err);
}

/* ConvNext: `size` is that of the images, and the shorter side becomes size / crop_pct. */
static int fit_share(struct gt_data_description *out, const struct size *size,
    const json_t *processor, struct gt_err *err)
{
	const json_t *json = json_object_get(processor, "crop_pct");
	double share = json && !json_is_null(json) ? json_number_value(json) : DEFAULT_SHARE;

	if (!(share > 0 && share <= 1))
		return gt_err_set(err, GT_EFORMAT, "'crop_pct' must be above 0 and at most 1");
	out->form.height = out->form.width = size->height;
	out->fit.kind = size->height < SHARE_LIMIT ? GT_FIT_SHARE : GT_FIT_SQUASH;
	out->fit.share = size->height < SHARE_LIMIT ? share : 0;
	return 0;
}

static int check_crop(const struct gt_data_description *d, struct gt_err *err)
{
	if (!gt_fit_check(&d->fit, d->form.height, d->form.width, GT_ERR_IGNORED))
		return 0;
	gt_err_set(err, GT_ENOTSUP, "'crop_size' is larger than 'size'");
	return gt_err_hint(err, "gtrain adds no pixels around a picture");
}

/* Pictures are resized, and the centre is cropped if `crop` is not 0. */
static int fit_resize(struct gt_data_description *out, const struct size *size,
    const struct size *crop, struct gt_err *err)
{
	if (!size->width && !crop->height) {
		gt_err_set(err, GT_ENOTSUP,
		    "'size' is the shorter side, and without 'do_center_crop' images would have "
		    "different sizes");
		return gt_err_hint(
		    err, "set 'do_center_crop' to true, and 'crop_size' to the model's size");
	}
	out->form.height = crop->height ? crop->height : size->height;
	out->form.width = crop->height ? crop->width : size->width;
	out->fit.kind = size->width ? GT_FIT_EXACT : GT_FIT_SHORTER;
	out->fit.height = size->height;
	out->fit.width = size->width;
	if (size->width ? out->form.height == size->height && out->form.width == size->width
	                : out->form.height == size->height && out->form.width == size->height)
		out->fit = (struct gt_fit){ .kind = size->width ? GT_FIT_SQUASH : GT_FIT_COVER };
	return check_crop(out, err);
}

/* Set height, width and fit. */
static int read_fit(struct gt_data_description *out, const json_t *processor, const struct class *c,
    int side, struct gt_err *err)
{
	struct size size, crop = { 0, 0 };
	bool crops = read_flag(processor, "do_center_crop", c->crops);
	int rc = read_size(
	    &size, processor, "size", read_flag(processor, "default_to_square", c->square), err);

	if (!rc && crops)
		rc = read_size(&crop, processor, "crop_size", true, err);
	if (rc)
		return rc;
	if (crops && !crop.height && c->name)
		crop = (struct size){ DEFAULT_CROP, DEFAULT_CROP };
	if (crop.height && !crop.width)
		crop.width = crop.height;
	if (!size.height)
		size = (struct size){ side, side };
	if (!read_flag(processor, "do_resize", true)) {
		if (!crop.height)
			return not_supported("do_resize", "false without 'do_center_crop'", err);
		out->form.height = crop.height;
		out->form.width = crop.width;
		out->fit.kind = GT_FIT_NONE;
		return 0;
	}
	if (!size.height) /* the file does not say it, and the model takes any */
		return 0;
	return c->share ? fit_share(out, &size, processor, err)
	                : fit_resize(out, &size, &crop, err);
}

/* The size has to be that of the model. */
static int check_side(const struct gt_data_description *d, const json_t *processor,
    const struct class *c, int side, struct gt_err *err)
{
	bool crops = read_flag(processor, "do_center_crop", c->crops) &&
	             json_object_get(processor, "crop_size");

	if (!side || (d->form.height == side && d->form.width == side))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "'%s' is %d x %d pixels, but 'image_size' of config.json is %d",
	    crops ? "crop_size" : "size", d->form.height, d->form.width, side);
}

/* ---- filter and numbers ---- */

/* The numbers of Pillow's filters. */
static int read_filter(
    enum gt_interpolation *out, const json_t *processor, const struct class *c, struct gt_err *err)
{
	static const struct {
		const char *name;
		int filter; /* -1: gtrain has none */
	} filters[] = { { "0 (nearest)", -1 }, { "1 (lanczos)", GT_LANCZOS },
		{ "2 (bilinear)", GT_BILINEAR }, { "3 (bicubic)", GT_BICUBIC }, { "4 (box)", -1 },
		{ "5 (hamming)", -1 } };
	const json_t *json = json_object_get(processor, "resample");
	const json_int_t number = json_integer_value(json);

	*out = c->filter;
	if (!json || json_is_null(json) || !read_flag(processor, "do_resize", true))
		return 0;
	if (!json_is_integer(json) || number < 0 ||
	    (size_t)number >= sizeof(filters) / sizeof(*filters))
		return gt_err_set(err, GT_EFORMAT, "'resample' must be a number from 0 to 5");
	if (filters[number].filter < 0)
		return not_supported("resample", filters[number].name, err);
	*out = (enum gt_interpolation)filters[number].filter;
	return 0;
}

/* Pixels are multiplied by a factor before they are normalized. gtrain's are divided by 255. */
static int read_scale(double *scale, const json_t *processor, struct gt_err *err)
{
	const json_t *factor = json_object_get(processor, "rescale_factor");

	*scale = 1;
	if (!read_flag(processor, "do_rescale", true))
		*scale = 255;
	else if (factor)
		*scale = json_number_value(factor) * 255;
	if (fabs(*scale - 1) < 1e-6) /* 1/255 with the digits that fit */
		*scale = 1;
	if (*scale > 0 && isfinite((float)*scale) && isfinite((float)(1 / *scale)))
		return 0;
	return gt_err_set(err, GT_EFORMAT, "'rescale_factor' must be a number above 0");
}

static int read_numbers(float *out, const json_t *processor, const char *key, int channels,
    double otherwise, double scale, struct gt_err *err)
{
	bool normalizes = read_flag(processor, "do_normalize", true);
	const json_t *list = json_object_get(processor, key);
	bool good = !normalizes || json_array_size(list) == (size_t)channels;

	for (int i = 0; i < channels && good; i++) {
		const json_t *item = json_array_get(list, (size_t)i);

		good = !normalizes || json_is_number(item);
		out[i] = (float)((normalizes ? json_number_value(item) : otherwise) / scale);
	}
	if (good)
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "'%s' must be a list with a number for each of %d channels", key, channels);
}

/* The class is image_processor_type or feature_extractor_type. In *out, kind and channels are set
 * by the caller; the other fields about images are results. */
int gt_processor_read(
    struct gt_data_description *out, const json_t *processor, int side, struct gt_err *err)
{
	const struct class *c;
	double scale = 1;
	int rc;

	out->form.height = out->form.width = side;
	if (!processor)
		return 0;
	if (out->form.channels < 1 || out->form.channels > GT_MAX_CHANNELS)
		return gt_err_set(err, GT_ENOTSUP, "images of %d channels", out->form.channels);
	rc = find_class(&c, processor, err);
	if (!rc)
		rc = check_other_steps(processor, err);
	if (!rc)
		rc = read_fit(out, processor, c, side, err);
	if (!rc)
		rc = check_side(out, processor, c, side, err);
	if (!rc)
		rc = read_filter(&out->fit.interpolation, processor, c, err);
	if (!rc)
		rc = read_scale(&scale, processor, err);
	if (!rc)
		rc = read_numbers(
		    out->form.mean, processor, "image_mean", out->form.channels, 0, scale, err);
	if (!rc)
		rc = read_numbers(
		    out->form.std, processor, "image_std", out->form.channels, 1, scale, err);
	out->normalization_known = out->fit_known = true;
	out->reduce_known = true; /* and false: transformers decodes in full */
	return rc;
}

/* ---- writing ---- */

/* Pictures become this size before the crop. */
static json_t *size_of(const struct gt_data_description *d)
{
	const struct gt_fit *fit = &d->fit;
	int longer = d->form.height > d->form.width ? d->form.height : d->form.width;

	if (fit->kind == GT_FIT_EXACT)
		return json_pack("{s:i,s:i}", "height", fit->height, "width", fit->width);
	if (fit->kind == GT_FIT_SQUASH)
		return json_pack("{s:i,s:i}", "height", d->form.height, "width", d->form.width);
	return json_pack("{s:i}", "shortest_edge",
	    fit->kind == GT_FIT_SHORTER ? fit->height
	    : fit->kind == GT_FIT_SHARE ? (int)(longer / fit->share)
	                                : longer);
}

json_t *gt_processor_write(
    const struct gt_data_description *d, const json_t *mean, const json_t *std)
{
	static const int filters[GT_INTERPOLATIONS] = {
		[GT_BILINEAR] = 2, [GT_BICUBIC] = 3, [GT_LANCZOS] = 1
	};

	return json_pack("{s:s,s:b,s:o,s:i,s:b,s:{s:i,s:i},s:b,s:f,s:b,s:O,s:O}",
	    "image_processor_type", "BitImageProcessor", "do_resize", d->fit.kind != GT_FIT_NONE,
	    "size", size_of(d), "resample", filters[d->fit.interpolation], "do_center_crop", 1,
	    "crop_size", "height", d->form.height, "width", d->form.width, "do_rescale", 1,
	    "rescale_factor", 1 / 255.0, "do_normalize", 1, "image_mean", mean, "image_std", std);
}
