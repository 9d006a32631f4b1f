/* resize.h - private: resize a part of a picture, row by row, while the picture is decoded. */
#ifndef GT_DATA_IMAGES_RESIZE_H
#define GT_DATA_IMAGES_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/images/image_fit.h"

/*
 * A view is a part of a picture and its size after resizing. struct gt_view_axis is one direction
 * of a view: `length` pixels of the input, from `start` on, are resized to `output` pixels. Only
 * `count` of these output pixels are computed, beginning with pixel `offset`. Input pixels outside
 * of these `length` pixels have no effect on the output.
 *
 * For example, this is the view of a picture of 500 x 375 pixels (width x height) that has the
 * effect of torchvision's Resize(224) and CenterCrop(224):
 *
 *   across { 0, 500, 298, 37, 224 }    500 pixels become 298, of which the middle 224 are computed
 *   down   { 0, 375, 224, 0, 224 }     375 pixels become 224, and all of them are computed
 *
 * In one direction, torchvision's resized_crop() of 100 pixels from pixel 30 on, resized to 224
 * pixels, is { 30, 100, 224, 0, 224 }.
 */
struct gt_view_axis {
	double start, length;
	int output, offset, count;
};

/* A view in both directions. The result has down.count rows of across.count pixels. */
struct gt_view {
	struct gt_view_axis down, across;
	enum gt_interpolation interpolation;
};

/* A rectangle in a picture, in pixels. */
struct gt_box {
	int top, left, height, width;
};

/* Return the view in which a rectangle of a picture is resized to to_height x to_width pixels, with
 * the filter GT_BILINEAR. The result is the same as if the picture were cropped to the rectangle
 * first. */
struct gt_view gt_view_box(const struct gt_box *box, int to_height, int to_width);

/* Return the view of a whole picture in its own size, which changes nothing. */
struct gt_view gt_view_whole(int height, int width);

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
    const struct gt_fit *fit, struct gt_err *err);

/* A JPEG decoder can reduce a picture to n/8 of its size for n = 1, 2, 4 or 8. Return the smallest
 * n for which the reduced part has, in each direction, at least as many pixels as after resizing.
 * Return 8 if there is no such n. */
int gt_view_eighths(const struct gt_view *view);

/* Return a view of the picture after it was reduced to eighths/8 of its size. This view has the
 * same part of the picture and the same output size as `view`, which is for the original
 * picture. */
struct gt_view gt_view_reduced(const struct gt_view *view, int eighths);

/* The weights of a filter are integers, in units of 2^-GT_WEIGHT_BITS. */
enum { GT_WEIGHT_BITS = 22 };

/*
 * A filter has the weights for resizing in one direction. Output pixel i is
 *
 *   sum over k of weights[i * max_taps + k] * input[first[i] + k],  0 <= k < taps[i],
 *
 * divided by 2^GT_WEIGHT_BITS, rounded, and cut off at 0 and 255. Weights of GT_BILINEAR are >= 0
 * and below 2^GT_WEIGHT_BITS. A single weight of exactly 2^GT_WEIGHT_BITS is stored as
 * 2^GT_WEIGHT_BITS - 1, which gives the same pixels.
 */
struct gt_filter {
	/* count: number of output pixels. max_taps: number of weights stored for each output pixel;
	 * unused weights are 0. */
	int count, max_taps;
	/* [count] for each output pixel: `first` has the index of the first input pixel that it
	 * depends on, and `taps` the number of these input pixels. */
	int *first, *taps;
	int32_t *weights; /* [count, max_taps] */
	bool copies;      /* every output pixel i is a copy of input pixel first[0] + i */
	/* The members below are for vector instructions (kernels.c). A tap is an input
	 * pixel on which an output pixel depends. A quad is a group of 4 taps. */
	int quads; /* number of quads of the output pixel with the most taps */
	/* starts: for each output pixel, the byte offset of its first RGB input pixel.
	 * pair_weights: a copy of `weights`, in the layout that gt_resize_kernel.down() needs. */
	int32_t *starts, *pair_weights;
	int16_t *quad_weights; /* a copy of `weights`, for gt_resize_kernel.across_rgb() */
};

/* A resize kernel: functions that compute pixels, written for the vector instructions of some
 * processors. All resize kernels give the same bytes. */
struct gt_resize_kernel {
	const char *name;
	bool (*is_usable)(void); /* return whether this processor has the instructions */
	/* Resize a row of RGB pixels in the horizontal direction, to out[f->count, 3]. The function
	 * reads up to 12 * f->quads + 16 bytes after the last pixel of the row, and writes up to
	 * GT_RESIZE_SLACK bytes after the last pixel of out. */
	void (*across_rgb)(const struct gt_filter *f, const uint8_t *row, uint8_t *out);
	/* Compute out[n]: row number `output` of the result, n bytes. Byte i is the
	 * weighted sum of the bytes rows[k][i], 0 <= k < f->taps[output], with the weights that
	 * `f` has for output pixel `output`. */
	void (*down)(const struct gt_filter *f, int output, const uint8_t *const *rows, size_t n,
	    uint8_t *out);
};

/* The most bytes that a resize kernel writes after the last pixel of a row. */
enum { GT_RESIZE_SLACK = 64 };

/* All kernels, the fastest first; the last one is plain C and always usable. NULL ends the list.
 * The others are for GT_BILINEAR only, whose weights are not negative. */
extern const struct gt_resize_kernel *const gt_resize_kernels[];

/* Set the members of a filter for vector instructions: gt_filter_pack_across() sets quads, starts
 * and quad_weights, and gt_filter_pack_down() sets pair_weights. Errors: GT_ENOMEM. */
int gt_filter_pack_across(struct gt_filter *f, struct gt_err *err);
int gt_filter_pack_down(struct gt_filter *f, struct gt_err *err);

/*
 * The state of a picture that is resized row by row. The caller passes the rows of the input in
 * order. Each row of the output is computed as soon as all input rows that it needs are known.
 * The result is equal in every bit to Pillow's with the filter of the same name, which is
 * antialiased.
 */
struct gt_resize {
	/* Set by gt_resize_init(): the result depends only on rows [top, bottom) and columns [left,
	 * right) of the input. */
	int top, bottom, left, right;
	/* Also set by gt_resize_init(): the number of bytes of memory that must follow each input
	 * row. These bytes are read, but their values do not matter. */
	size_t slack;
	/* The members below are private. */
	const struct gt_resize_kernel *kernel;
	struct gt_filter across, down;
	int channels, next; /* next: the next row of the output */
	size_t row_bytes;   /* bytes of an output row */
	/* ring: a ring buffer with the last down.max_taps input rows, already resized in the
	 * horizontal direction.
	 * out: where the result is written. */
	uint8_t *ring, *out;
	const uint8_t **window; /* [down.max_taps] the rows of `ring` that an output row needs */
};

/* Start to resize. The result is written to out[view->down.count, view->across.count, channels].
 * The result is complete after gt_resize_put() of row r->bottom - 1. The caller calls
 * gt_resize_release(), even after an error. Errors: GT_ENOMEM. */
int gt_resize_init(struct gt_resize *r, const struct gt_view *view, int channels, uint8_t *out,
    struct gt_err *err);
void gt_resize_release(struct gt_resize *r);

/* Pass row y of the input to the resizer. Call this for all rows from r->top to r->bottom - 1, in
 * order. `row` points to the pixel in column r->left. */
void gt_resize_put(struct gt_resize *r, int y, const uint8_t *row);

#endif
