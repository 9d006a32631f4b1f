/* fuzz_image.c - fuzz target: a JPEG or PNG, whole, cut out, made smaller, in gray and in RGB. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/images/images.h"
#include "lib/data/images/resize.h"
#include "tests/fuzz/fuzz.h"

/* The first bytes of an input choose the operation on the image behind them. */
enum { CHOICES = 4, SMALL = 16, MOST_WHOLE = 1 << 20 };

struct input {
	const unsigned char *choice; /* [CHOICES] */
	const unsigned char *bytes;
	size_t size;
};

struct picture {
	int height, width, channels;
	uint8_t *pixels;
};

static void release(struct picture *p)
{
	free(p->pixels);
	p->pixels = NULL;
}

/* Decode a view of the input. Pixels that are not written are found where bytes are compared. */
static int decode(struct picture *out, const struct input *in, const struct gt_view *view,
    int channels, bool reduced, int unwritten)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_image *image;
	size_t bytes;
	int rc;

	*out = (struct picture){ view->down.count, view->across.count, channels, NULL };
	bytes = (size_t)out->height * (size_t)out->width * (size_t)channels;
	out->pixels = malloc(bytes);
	fuzz_require(out->pixels);
	memset(out->pixels, unwritten, bytes);
	rc = gt_image_open(&image, in->bytes, in->size, &err);
	fuzz_require(!rc);
	rc = gt_image_read(image, view, channels, reduced, out->pixels, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	gt_image_close(image);
	return rc;
}

/* The same input gives the same pixels, all of which are written. */
static int decode_twice(struct picture *out, const struct input *in, const struct gt_view *view,
    int channels, bool reduced)
{
	struct picture again;
	int rc = decode(out, in, view, channels, reduced, 0x55);

	fuzz_require(rc == decode(&again, in, view, channels, reduced, 0xAA));
	fuzz_require(rc || !memcmp(out->pixels, again.pixels,
	                       (size_t)out->height * (size_t)out->width * (size_t)channels));
	release(&again);
	return rc;
}

/* Gray is that of the colours. */
static void check_gray(const struct picture *rgb, const struct picture *gray)
{
	for (size_t i = 0; i < (size_t)rgb->height * (size_t)rgb->width; i++)
		fuzz_require(gray->pixels[i] == gt_image_grey(rgb->pixels + 3 * i));
}

/* A decoded part equals the same part of the whole picture. */
static void check_part(const struct input *in, const struct picture *whole)
{
	int top = in->choice[1] % whole->height, left = in->choice[2] % whole->width;
	int height = 1 + in->choice[3] % (whole->height - top);
	int width = 1 + in->choice[1] % (whole->width - left);
	const struct gt_view view = { .down = { top, height, height, 0, height },
		.across = { left, width, width, 0, width } };
	size_t row = (size_t)whole->width * (size_t)whole->channels;
	struct picture part;

	fuzz_require(!decode_twice(&part, in, &view, whole->channels, false));
	for (int y = 0; y < height; y++)
		fuzz_require(!memcmp(part.pixels + y * width * whole->channels,
		    whole->pixels + (size_t)(top + y) * row + left * whole->channels,
		    (size_t)width * (size_t)whole->channels));
	release(&part);
}

static void use_whole(const struct input *in, int height, int width)
{
	const struct gt_view view = gt_view_whole(height, width);
	struct picture rgb, gray;
	int rc = decode_twice(&rgb, in, &view, 3, false);

	fuzz_require(rc == decode_twice(&gray, in, &view, 1, false));
	if (!rc) {
		check_gray(&rgb, &gray);
		check_part(in, in->choice[0] & 1 ? &rgb : &gray);
	}
	release(&rgb);
	release(&gray);
}

static void use_small(const struct input *in, int height, int width)
{
	struct gt_err err = GT_ERR_INIT;
	struct picture small;
	struct gt_view view;
	const struct gt_fit fit = { .kind =
		                        (enum gt_fit_kind)(in->choice[0] >> 2) % (GT_FIT_NONE + 1),
		.height = SMALL,
		.width = SMALL,
		.share = (1 + in->choice[3]) / 256.0,
		.interpolation = (enum gt_interpolation)(in->choice[3] % GT_INTERPOLATIONS) };
	int rc = gt_view_fit(
	    &view, height, width, 1 + in->choice[1] % SMALL, 1 + in->choice[2] % SMALL, &fit, &err);

	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	decode_twice(&small, in, &view, in->choice[0] & 1 ? 3 : 1, in->choice[0] & 2);
	release(&small);
}

void fuzz_image(const unsigned char *bytes, size_t size)
{
	const struct input in = { bytes, bytes + CHOICES, size - CHOICES };
	struct gt_err err = GT_ERR_INIT;
	struct gt_image *image;
	int height, width, rc;

	if (size < CHOICES)
		return;
	rc = gt_image_open(&image, in.bytes, in.size, &err);
	if (rc) {
		fuzz_require(!image);
		fuzz_check_error(rc, &err);
		return;
	}
	fuzz_require(gt_image_is_known(in.bytes, in.size));
	height = gt_image_height(image);
	width = gt_image_width(image);
	gt_image_close(image);
	fuzz_require(height > 0 && width > 0);
	fuzz_require((int64_t)height * width <= GT_IMAGE_MAX_PIXELS);
	use_small(&in, height, width);
	if ((int64_t)height * width <= MOST_WHOLE)
		use_whole(&in, height, width);
}
