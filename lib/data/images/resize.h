/* resize.h - private: resize a part of a picture, row by row, while the picture is decoded. */
#ifndef GT_DATA_IMAGES_RESIZE_H
#define GT_DATA_IMAGES_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/images/image_fit.h"

/*
 * A direction of a view, which is a part of a picture and its size after resizing: `length` pixels
 * from `start` on become `output` pixels, of which `count` are computed, from `offset` on. For
 * example, torchvision's Resize(224) and CenterCrop(224) of 500 x 375 pixels are
 *
 *   across { 0, 500, 298, 37, 224 }
 *   down   { 0, 375, 224, 0, 224 }
 */
struct gt_view_axis {
	double start, length;
	int output, offset, count;
};

/* A view in both directions: down.count rows of across.count pixels. */
struct gt_view {
	struct gt_view_axis down, across;
	enum gt_interpolation interpolation;
};

/* A rectangle in a picture, in pixels. */
struct gt_box {
	int top, left, height, width;
};

/* Return the view in which a rectangle is cropped and resized to to_height x to_width pixels, with
 * GT_BILINEAR. */
struct gt_view gt_view_box(const struct gt_box *box, int to_height, int to_width);

/* Return the view that changes nothing. */
struct gt_view gt_view_whole(int height, int width);

/* Set *out to the view of the middle of a picture, resized as `fit` (gt_fit_check()) says and cut
 * to to_height x to_width pixels. Errors: GT_EFORMAT if the picture is too narrow, or smaller than
 * the crop. */
int gt_view_fit(struct gt_view *out, int height, int width, int to_height, int to_width,
    const struct gt_fit *fit, struct gt_err *err);

/* Return the smallest n of 1, 2, 4 and 8 for which a picture reduced to n/8 has at least the pixels
 * of the output, or 8. */
int gt_view_eighths(const struct gt_view *view);

/* Return the same view of the picture that was reduced to eighths/8 of its size. */
struct gt_view gt_view_reduced(const struct gt_view *view, int eighths);

/* Weights are integers, in units of 2^-GT_WEIGHT_BITS. */
enum { GT_WEIGHT_BITS = 22 };

/*
 * The weights for resizing in one direction. Output pixel i is
 *
 *   sum over k of weights[i * max_taps + k] * input[first[i] + k],  0 <= k < taps[i],
 *
 * divided by 2^GT_WEIGHT_BITS, rounded, and cut off at 0 and 255.
 */
struct gt_filter {
	/* number of output pixels, and of weights stored for each; unused weights are 0 */
	int count, max_taps;
	/* [count] index of the first input pixel of each output pixel, and number of its input
	 * pixels */
	int *first, *taps;
	int32_t *weights; /* [count, max_taps] */
	bool copies;      /* output pixel i is input pixel first[0] + i */
	/* For vector instructions (kernels.c); a quad is 4 taps. */
	int quads; /* largest number of quads of an output pixel */
	/* starts: byte offset of the first RGB pixel of each output pixel; pair_weights: `weights`
	 * as down() needs them */
	int32_t *starts, *pair_weights;
	int16_t *quad_weights; /* `weights` as across_rgb() needs them */
};

/* Functions that compute pixels with the vector instructions of some processors. All kernels give
 * the same bytes. */
struct gt_resize_kernel {
	const char *name;
	bool (*is_usable)(void); /* whether this processor has them */
	/* Resize a row to out[f->count, 3]. Reads up to 12 * f->quads + 16 bytes after the row, and
	 * writes up to GT_RESIZE_SLACK bytes after out. */
	void (*across_rgb)(const struct gt_filter *f, const uint8_t *row, uint8_t *out);
	/* Compute out[n], row `output` of the result: weighted sums of rows[k][n], 0 <= k <
	 * f->taps[output]. */
	void (*down)(const struct gt_filter *f, int output, const uint8_t *const *rows, size_t n,
	    uint8_t *out);
};

/* the largest number of bytes that a kernel writes after a row */
enum { GT_RESIZE_SLACK = 64 };

/* All kernels, the fastest first, ended by NULL. The last is plain C; the others are for
 * GT_BILINEAR only. */
extern const struct gt_resize_kernel *const gt_resize_kernels[];

/* Set quads, starts and quad_weights (across), or pair_weights (down). Errors: GT_ENOMEM. */
int gt_filter_pack_across(struct gt_filter *f, struct gt_err *err);
int gt_filter_pack_down(struct gt_filter *f, struct gt_err *err);

/* A picture that is resized row by row, while it is decoded. The result equals that of Pillow in
 * every bit. */
struct gt_resize {
	/* Set by gt_resize_init(): the rows [top, bottom) and columns [left, right) that are
	 * needed. */
	int top, bottom, left, right;
	/* the bytes that must follow each input row; their values do not matter */
	size_t slack;
	/* The members below are private. */
	const struct gt_resize_kernel *kernel;
	struct gt_filter across, down;
	int channels, next; /* next: next row of the output */
	size_t row_bytes;
	/* ring: the last down.max_taps input rows, resized across; out: the result */
	uint8_t *ring, *out;
	const uint8_t **window; /* [down.max_taps] rows of `ring` */
};

/* Start to resize to out[view->down.count, view->across.count, channels]; gt_resize_put() of row
 * r->bottom - 1 completes it. Release it even after an error. */
int gt_resize_init(struct gt_resize *r, const struct gt_view *view, int channels, uint8_t *out,
    struct gt_err *err);
void gt_resize_release(struct gt_resize *r);

/* Pass row y of the input, from column r->left on: all rows from r->top to r->bottom - 1, in
 * order. */
void gt_resize_put(struct gt_resize *r, int y, const uint8_t *row);

#endif
