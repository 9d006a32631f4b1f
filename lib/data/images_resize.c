/* images_resize.c - bilinear resizing with antialiasing, and the crop after it. */
#include <math.h>
#include <stdlib.h>

#include "lib/data/images.h"

/*
 * Each output pixel is a weighted mean of the input pixels under a triangle whose half width is the
 * scale (at least one pixel). Weights are rounded to 22 bits and each of the two directions to
 * whole grey levels, horizontal first, which is what Pillow does: so the bytes are the same.
 */
enum { WEIGHT_BITS = 22 };

/* The weights of one direction: output i is the sum of weight[i * room + k] * input[first[i] +
 * k]. */
struct filter {
	int count, room;
	int *first, *taps; /* [count] */
	int32_t *weights;  /* [count, room] */
};

static void release_filter(struct filter *f)
{
	free(f->first);
	free(f->taps);
	free(f->weights);
}

static double triangle(double x)
{
	return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

static void weigh(struct filter *f, int i, int input, double centre, double scale)
{
	double reach = scale < 1 ? 1 : scale, sum = 0;
	int first = (int)(centre - reach + 0.5), last = (int)(centre + reach + 0.5);
	int32_t *weights = f->weights + (size_t)i * f->room;

	first = first < 0 ? 0 : first;
	last = last > input ? input : last;
	f->first[i] = first;
	f->taps[i] = last - first;
	for (int k = first; k < last; k++)
		sum += triangle((k - centre + 0.5) * (1.0 / reach));
	for (int k = first; k < last; k++)
		weights[k - first] = (int32_t)(0.5 + triangle((k - centre + 0.5) * (1.0 / reach)) /
		                                         sum * (double)(1 << WEIGHT_BITS));
}

/* Resize `input` pixels to `output`, of which [offset, offset + count) are wanted. */
static int make_filter(
    struct filter *f, int input, int output, int offset, int count, struct gt_err *err)
{
	double scale = (double)input / output;

	*f = (struct filter){ .count = count, .room = (int)ceil(scale < 1 ? 1 : scale) * 2 + 1 };
	f->first = gt_calloc((size_t)count, sizeof(int), err);
	f->taps = gt_calloc((size_t)count, sizeof(int), err);
	f->weights = gt_calloc((size_t)count * f->room, sizeof(int32_t), err);
	if (!f->first || !f->taps || !f->weights)
		return GT_ENOMEM;
	for (int i = 0; i < count; i++)
		weigh(f, i, input, (i + offset + 0.5) * scale, scale);
	return 0;
}

static uint8_t weighted_mean(const uint8_t *p, size_t stride, const int32_t *weights, int taps)
{
	int32_t sum = 1 << (WEIGHT_BITS - 1);

	for (int k = 0; k < taps; k++)
		sum += p[k * stride] * weights[k];
	sum >>= WEIGHT_BITS;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Rows of the input to rows of f->count pixels. */
static void resize_rows(
    const struct gt_image *image, int first_row, int rows, const struct filter *f, uint8_t *out)
{
	size_t c = (size_t)image->channels;

	for (int y = 0; y < rows; y++) {
		const uint8_t *row = image->pixels + (size_t)(first_row + y) * image->width * c;

		for (int x = 0; x < f->count; x++)
			for (size_t k = 0; k < c; k++)
				*out++ = weighted_mean(row + f->first[x] * c + k, c,
				    f->weights + (size_t)x * f->room, f->taps[x]);
	}
}

static void resize_columns(
    const uint8_t *rows, int first_row, size_t row_bytes, const struct filter *f, uint8_t *out)
{
	for (int y = 0; y < f->count; y++) {
		const uint8_t *top = rows + (size_t)(f->first[y] - first_row) * row_bytes;

		for (size_t i = 0; i < row_bytes; i++)
			*out++ = weighted_mean(
			    top + i, row_bytes, f->weights + (size_t)y * f->room, f->taps[y]);
	}
}

/* (resized - wanted) / 2, a half rounded to even as Python's round() does. */
static int centre_offset(int64_t resized, int wanted)
{
	int64_t spare = resized - wanted;

	return (int)(spare / 2 + (spare % 2 && spare / 2 % 2));
}

int gt_image_fit(
    const struct gt_image *image, int height, int width, uint8_t *pixels, struct gt_err *err)
{
	int64_t h = image->height, w = image->width, full_h, full_w;
	struct filter across = { 0 }, down = { 0 };
	uint8_t *rows = NULL;
	int first, count, rc;

	if (height * w >= width * h) { /* the height decides */
		full_h = height;
		full_w = height * w / h;
	} else {
		full_w = width;
		full_h = width * h / w;
	}
	if (full_h > GT_IMAGE_MAX_PIXELS || full_w > GT_IMAGE_MAX_PIXELS)
		return gt_err_set(err, GT_EFORMAT, "%d x %d pixels are too narrow to be resized",
		    image->width, image->height);
	rc = make_filter(
	    &across, image->width, (int)full_w, centre_offset(full_w, width), width, err);
	if (!rc)
		rc = make_filter(
		    &down, image->height, (int)full_h, centre_offset(full_h, height), height, err);
	if (rc)
		goto out;
	first = down.first[0];
	count = down.first[height - 1] + down.taps[height - 1] - first;
	rows = gt_calloc((size_t)count * width, (size_t)image->channels, err);
	if (!rows) {
		rc = GT_ENOMEM;
		goto out;
	}
	resize_rows(image, first, count, &across, rows);
	resize_columns(rows, first, (size_t)width * image->channels, &down, pixels);
out:
	free(rows);
	release_filter(&across);
	release_filter(&down);
	return rc;
}
