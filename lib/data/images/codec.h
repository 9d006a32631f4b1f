/* codec.h - private: the decoders of JPEG, PNG and WebP. */
#ifndef GT_DATA_IMAGES_CODEC_H
#define GT_DATA_IMAGES_CODEC_H

#include "lib/data/images/images.h"
#include "lib/data/images/resize.h"

/* Check that an image has 1 to GT_IMAGE_MAX_PIXELS pixels. Errors: GT_EFORMAT. */
int gt_image_check_size(uint64_t width, uint64_t height, struct gt_err *err);
/* Set *err to GT_EFORMAT and return this code. The message says that a file of `size` bytes is too
 * small for an image of width * height pixels. */
int gt_image_fail_too_small(
    const char *format, int width, int height, size_t size, struct gt_err *err);

/* Convert `count` pixels in place from `native` channels to `channels` channels; both are 1 or 3.
 * `pixels` must have memory for `count` pixels with the larger of the two numbers of channels. */
void gt_image_convert(uint8_t *pixels, size_t count, int native, int channels);

/* ---- jpeg.c ---- */

struct gt_jpeg;

/* Read the header. The bytes are borrowed until gt_jpeg_close(). Height and width are those of the
 * stored picture, in pixels. The orientation in the file's metadata is not applied to them. */
int gt_jpeg_open(struct gt_jpeg **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err);
/* Decode the picture at eighths/8 of its size (`eighths` is 1, 2, 4 or 8), and resize it: this
 * function itself calls gt_resize_put() (lib/data/images/resize.h) for each row that `resize`
 * needs. Rows below the last needed row are not decoded. The caller calls this function once for
 * each gt_jpeg_open(). */
int gt_jpeg_read(struct gt_jpeg *j, int eighths, struct gt_resize *resize, struct gt_err *err);
void gt_jpeg_close(struct gt_jpeg *j);

/* ---- png.c ---- */

struct gt_png;

/* Read the header. The bytes are borrowed until gt_png_close(). Height and width are in pixels. */
int gt_png_open(struct gt_png **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err);
/* Decode all pixels to *pixels [height, width, channels], followed by `slack` unused bytes. The
 * caller frees *pixels with free(), and calls this function once for each gt_png_open(). */
int gt_png_read(struct gt_png *g, int channels, size_t slack, uint8_t **pixels, struct gt_err *err);
void gt_png_close(struct gt_png *g);

/* ---- webp.c: as for PNG; animations are GT_EFORMAT ---- */

struct gt_webp;

int gt_webp_open(struct gt_webp **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err);
int gt_webp_read(
    struct gt_webp *w, int channels, size_t slack, uint8_t **pixels, struct gt_err *err);
void gt_webp_close(struct gt_webp *w);

#endif
