/* resize.h - inside data: a part of a picture, resized row by row as it is decoded. */
#ifndef GT_DATA_RESIZE_H
#define GT_DATA_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/*
 * One direction of a view: `length` pixels of the input, from `start` on, are resized to `output`
 * pixels. Of these, `count` pixels from `offset` on are computed. Pixels outside `length` have no
 * effect.
 *
 * For example, torchvision's Resize(224), CenterCrop(224) of 500 x 375 pixels is
 *   across { 0, 500, 298, 37, 224 }    500 pixels become 298, the middle 224 of these are taken
 *   down   { 0, 375, 224, 0, 224 }     375 pixels become 224, all of them are taken
 * and its resized_crop() of 100 pixels from 30 on, to 224, is { 30, 100, 224, 0, 224 }.
 */
struct gt_view_axis {
	double start, length;
	int output, offset, count;
};

/* A part of a picture and its final size, down.count x across.count. */
struct gt_view {
	struct gt_view_axis down, across;
};

/* A part of a picture, in pixels. */
struct gt_box {
	int top, left, height, width;
};

/* The part, resized to to_height x to_width as if there were no more of the picture. */
struct gt_view gt_view_box(const struct gt_box *box, int to_height, int to_width);

/* All of a picture, as it is. */
struct gt_view gt_view_whole(int height, int width);

/*
 * The middle of a picture of height x width pixels, resized to cover to_height x to_width: the
 * shorter side fits, the aspect stays; torchvision's Resize(N), CenterCrop(N).
 * Errors: GT_EFORMAT (too narrow).
 */
int gt_view_fit(
    struct gt_view *out, int height, int width, int to_height, int to_width, struct gt_err *err);

/* The smallest of 1, 2, 4 and 8 eighths to which the input can be reduced before the view is
 * taken, with no fewer pixels than the view has in the end. */
int gt_view_eighths(const struct gt_view *view);

/* The same view of an input reduced to eighths/8. */
struct gt_view gt_view_reduced(const struct gt_view *view, int eighths);

/* The weights of one direction: output i is the sum of weights[i * room + k] * input[first[i] + k],
 * 0 <= k < taps[i], divided by 2^GT_WEIGHT_BITS and rounded. Weights are >= 0 and below
 * 2^GT_WEIGHT_BITS: a weight of 2^GT_WEIGHT_BITS is stored as 1 less, which gives the same pixels.
 */
enum { GT_WEIGHT_BITS = 22 };

struct gt_filter {
	int count, room;
	int *first, *taps; /* [count] */
	int32_t *weights;  /* [count, room] */
	bool copies;       /* output i is input first[0] + i */
	/* For vectors, as images_kernels.c lays them out. */
	int quads; /* of taps, that of the output with most of them */
	int32_t *starts, *pair_weights;
	int16_t *quad_weights;
};

/* A way to compute; all ways give the same bytes. */
struct gt_resize_kernel {
	const char *name;
	bool (*is_usable)(void); /* on this processor */
	/* out [f->count, 3] from a row of RGB pixels; reads up to 12 * f->quads + 16 bytes beyond
	 * the last pixel, and writes up to GT_RESIZE_SLACK bytes beyond the last one. */
	void (*across_rgb)(const struct gt_filter *f, const uint8_t *row, uint8_t *out);
	/* out [n], number `output` of f: the sum of the rows[k] [n], 0 <= k < taps, by their
	 * weights. */
	void (*down)(const struct gt_filter *f, int output, const uint8_t *const *rows, size_t n,
	    uint8_t *out);
};

enum { GT_RESIZE_SLACK = 64 };

/* Fastest first, ended by NULL; the last one is plain C. */
extern const struct gt_resize_kernel *const gt_resize_kernels[];

/* Lay out the weights as across_rgb() or down() reads them. GT_ENOMEM. */
int gt_filter_pack_across(struct gt_filter *f, struct gt_err *err);
int gt_filter_pack_down(struct gt_filter *f, struct gt_err *err);

/*
 * The state of resizing a picture row by row. Rows of the input are put in, in order; each row of
 * the output is computed as soon as all input rows that it needs are known. Bilinear with
 * antialiasing; the result is equal to Pillow's BILINEAR in every bit.
 */
struct gt_resize {
	/* The part of the input that is needed: rows [top, bottom), columns [left, right). */
	int top, bottom, left, right;
	/* Bytes that may be read beyond the last pixel of a row, whatever they are. */
	size_t slack;
	/* its own */
	const struct gt_resize_kernel *kernel;
	struct gt_filter across, down;
	int channels, next; /* row of the output */
	size_t row_bytes;
	uint8_t *ring, *out;    /* the last rows that went in, resized across */
	const uint8_t **window; /* [down.room]: those under the weights of a row of the output */
};

/* Begin: out [view->down.count, view->across.count, channels] is written until the last row is in.
 * Release it also after an error. GT_ENOMEM. */
int gt_resize_init(struct gt_resize *r, const struct gt_view *view, int channels, uint8_t *out,
    struct gt_err *err);
void gt_resize_release(struct gt_resize *r);

/* Put in row y, top <= y < bottom, the next one: its pixels from column `left` on. */
void gt_resize_put(struct gt_resize *r, int y, const uint8_t *row);

#endif
