/* image_fit.c - the settings resize, crop and interpolation of images, and JSON. */
#include "lib/data/images/image_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/core/spec.h"

const char *const gt_interpolation_names[] = {
	[GT_BILINEAR] = "bilinear",
	[GT_BICUBIC] = "bicubic",
	[GT_LANCZOS] = "lanczos",
	[GT_INTERPOLATIONS] = NULL,
};

/* ---- text ---- */

/* Read digits at *p as a number of pixels, and move *p behind them. */
static bool read_side(int *side, const char **p)
{
	char *end;
	long n = strtol(*p, &end, 10);

	if (**p < '0' || **p > '9' || n < 1 || n > GT_DATA_MAX_SIDE)
		return false;
	*side = (int)n;
	*p = end;
	return true;
}

/* N, HxW, squash or no. */
static bool parse_resize(struct gt_fit *fit, const char *text)
{
	struct gt_fit new = { .interpolation = fit->interpolation };
	const char *p = text;

	if (!strcmp(text, "squash")) {
		new.kind = GT_FIT_SQUASH;
	} else if (!strcmp(text, "no")) {
		new.kind = GT_FIT_NONE;
	} else {
		if (!read_side(&new.height, &p))
			return false;
		new.kind = *p ? GT_FIT_EXACT : GT_FIT_SHORTER;
		if (*p && (*p++ != 'x' || !read_side(&new.width, &p) || *p))
			return false;
	}
	*fit = new;
	return true;
}

static bool set_share(struct gt_fit *fit, double share)
{
	if (!(share > 0.01 && share <= 1))
		return false;
	*fit = (struct gt_fit){
		.kind = GT_FIT_SHARE, .share = share, .interpolation = fit->interpolation
	};
	return true;
}

static bool parse_share(struct gt_fit *fit, const char *text)
{
	char *end;
	double share = strtod(text, &end);

	return end != text && !*end && set_share(fit, share);
}

/* The part of the text behind "resize=" or "crop=". */
static void write_value(char text[GT_FIT_TEXT], const struct gt_fit *fit)
{
	static const char *const words[] = { [GT_FIT_SQUASH] = "squash", [GT_FIT_NONE] = "no" };

	if (fit->kind == GT_FIT_SHARE)
		snprintf(text, GT_FIT_TEXT, "%.10g", fit->share);
	else if (fit->kind == GT_FIT_EXACT)
		snprintf(text, GT_FIT_TEXT, "%dx%d", fit->height, fit->width);
	else if (fit->kind == GT_FIT_SHORTER)
		snprintf(text, GT_FIT_TEXT, "%d", fit->height);
	else
		snprintf(text, GT_FIT_TEXT, "%s", words[fit->kind]);
}

const char *gt_fit_text(char text[GT_FIT_TEXT], const struct gt_fit *fit)
{
	char value[GT_FIT_TEXT];

	*text = '\0';
	if (fit->kind == GT_FIT_COVER)
		return text;
	write_value(value, fit);
	snprintf(
	    text, GT_FIT_TEXT, "%s=%.30s", fit->kind == GT_FIT_SHARE ? "crop" : "resize", value);
	return text;
}

bool gt_fit_same_size(const struct gt_fit *a, const struct gt_fit *b)
{
	return a->kind == b->kind && a->height == b->height && a->width == b->width &&
	       a->share == b->share;
}

/* ---- settings ---- */

bool gt_fit_is_given(const struct gt_spec *spec)
{
	return gt_spec_value(spec, "resize") || gt_spec_value(spec, "crop");
}

int gt_fit_from_spec(struct gt_fit *fit, const struct gt_spec *spec, struct gt_err *err)
{
	const char *resize = gt_spec_value(spec, "resize"), *crop = gt_spec_value(spec, "crop");
	int filter = (int)fit->interpolation,
	    rc = gt_spec_choice(spec, "interpolation", gt_interpolation_names, &filter, err);

	if (rc)
		return rc;
	fit->interpolation = (enum gt_interpolation)filter;
	if (resize && crop) {
		gt_err_set(err, GT_EINVAL, "data options 'resize' and 'crop' cannot be combined");
		return gt_err_hint(err,
		    "resize=N is the shorter side before the crop to size=; crop=X makes it size / X");
	}
	if (resize && !parse_resize(fit, resize)) {
		gt_err_set(err, GT_EINVAL, "data option 'resize=%s': no such size", resize);
		return gt_err_hint(err,
		    "one of: N for the shorter side, HxW or squash for both sides, no; numbers are "
		    "from 1 to %d",
		    GT_DATA_MAX_SIDE);
	}
	if (crop && !parse_share(fit, crop)) {
		gt_err_set(err, GT_EINVAL, "data option 'crop=%s': not a share up to 1", crop);
		return gt_err_hint(err,
		    "crop=0.875 resizes the shorter side to size / 0.875; resize=N says it in pixels");
	}
	return 0;
}

int gt_fit_check(const struct gt_fit *fit, int height, int width, struct gt_err *err)
{
	bool shorter = fit->kind == GT_FIT_SHORTER, exact = fit->kind == GT_FIT_EXACT;
	int resized_width = exact ? fit->width : fit->height;
	char text[GT_FIT_TEXT];

	if ((!shorter && !exact) || (fit->height >= height && resized_width >= width))
		return 0;
	gt_err_set(err, GT_EINVAL, "%s is smaller than the images, which have %d x %d pixels",
	    gt_fit_text(text, fit), width, height);
	return gt_err_hint(err, "give a resize= of at least that size, or crop= for a share of it");
}

/* ---- JSON ---- */

int gt_fit_to_json(const struct gt_fit *fit, json_t *object)
{
	char value[GT_FIT_TEXT];
	int rc = 0;

	if (fit->kind == GT_FIT_SHARE) {
		rc = json_object_set_new(object, "crop", json_real(fit->share));
	} else if (fit->kind != GT_FIT_COVER) {
		write_value(value, fit);
		rc = json_object_set_new(object, "resize", json_string(value));
	}
	if (!rc && fit->interpolation != GT_BILINEAR)
		rc = json_object_set_new(object, "interpolation",
		    json_string(gt_interpolation_names[fit->interpolation]));
	return rc;
}

int gt_fit_from_json(struct gt_fit *fit, const json_t *object, struct gt_err *err)
{
	const json_t *resize = json_object_get(object, "resize"),
	             *crop = json_object_get(object, "crop"),
	             *filter = json_object_get(object, "interpolation");
	int i = 0;

	*fit = (struct gt_fit){ .kind = GT_FIT_COVER };
	if (resize && (!json_is_string(resize) || !parse_resize(fit, json_string_value(resize))))
		return gt_err_set(
		    err, GT_EFORMAT, "'resize' must be N, HxW, squash or no, as text");
	if (crop && !set_share(fit, json_number_value(crop)))
		return gt_err_set(err, GT_EFORMAT, "'crop' must be a share up to 1");
	while (filter && i < GT_INTERPOLATIONS &&
	       (!json_is_string(filter) ||
	           strcmp(gt_interpolation_names[i], json_string_value(filter)) != 0))
		i++;
	if (i == GT_INTERPOLATIONS)
		return gt_err_set(err, GT_EFORMAT, "'interpolation' must be the name of a filter");
	fit->interpolation = (enum gt_interpolation)i;
	return 0;
}
