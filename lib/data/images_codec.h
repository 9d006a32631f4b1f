/* images_codec.h - inside data: the decoders of images. */
#ifndef GT_DATA_IMAGES_CODEC_H
#define GT_DATA_IMAGES_CODEC_H

#include "lib/data/images.h"
#include "lib/data/resize.h"

/* Checks that all codecs make. `size` is the size of the file. Errors: GT_EFORMAT. */
int gt_image_check_size(uint64_t width, uint64_t height, struct gt_err *err);
int gt_image_impossible(const char *format, int width, int height, size_t size, struct gt_err *err);

/* Convert `count` pixels in place from `native` to `channels` channels; each of the two is 1 or 3.
 * `pixels` has memory for the larger number. */
void gt_image_convert(uint8_t *pixels, size_t count, int native, int channels);

/* ---- images_jpeg.c ---- */

/* A JPEG whose header has been read; borrows its bytes. */
struct gt_jpeg;

bool gt_jpeg_is(const unsigned char *data, size_t size);
int gt_jpeg_open(struct gt_jpeg **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err);
/* Decode the picture at eighths/8 of its size, and put the rows that `resize` needs into it. Only
 * the necessary part of the file is read and decoded. Call this once for each gt_jpeg_open(). */
int gt_jpeg_read(struct gt_jpeg *j, int eighths, struct gt_resize *resize, struct gt_err *err);
void gt_jpeg_close(struct gt_jpeg *j);

/* ---- images_png.c ---- */

struct gt_png;

bool gt_png_is(const unsigned char *data, size_t size);
int gt_png_open(struct gt_png **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err);
/* Read all pixels [height, width, channels]. *pixels is yours to free(), and has `slack` more bytes
 * at its end. Call this once for each gt_png_open(). */
int gt_png_read(struct gt_png *g, int channels, size_t slack, uint8_t **pixels, struct gt_err *err);
void gt_png_close(struct gt_png *g);

#endif
