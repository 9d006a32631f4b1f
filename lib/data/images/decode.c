/* decode.c - the part of an image that is wanted, out of a picture in memory. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/images/codec.h"
#include "lib/data/images/exif.h"

struct gt_image {
	struct gt_jpeg *jpeg; /* or */
	struct gt_png *png;   /* or */
	struct gt_webp *webp;
	int height, width; /* size of the stored picture */
	int orientation;   /* 1: upright; from 5 on the sides are exchanged */
};

int gt_image_check_size(uint64_t width, uint64_t height, struct gt_err *err)
{
	if (width && height && width * height <= GT_IMAGE_MAX_PIXELS)
		return 0;
	gt_err_set(err, GT_EFORMAT, "an image of %llu x %llu pixels", (unsigned long long)width,
	    (unsigned long long)height);
	return gt_err_hint(err, "images have 1 to %d pixels", GT_IMAGE_MAX_PIXELS);
}

int gt_image_fail_too_small(
    const char *format, int width, int height, size_t size, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "corrupt %s: %d x %d pixels cannot come out of %zu bytes",
	    format, width, height, size);
	return gt_err_hint(err, "the image is damaged; replace or remove it");
}

/* Grey becomes RGB from the last pixel to the first, and RGB becomes grey from the first to the
 * last, so that this works in place. */
void gt_image_convert(uint8_t *p, size_t count, int native, int channels)
{
	if (native == 1 && channels == 3)
		for (size_t i = count; i-- > 0;)
			p[3 * i] = p[3 * i + 1] = p[3 * i + 2] = p[i];
	else if (native == 3 && channels == 1)
		for (size_t i = 0; i < count; i++)
			p[i] = gt_image_grey(p + 3 * i);
}

bool gt_image_is_known(const unsigned char *data, size_t size)
{
	const struct gt_image_format *format = gt_image_format_of_bytes(data, size);

	return format && format->decoder != GT_DECODER_NONE;
}

static int fail_format(const struct gt_image_format *format, const unsigned char *data, size_t size,
    struct gt_err *err)
{
	if (format) {
		gt_err_set(
		    err, GT_EFORMAT, "%s is a format that gtrain does not read", format->name);
		return gt_err_hint(err, "convert the image to " GT_IMAGE_FORMATS_OR);
	}
	gt_err_set(err, GT_EFORMAT, "neither a JPEG, a PNG nor a WebP");
	if (gt_text_is_plain(data, size))
		return gt_err_hint(err, "the file has text, and an image is needed");
	return gt_err_hint(err, "the image is damaged; replace or remove it");
}

static int open_decoder(
    struct gt_image *image, const unsigned char *data, size_t size, struct gt_err *err)
{
	const struct gt_image_format *format = gt_image_format_of_bytes(data, size);
	int *height = &image->height, *width = &image->width;

	switch (format ? format->decoder : GT_DECODER_NONE) {
	case GT_DECODER_JPEG:
		image->orientation = gt_exif_orientation(data, size);
		return gt_jpeg_open(&image->jpeg, data, size, height, width, err);
	case GT_DECODER_PNG:
		return gt_png_open(&image->png, data, size, height, width, err);
	case GT_DECODER_WEBP:
		return gt_webp_open(&image->webp, data, size, height, width, err);
	default:
		return fail_format(format, data, size, err);
	}
}

int gt_image_open(struct gt_image **out, const unsigned char *data, size_t size, struct gt_err *err)
{
	struct gt_image *image = gt_calloc(1, sizeof(*image), err);
	int rc;

	*out = NULL;
	if (!image)
		return GT_ENOMEM;
	image->orientation = 1;
	rc = open_decoder(image, data, size, err);
	if (rc)
		gt_image_close(image);
	else
		*out = image;
	return rc;
}

void gt_image_close(struct gt_image *image)
{
	if (!image)
		return;
	gt_jpeg_close(image->jpeg);
	gt_png_close(image->png);
	gt_webp_close(image->webp);
	free(image);
}

int gt_image_height(const struct gt_image *image)
{
	return image->orientation >= 5 ? image->width : image->height;
}

int gt_image_width(const struct gt_image *image)
{
	return image->orientation >= 5 ? image->height : image->width;
}

static int reduce(int length, int eighths)
{
	return (int)(((int64_t)length * eighths + 7) / 8);
}

/* Read a JPEG that lies on its side: decode all of it, then turn it. */
static int read_turned(const struct gt_image *image, int eighths, const struct gt_resize *resize,
    uint8_t **pixels, struct gt_err *err)
{
	int height = reduce(image->height, eighths), width = reduce(image->width, eighths);
	size_t bytes = (size_t)height * (size_t)width * (size_t)resize->channels;
	const struct gt_view view = gt_view_whole(height, width);
	uint8_t *lying = gt_calloc(bytes, 1, err);
	struct gt_resize whole = { 0 };
	int rc = GT_ENOMEM;

	*pixels = gt_calloc(bytes + resize->slack, 1, err);
	if (lying && *pixels)
		rc = gt_resize_init(&whole, &view, resize->channels, lying, err);
	if (!rc)
		rc = gt_jpeg_read(image->jpeg, eighths, &whole, err);
	if (!rc)
		gt_exif_turn(*pixels, lying, width, height, resize->channels, image->orientation);
	gt_resize_release(&whole);
	free(lying);
	return rc;
}

/* Decode all pixels into memory, then resize them. */
static int read_by_memory(
    const struct gt_image *image, int eighths, struct gt_resize *r, struct gt_err *err)
{
	size_t c = (size_t)r->channels, width = (size_t)reduce(gt_image_width(image), eighths);
	uint8_t *pixels = NULL;
	int rc;

	if (image->jpeg)
		rc = read_turned(image, eighths, r, &pixels, err);
	else if (image->png)
		rc = gt_png_read(image->png, r->channels, r->slack, &pixels, err);
	else
		rc = gt_webp_read(image->webp, r->channels, r->slack, &pixels, err);
	for (int y = r->top; !rc && y < r->bottom; y++)
		gt_resize_put(r, y, pixels + ((size_t)y * width + (size_t)r->left) * c);
	free(pixels);
	return rc;
}

/* The view of the reduced picture. The last pixel of a reduced row may be a part of one; after a
 * turn that part may come first. */
static struct gt_view reduce_view(
    const struct gt_image *image, const struct gt_view *view, int eighths)
{
	struct gt_view v = gt_view_reduced(view, eighths);
	int height = gt_image_height(image), width = gt_image_width(image);

	if (strchr("\2\3\6\7", image->orientation))
		v.across.start += reduce(width, eighths) - width * eighths / 8.0;
	if (strchr("\3\4\7\10", image->orientation))
		v.down.start += reduce(height, eighths) - height * eighths / 8.0;
	return v;
}

/*
 * Decode a part of the upright picture, and resize it (resize.h). Call this at most once for each
 * opened image.
 *
 *   view       the part, and its size after resizing
 *   channels   1 (grey) or 3 (RGB)
 *   reduced    decode a JPEG at 4/8, 2/8 or 1/8 of its size, if it would be resized to half of its
 *              size or less. This takes less time; pixels then differ a little.
 *   pixels     result: [view->down.count, view->across.count, channels]; undefined after an error
 *
 * Pixels are equal to Pillow's convert("RGB") and convert("L"): accurate integer DCT, smooth chroma
 * upsampling; alpha and transparent colors are dropped; a JPEG of four colors is read as inverted
 * CMYK. Values of 16 bits are reduced to their upper 8 bits. There is one difference from Pillow:
 * in 16-bit grey PNGs, Pillow clips values at 255, so its images are white.
 *
 * Pixels of a JPEG that the view does not need are not decoded, so damage in them is not noticed.
 *
 * Errors: GT_EFORMAT (corrupt, cut short, size and content disagree), GT_ENOTSUP, GT_ENOMEM.
 */
int gt_image_read(struct gt_image *image, const struct gt_view *view, int channels, bool reduced,
    uint8_t *pixels, struct gt_err *err)
{
	int eighths = reduced && image->jpeg ? gt_view_eighths(view) : 8;
	const struct gt_view v = reduce_view(image, view, eighths);
	struct gt_resize resize;
	int rc = gt_resize_init(&resize, &v, channels, pixels, err);

	if (!rc)
		rc = image->jpeg && image->orientation == 1
		         ? gt_jpeg_read(image->jpeg, eighths, &resize, err)
		         : read_by_memory(image, eighths, &resize, err);
	gt_resize_release(&resize);
	return rc;
}
