/* png.c - the pixels of a PNG. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "lib/data/images/codec.h"

/*
 * The library reports errors by calling a function that must not return. All state lives in struct
 * gt_png, so no local variable of the function with the setjmp() is of interest after a longjmp().
 */
struct gt_png {
	const unsigned char *data;
	size_t size, at;
	png_structp p;
	png_infop info;
	int height, width;
	int channels; /* wanted */
	bool indexed; /* pixels are indices of a palette */
	size_t slack;
	uint8_t *pixels;
	png_bytepp rows; /* [height] into the pixels */
	int rc;
	struct gt_err *err;
};

static int fail_corrupt(struct gt_png *g, const char *message)
{
	gt_err_set(g->err, GT_EFORMAT, "corrupt PNG: %s", message);
	return gt_err_hint(g->err, "the image is damaged; replace or remove it");
}

static void fail_png(png_structp p, png_const_charp message)
{
	struct gt_png *g = png_get_error_ptr(p);

	g->rc = fail_corrupt(g, message);
	longjmp(png_jmpbuf(p), 1);
}

/* Most warnings are about metadata; more pixels than the size allows is not. */
static void warn(png_structp p, png_const_charp message)
{
	if (strstr(message, "Too much image data") || strstr(message, "Extra compressed data"))
		fail_png(p, "more pixels than its size allows");
}

static void supply(png_structp p, png_bytep out, size_t length)
{
	struct gt_png *g = png_get_io_ptr(p);

	if (length > g->size - g->at)
		png_error(p, "the file is cut short");
	memcpy(out, g->data + g->at, length);
	g->at += length;
}

/* deflate packs at most 1032 bytes into one: a size beyond that is a lie, found before any memory
 * is taken for it. Source: zlib's "Technical Details", maximum compression factor. */
static int check_pixel_count(const struct gt_png *g)
{
	uint64_t bytes = (uint64_t)png_get_rowbytes(g->p, g->info) * (uint64_t)g->height;

	if (bytes / 1032 <= g->size)
		return 0;
	return gt_image_fail_too_small("PNG", g->width, g->height, g->size, g->err);
}

/* Set the conversions to 8 bits, of grey, RGB or a palette's index; returns how many channels the
 * pixels will have. */
static int convert(struct gt_png *g)
{
	int color = png_get_color_type(g->p, g->info);

	g->indexed = color == PNG_COLOR_TYPE_PALETTE;
	if (g->indexed)
		png_set_packing(g->p);
	if (color == PNG_COLOR_TYPE_GRAY)
		png_set_expand_gray_1_2_4_to_8(g->p);
	png_set_strip_16(g->p);
	png_set_strip_alpha(g->p);
	png_set_interlace_handling(g->p);
	png_read_update_info(g->p, g->info);
	return g->indexed ? 3 : png_get_channels(g->p, g->info);
}

/* The colors of indices, in place, from the last one on. libpng does not check them where it does
 * this, and shows black for those beyond the palette. */
static int look_up_colors(struct gt_png *g)
{
	size_t count = (size_t)g->height * (size_t)g->width;
	png_colorp palette = NULL;
	int size = 0;

	png_get_PLTE(g->p, g->info, &palette, &size);
	for (size_t i = count; i-- > 0;) {
		int index = g->pixels[i];

		if (index >= size)
			return fail_corrupt(g, "a pixel's index is beyond its palette");
		g->pixels[3 * i] = palette[index].red;
		g->pixels[3 * i + 1] = palette[index].green;
		g->pixels[3 * i + 2] = palette[index].blue;
	}
	return 0;
}

/* Memory for the pixels of the file's or of the wanted channels, whatever are more. */
static int alloc_pixels(struct gt_png *g, int native)
{
	size_t row = (size_t)g->width * (size_t)(g->indexed ? 1 : native),
	       height = (size_t)g->height;
	size_t max = (size_t)g->width * (size_t)(native > g->channels ? native : g->channels);

	g->rows = gt_calloc(height, sizeof(*g->rows), g->err);
	g->pixels = gt_calloc(height * max + g->slack, 1, g->err);
	if (!g->rows || !g->pixels)
		return GT_ENOMEM;
	for (size_t y = 0; y < height; y++)
		g->rows[y] = g->pixels + y * row;
	return 0;
}

static int decode(struct gt_png *g)
{
	int native, stored;

	if (setjmp(png_jmpbuf(g->p)))
		return g->rc;
	if (check_pixel_count(g))
		return GT_EFORMAT;
	native = convert(g);
	stored = g->indexed ? 1 : native;
	if ((native != 1 && native != 3) ||
	    png_get_rowbytes(g->p, g->info) != (size_t)g->width * (size_t)stored)
		return gt_err_set(g->err, GT_ENOTSUP, "a PNG of %d channels", native);
	if (alloc_pixels(g, native))
		return GT_ENOMEM;
	png_read_image(g->p, g->rows);
	png_read_end(g->p, NULL);
	if (g->indexed && look_up_colors(g))
		return GT_EFORMAT;
	gt_image_convert(g->pixels, (size_t)g->height * (size_t)g->width, native, g->channels);
	return 0;
}

int gt_png_read(struct gt_png *g, int channels, size_t slack, uint8_t **pixels, struct gt_err *err)
{
	int rc;

	g->channels = channels;
	g->slack = slack;
	g->err = err;
	rc = decode(g);
	*pixels = rc ? NULL : g->pixels;
	if (!rc)
		g->pixels = NULL;
	return rc;
}

static int read_png_header(struct gt_png *g)
{
	static const png_byte useless[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0eXIf\0hIST";

	if (setjmp(png_jmpbuf(g->p)))
		return g->rc;
	/* Texts, profiles and the like may each inflate to megabytes, and are of no use here. */
	png_set_keep_unknown_chunks(g->p, PNG_HANDLE_CHUNK_NEVER, useless, sizeof(useless) / 5);
	png_set_user_limits(g->p, GT_IMAGE_MAX_PIXELS, GT_IMAGE_MAX_PIXELS);
	png_set_read_fn(g->p, g, supply);
	png_read_info(g->p, g->info);
	g->width = (int)png_get_image_width(g->p, g->info);
	g->height = (int)png_get_image_height(g->p, g->info);
	return gt_image_check_size((uint64_t)g->width, (uint64_t)g->height, g->err);
}

int gt_png_open(struct gt_png **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err)
{
	struct gt_png *g = *out = gt_calloc(1, sizeof(*g), err);
	int rc;

	if (!g)
		return GT_ENOMEM;
	g->data = data;
	g->size = size;
	g->err = err;
	g->p = png_create_read_struct(PNG_LIBPNG_VER_STRING, g, fail_png, warn);
	g->info = g->p ? png_create_info_struct(g->p) : NULL;
	rc = g->info ? read_png_header(g)
	             : gt_err_set(err, GT_ENOMEM, "out of memory: decoding a PNG");
	if (rc) {
		gt_png_close(g);
		*out = NULL;
		return rc;
	}
	*height = g->height;
	*width = g->width;
	return 0;
}

void gt_png_close(struct gt_png *g)
{
	if (!g)
		return;
	png_destroy_read_struct(&g->p, &g->info, NULL);
	free(g->rows);
	free(g->pixels);
	free(g);
}
