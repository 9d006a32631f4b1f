/* images_resize.c - bilinear resizing of a part of a picture, with antialiasing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/images.h"
#include "lib/data/resize.h"

/*
 * Each output pixel is a weighted mean of the input pixels under a triangle whose half width is the
 * scale (at least one pixel). Weights are rounded to 22 bits and each of the two directions to
 * whole grey levels, horizontal first, as Pillow does: so the bytes are the same.
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

int gt_view_fit(
    struct gt_view *out, int height, int width, int to_height, int to_width, struct gt_err *err)
{
	int64_t h = height, w = width, full_h, full_w;

	if (h * to_width >= w * to_height) { /* the width decides */
		full_w = to_width;
		full_h = to_width * h / w;
	} else {
		full_h = to_height;
		full_w = to_height * w / h;
	}
	if (full_h > GT_IMAGE_MAX_PIXELS || full_w > GT_IMAGE_MAX_PIXELS)
		return gt_err_set(
		    err, GT_EFORMAT, "%d x %d pixels are too narrow to be resized", width, height);
	*out = (struct gt_view){ .down = { 0, height, (int)full_h, centre_offset(full_h, to_height),
		                     to_height },
		.across = { 0, width, (int)full_w, centre_offset(full_w, to_width), to_width } };
	return 0;
}

static bool holds(const struct gt_view_axis *a, int eighths)
{
	return a->length * eighths >= a->output * 8.0;
}

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

/* A weight of 1 has no neighbours. */
static void leave_one(struct gt_filter *f, int i, int k)
{
	int32_t *weights = f->weights + (size_t)i * f->max_taps;

	memset(weights, 0, (size_t)f->max_taps * sizeof(*weights));
	weights[0] = (1 << GT_WEIGHT_BITS) - 1;
	f->first[i] += k;
	f->taps[i] = 1;
}

/* Output i, whose centre is `centre`, of `input` pixels. */
static void weigh(struct gt_filter *f, int i, int input, double centre, double scale)
{
	double reach = scale < 1 ? 1 : scale, sum = 0;
	int first = (int)(centre - reach + 0.5), last = (int)(centre + reach + 0.5);
	int32_t *weights = f->weights + (size_t)i * f->max_taps;

	first = first < 0 ? 0 : first;
	last = last > input ? input : last;
	f->first[i] = first;
	f->taps[i] = last - first;
	for (int k = first; k < last; k++)
		sum += triangle((k - centre + 0.5) * (1.0 / reach));
	for (int k = first; k < last; k++) {
		double share = triangle((k - centre + 0.5) * (1.0 / reach)) / sum;

		weights[k - first] = (int32_t)(0.5 + share * (double)(1 << GT_WEIGHT_BITS));
		if (weights[k - first] == 1 << GT_WEIGHT_BITS) {
			leave_one(f, i, k - first);
			break;
		}
	}
}

/* The whole part of the start is added to the pixels' numbers alone, so that the weights are those
 * of a picture that has been cropped before. */
static int make_filter(struct gt_filter *f, const struct gt_view_axis *a, struct gt_err *err)
{
	double scale = a->length / a->output, base = floor(a->start), start = a->start - base;
	int input = (int)ceil(start + a->length);

	*f = (struct gt_filter){ .count = a->count,
		.max_taps = (int)ceil(scale < 1 ? 1 : scale) * 2 + 1,
		.copies = true };
	f->first = gt_calloc((size_t)a->count, sizeof(int), err);
	f->taps = gt_calloc((size_t)a->count, sizeof(int), err);
	f->weights = gt_calloc((size_t)a->count * (size_t)f->max_taps, sizeof(int32_t), err);
	if (!f->first || !f->taps || !f->weights)
		return GT_ENOMEM;
	for (int i = 0; i < a->count; i++) {
		weigh(f, i, input, start + (i + a->offset + 0.5) * scale, scale);
		f->copies &= f->taps[i] == 1 && f->first[i] == f->first[0] + i;
		f->first[i] += (int)base;
	}
	return 0;
}

/* ---- rows ---- */

static const struct gt_resize_kernel *fastest_kernel(void)
{
	const struct gt_resize_kernel *const *k = gt_resize_kernels;

	while (!(*k)->is_usable())
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
	int rc;

	*r = (struct gt_resize){ .kernel = fastest_kernel(), .channels = channels, .out = out };
	rc = make_filter(&r->across, &view->across, err);
	if (!rc)
		rc = make_filter(&r->down, &view->down, err);
	if (rc)
		return rc;
	r->left = r->across.first[0];
	r->right = last_tap(&r->across, r->across.count - 1);
	r->top = r->down.first[0];
	r->bottom = last_tap(&r->down, r->down.count - 1);
	for (int i = 0; i < r->across.count; i++)
		r->across.first[i] -= r->left;
	if (!r->across.copies && channels == 3)
		rc = gt_filter_pack_across(&r->across, err);
	if (!rc && !r->down.copies)
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
	return (uint8_t)(sum > 255 ? 255 : sum);
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
