/* resize.c - resizing of a part of a picture, with antialiasing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/images/images.h"
#include "lib/data/images/resize.h"

/*
 * Each output pixel is a weighted mean of the input pixels under a filter, which is stretched by
 * the scale if the picture becomes smaller. GT_BILINEAR is a triangle. Weights are rounded to 22
 * bits and each of the two directions to whole grey levels, horizontal first, as Pillow does: so
 * the bytes are the same.
 */

/* ---- views ---- */

/* (resized - wanted) / 2, a half rounded to even as Python's round() does. */
static int centre_offset(int64_t resized, int wanted)
{
	int64_t spare = resized - wanted;

	return (int)(spare / 2 + (spare % 2 && spare / 2 % 2));
}

struct gt_view gt_view_whole(int height, int width)
{
	return (struct gt_view){ .down = { 0, height, height, 0, height },
		.across = { 0, width, width, 0, width } };
}

struct gt_view gt_view_box(const struct gt_box *box, int to_height, int to_width)
{
	return (struct gt_view){ .down = { box->top, box->height, to_height, 0, to_height },
		.across = { box->left, box->width, to_width, 0, to_width } };
}

/* The size of a picture after resizing. */
struct full_size {
	int64_t height, width;
};

/* The smallest size that has the ratio of the picture, and covers to_height x to_width pixels. */
static struct full_size cover(int64_t height, int64_t width, int64_t to_height, int64_t to_width)
{
	if (height * to_width >= width * to_height) /* the width decides */
		return (struct full_size){ to_width * height / width, to_width };
	return (struct full_size){ to_height, to_height * width / height };
}

static struct full_size resized_size(
    int height, int width, int to_height, int to_width, const struct gt_fit *fit)
{
	int64_t side = fit->height;

	switch (fit->kind) {
	case GT_FIT_SHARE:
		side = (int64_t)((to_height > to_width ? to_height : to_width) / fit->share);
		/* fallthrough */
	case GT_FIT_SHORTER:
		return cover(height, width, side, side);
	case GT_FIT_EXACT:
		return (struct full_size){ fit->height, fit->width };
	case GT_FIT_SQUASH:
		return (struct full_size){ to_height, to_width };
	case GT_FIT_NONE:
		return (struct full_size){ height, width };
	default:
		return cover(height, width, to_height, to_width);
	}
}

/*
 * Set *out to the view of the middle of a picture: the picture is resized as `fit` says, and then
 * cut to to_height x to_width pixels around its centre. By default (GT_FIT_COVER) the picture is
 * resized to the smallest size that covers these pixels and keeps the aspect ratio. This is
 * torchvision's Resize(N), CenterCrop(N): a rest of 2 k + 1 pixels is divided so that k or k + 1 of
 * them, whichever is even, come before the crop.
 *
 * The caller has checked `fit` (gt_fit_check()). Errors: GT_EFORMAT (the picture is too narrow, or
 * smaller than the crop).
 */
int gt_view_fit(struct gt_view *out, int height, int width, int to_height, int to_width,
    const struct gt_fit *fit, struct gt_err *err)
{
	const struct full_size full = resized_size(height, width, to_height, to_width, fit);

	if (full.height > GT_IMAGE_MAX_PIXELS || full.width > GT_IMAGE_MAX_PIXELS)
		return gt_err_set(
		    err, GT_EFORMAT, "%d x %d pixels are too narrow to be resized", width, height);
	if (full.height < to_height || full.width < to_width) {
		gt_err_set(err, GT_EFORMAT, "%d x %d pixels are fewer than the %d x %d to crop",
		    width, height, to_width, to_height);
		return gt_err_hint(err, "leave out resize=no, so that images are resized");
	}
	*out = (struct gt_view){ .down = { 0, height, (int)full.height,
		                     centre_offset(full.height, to_height), to_height },
		.across = { 0, width, (int)full.width, centre_offset(full.width, to_width),
		    to_width },
		.interpolation = fit->interpolation };
	return 0;
}

static bool holds(const struct gt_view_axis *a, int eighths)
{
	return a->length * eighths >= a->output * 8.0;
}

/* The reduced part must have enough pixels in each direction. */
int gt_view_eighths(const struct gt_view *view)
{
	for (int eighths = 1; eighths < 8; eighths *= 2)
		if (holds(&view->down, eighths) && holds(&view->across, eighths))
			return eighths;
	return 8;
}

struct gt_view gt_view_reduced(const struct gt_view *view, int eighths)
{
	struct gt_view v = *view;

	v.down.start *= eighths / 8.0;
	v.down.length *= eighths / 8.0;
	v.across.start *= eighths / 8.0;
	v.across.length *= eighths / 8.0;
	return v;
}

/* ---- weights ---- */

static void release_filter(struct gt_filter *f)
{
	free(f->first);
	free(f->taps);
	free(f->weights);
	free(f->starts);
	free(f->quad_weights);
	free(f->pair_weights);
}

static double triangle(double x)
{
	return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* Keys' cubic convolution with a = -1/2. */
static double cubic(double x)
{
	const double a = -0.5;

	x = fabs(x);
	if (x < 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x)
{
	x *= M_PI;
	return x == 0 ? 1 : sin(x) / x;
}

static double lanczos(double x)
{
	return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

/* A filter, and its half width in pixels of the larger picture. */
static const struct shape {
	double (*at)(double x);
	double half_width;
} shapes[GT_INTERPOLATIONS] = {
	[GT_BILINEAR] = { triangle, 1 },
	[GT_BICUBIC] = { cubic, 2 },
	[GT_LANCZOS] = { lanczos, 3 },
};

/* Whether a weight of 1 is the only one that is not 0. */
static bool is_single(const struct gt_filter *f, int i, int k)
{
	const int32_t *weights = f->weights + (size_t)i * f->max_taps;

	for (int n = 0; n < f->taps[i]; n++)
		if (weights[n] != (n == k ? 1 << GT_WEIGHT_BITS : 0))
			return false;
	return true;
}

/* A weight of 1 has no neighbours. */
static void leave_one(struct gt_filter *f, int i, int k)
{
	int32_t *weights = f->weights + (size_t)i * f->max_taps;

	memset(weights, 0, (size_t)f->max_taps * sizeof(*weights));
	weights[0] = (1 << GT_WEIGHT_BITS) - 1;
	f->first[i] += k;
	f->taps[i] = 1;
}

/* Round half away from zero. */
static int32_t round_weight(double weight)
{
	return (int32_t)(weight * (double)(1 << GT_WEIGHT_BITS) + (weight < 0 ? -0.5 : 0.5));
}

/* Output i, whose centre is `centre`, of `input` pixels. */
static void weigh(
    struct gt_filter *f, const struct shape *shape, int i, int input, double centre, double scale)
{
	double stretch = scale < 1 ? 1 : scale, reach = shape->half_width * stretch, sum = 0;
	int first = (int)(centre - reach + 0.5), last = (int)(centre + reach + 0.5);
	int32_t *weights = f->weights + (size_t)i * f->max_taps;

	first = first < 0 ? 0 : first;
	last = last > input ? input : last;
	f->first[i] = first;
	f->taps[i] = last - first;
	for (int k = first; k < last; k++)
		sum += shape->at((k - centre + 0.5) * (1.0 / stretch));
	for (int k = first; k < last; k++)
		weights[k - first] =
		    round_weight(shape->at((k - centre + 0.5) * (1.0 / stretch)) / sum);
	/* Wider filters keep the zeros around, so that no output begins before the one in front of
	 * it, unless nothing is resized: then all outputs are copies. */
	for (int k = 0; k < f->taps[i] && (shape->half_width == 1 || scale == 1); k++)
		if (is_single(f, i, k)) {
			leave_one(f, i, k);
			break;
		}
}

/* The whole part of the start is added to the pixels' numbers alone, so that the weights are those
 * of a picture that has been cropped before. */
static int make_filter(struct gt_filter *f, const struct gt_view_axis *a, const struct shape *shape,
    struct gt_err *err)
{
	double scale = a->length / a->output, base = floor(a->start), start = a->start - base;
	int input = (int)ceil(start + a->length);

	*f = (struct gt_filter){ .count = a->count,
		.max_taps = (int)ceil(shape->half_width * (scale < 1 ? 1 : scale)) * 2 + 1,
		.copies = true };
	f->first = gt_calloc((size_t)a->count, sizeof(int), err);
	f->taps = gt_calloc((size_t)a->count, sizeof(int), err);
	f->weights = gt_calloc((size_t)a->count * (size_t)f->max_taps, sizeof(int32_t), err);
	if (!f->first || !f->taps || !f->weights)
		return GT_ENOMEM;
	for (int i = 0; i < a->count; i++) {
		weigh(f, shape, i, input, start + (i + a->offset + 0.5) * scale, scale);
		f->copies &= f->taps[i] == 1 && f->first[i] == f->first[0] + i;
		f->first[i] += (int)base;
	}
	return 0;
}

/* ---- rows ---- */

/* The fastest kernel, or for filters with negative weights the last one. */
static const struct gt_resize_kernel *choose_kernel(enum gt_interpolation interpolation)
{
	const struct gt_resize_kernel *const *k = gt_resize_kernels;

	while (k[1] && (interpolation != GT_BILINEAR || !(*k)->is_usable()))
		k++;
	return *k;
}

static int last_tap(const struct gt_filter *f, int i)
{
	return f->first[i] + f->taps[i];
}

int gt_resize_init(
    struct gt_resize *r, const struct gt_view *view, int channels, uint8_t *out, struct gt_err *err)
{
	const struct shape *shape = &shapes[view->interpolation];
	bool packs = view->interpolation == GT_BILINEAR;
	int rc;

	*r = (struct gt_resize){
		.kernel = choose_kernel(view->interpolation), .channels = channels, .out = out
	};
	rc = make_filter(&r->across, &view->across, shape, err);
	if (!rc)
		rc = make_filter(&r->down, &view->down, shape, err);
	if (rc)
		return rc;
	r->left = r->across.first[0];
	r->right = last_tap(&r->across, r->across.count - 1);
	r->top = r->down.first[0];
	r->bottom = last_tap(&r->down, r->down.count - 1);
	for (int i = 0; i < r->across.count; i++)
		r->across.first[i] -= r->left;
	if (packs && !r->across.copies && channels == 3)
		rc = gt_filter_pack_across(&r->across, err);
	if (!rc && packs && !r->down.copies)
		rc = gt_filter_pack_down(&r->down, err);
	r->slack = (size_t)r->across.quads * 12 + GT_RESIZE_SLACK;
	r->row_bytes = (size_t)r->across.count * (size_t)channels;
	r->ring = gt_calloc((size_t)r->down.max_taps, r->row_bytes + GT_RESIZE_SLACK, err);
	r->window = gt_calloc((size_t)r->down.max_taps, sizeof(*r->window), err);
	return rc ? rc : r->ring && r->window ? 0 : GT_ENOMEM;
}

void gt_resize_release(struct gt_resize *r)
{
	release_filter(&r->across);
	release_filter(&r->down);
	free(r->ring);
	free(r->window);
	*r = (struct gt_resize){ 0 };
}

static uint8_t weighted_mean(const uint8_t *p, size_t stride, const int32_t *weights, int taps)
{
	int32_t sum = 1 << (GT_WEIGHT_BITS - 1);

	for (int k = 0; k < taps; k++)
		sum += p[k * stride] * weights[k];
	sum >>= GT_WEIGHT_BITS;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void resize_row(const struct gt_resize *r, const uint8_t *row, uint8_t *out)
{
	const struct gt_filter *f = &r->across;
	size_t c = (size_t)r->channels;

	if (f->copies) {
		memcpy(out, row, r->row_bytes);
	} else if (c == 3) {
		r->kernel->across_rgb(f, row, out);
	} else {
		for (int x = 0; x < f->count; x++)
			for (size_t k = 0; k < c; k++)
				*out++ = weighted_mean(row + (size_t)f->first[x] * c + k, c,
				    f->weights + (size_t)x * f->max_taps, f->taps[x]);
	}
}

static uint8_t *ring_row(const struct gt_resize *r, int y)
{
	return r->ring + (size_t)(y % r->down.max_taps) * (r->row_bytes + GT_RESIZE_SLACK);
}

static void write_row(struct gt_resize *r)
{
	const struct gt_filter *f = &r->down;
	int first = f->first[r->next], taps = f->taps[r->next];
	uint8_t *out = r->out + (size_t)r->next * r->row_bytes;

	if (f->copies) {
		memcpy(out, ring_row(r, first), r->row_bytes);
	} else {
		for (int k = 0; k < taps; k++)
			r->window[k] = ring_row(r, first + k);
		r->kernel->down(f, r->next, r->window, r->row_bytes, out);
	}
	r->next++;
}

void gt_resize_put(struct gt_resize *r, int y, const uint8_t *row)
{
	const struct gt_filter *f = &r->down;

	resize_row(r, row, ring_row(r, y));
	while (r->next < f->count && last_tap(f, r->next) <= y + 1)
		write_row(r);
}
