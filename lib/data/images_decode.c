/* images_decode.c - JPEG and PNG from memory. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jpeglib.h wants stdio.h before it. */
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "lib/data/exif.h"
#include "lib/data/images.h"

/*
 * Both libraries report errors by calling a function that must not return. All state lives in a
 * struct that belongs to the caller of the function with the setjmp(), so no local variable of it
 * is of interest after a longjmp().
 */

enum { MAX_SCANS = 500 };

static int check_size(uint64_t width, uint64_t height, struct gt_err *err)
{
	if (width && height && width * height <= GT_IMAGE_MAX_PIXELS)
		return 0;
	gt_err_set(err, GT_EFORMAT, "an image of %llu x %llu pixels", (unsigned long long)width,
	    (unsigned long long)height);
	return gt_err_hint(err, "images have 1 to %d pixels", GT_IMAGE_MAX_PIXELS);
}

static int impossible(
    const char *format, const struct gt_image *image, size_t size, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "corrupt %s: %d x %d pixels cannot come out of %zu bytes",
	    format, image->width, image->height, size);
	return gt_err_hint(err, "the image is damaged; replace or remove it");
}

/* Room for height x width pixels of the wanted or of the file's channels, whatever is more. */
static int alloc_pixels(struct gt_image *image, int native, int wanted, struct gt_err *err)
{
	image->pixels = gt_calloc(
	    (size_t)image->height * image->width, (size_t)(native > wanted ? native : wanted), err);
	return image->pixels ? 0 : GT_ENOMEM;
}

/* ---- JPEG ---- */

struct jpeg {
	struct jpeg_error_mgr manager; /* first: the library knows only this */
	struct jpeg_decompress_struct d;
	struct jpeg_progress_mgr progress;
	jmp_buf jump;
	struct gt_image *image;
	int channels; /* wanted; 0: the size only */
	int rc;
	struct gt_err *err;
};

static void fail_jpeg(j_common_ptr common)
{
	struct jpeg *j = (struct jpeg *)common->err;
	char text[JMSG_LENGTH_MAX];

	j->manager.format_message(common, text);
	j->rc =
	    gt_err_set(j->err, j->manager.msg_code == JERR_OUT_OF_MEMORY ? GT_ENOMEM : GT_EFORMAT,
	        "corrupt JPEG: %s", text);
	gt_err_hint(j->err, "the image is damaged; replace or remove it");
	longjmp(j->jump, 1);
}

/* Warnings that leave every pixel what it was meant to be. */
static void warn_jpeg(j_common_ptr common, int level)
{
	struct jpeg *j = (struct jpeg *)common->err;

	if (level >= 0) /* a trace */
		return;
	switch (j->manager.msg_code) {
	case JWRN_EXTRANEOUS_DATA:
	case JWRN_ADOBE_XFORM:
	case JWRN_JFIF_MAJOR:
	case JWRN_TOO_MUCH_DATA:
	case JWRN_BOGUS_ICC:
		return;
	default:
		fail_jpeg(common);
	}
}

static void say_nothing(j_common_ptr common)
{
	(void)common;
}

/* A small file can ask for thousands of passes over a large image. */
static void check_scans(j_common_ptr common)
{
	struct jpeg *j = (struct jpeg *)common->err;

	if (j->d.input_scan_number <= MAX_SCANS)
		return;
	j->rc = gt_err_set(j->err, GT_EFORMAT, "a JPEG of more than %d scans", MAX_SCANS);
	longjmp(j->jump, 1);
}

/* Pillow takes CMYK for inverted, as Adobe writes it; so value = colour * black / 255. */
static void cmyk_to_rgb(uint8_t *pixels, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int k = 0; k < 3; k++) {
			unsigned black = pixels[4 * i + 3], ink = 255u - pixels[4 * i + k];
			unsigned product = ink * black + 128;

			pixels[3 * i + k] = (uint8_t)(black - (((product >> 8) + product) >> 8));
		}
}

/* With Huffman's codes each block of 8 x 8 pixels takes a bit or more of the bytes behind the
 * header. A header that promises more pixels is refused before any memory is taken for them. The
 * arithmetic coder has no such bound. */
static int check_jpeg_claim(const struct jpeg *j)
{
	uint64_t pixels = (uint64_t)j->d.image_width * j->d.image_height;

	if (j->d.arith_code || pixels / 512 <= j->d.src->bytes_in_buffer)
		return 0;
	return impossible("JPEG", j->image, j->d.src->bytes_in_buffer, j->err);
}

static int decode_jpeg(struct jpeg *j)
{
	struct jpeg_decompress_struct *d = &j->d;
	struct gt_image *image = j->image;
	int native;

	if (check_jpeg_claim(j))
		return GT_EFORMAT;
	native = d->num_components == 1 ? 1 : d->num_components == 4 ? 4 : 3;
	d->out_color_space = native == 1 ? JCS_GRAYSCALE : native == 4 ? JCS_CMYK : JCS_RGB;
	d->dct_method = JDCT_ISLOW;
	d->do_fancy_upsampling = TRUE;
	if (alloc_pixels(image, native, j->channels, j->err))
		return GT_ENOMEM;
	jpeg_start_decompress(d);
	while (d->output_scanline < d->output_height) {
		JSAMPROW row = image->pixels + (size_t)d->output_scanline * image->width * native;

		jpeg_read_scanlines(d, &row, 1);
	}
	jpeg_finish_decompress(d);
	image->channels = native;
	if (native == 4) {
		cmyk_to_rgb(image->pixels, (size_t)image->height * image->width);
		image->channels = 3;
	}
	return 0;
}

static int parse_jpeg(struct jpeg *j, const unsigned char *data, size_t size)
{
	if (setjmp(j->jump))
		return j->rc;
	jpeg_create_decompress(&j->d);
	j->progress.progress_monitor = check_scans;
	j->d.progress = &j->progress;
	jpeg_mem_src(&j->d, data, size);
	jpeg_read_header(&j->d, TRUE);
	j->rc = check_size(j->d.image_width, j->d.image_height, j->err);
	j->image->width = (int)j->d.image_width;
	j->image->height = (int)j->d.image_height;
	return j->rc || !j->channels ? j->rc : decode_jpeg(j);
}

static int read_jpeg(struct gt_image *image, const unsigned char *data, size_t size, int channels,
    struct gt_err *err)
{
	struct jpeg j = { .image = image, .channels = channels, .err = err };
	int rc;

	j.d.err = jpeg_std_error(&j.manager);
	j.manager.error_exit = fail_jpeg;
	j.manager.emit_message = warn_jpeg;
	j.manager.output_message = say_nothing;
	rc = parse_jpeg(&j, data, size);
	jpeg_destroy_decompress(&j.d);
	return rc;
}

/* ---- PNG ---- */

struct png {
	const unsigned char *data;
	size_t size, at;
	png_structp p;
	png_infop info;
	png_bytepp rows; /* [height] into the pixels */
	struct gt_image *image;
	int channels; /* wanted; 0: the size only */
	int rc;
	struct gt_err *err;
};

static void fail_png(png_structp p, png_const_charp message)
{
	struct png *g = png_get_error_ptr(p);

	g->rc = gt_err_set(g->err, GT_EFORMAT, "corrupt PNG: %s", message);
	gt_err_hint(g->err, "the image is damaged; replace or remove it");
	longjmp(png_jmpbuf(p), 1);
}

/* Most warnings are about metadata; more pixels than the size allows is not. */
static void warn_png(png_structp p, png_const_charp message)
{
	if (strstr(message, "Too much image data") || strstr(message, "Extra compressed data"))
		fail_png(p, "more pixels than its size allows");
}

static void supply_png(png_structp p, png_bytep out, size_t length)
{
	struct png *g = png_get_io_ptr(p);

	if (length > g->size - g->at)
		png_error(p, "the file is cut short");
	memcpy(out, g->data + g->at, length);
	g->at += length;
}

/* deflate packs at most 1032 bytes into one: a size beyond that is a lie, found before any memory
 * is taken for it. Source: zlib's "Technical Details", maximum compression factor. */
static int check_claim(const struct png *g, struct gt_err *err)
{
	uint64_t bytes = (uint64_t)png_get_rowbytes(g->p, g->info) * (uint64_t)g->image->height;

	if (bytes / 1032 <= g->size)
		return 0;
	return impossible("PNG", g->image, g->size, err);
}

static int decode_png(struct png *g)
{
	struct gt_image *image = g->image;
	int native, color = png_get_color_type(g->p, g->info);

	if (check_claim(g, g->err))
		return GT_EFORMAT;
	if (color == PNG_COLOR_TYPE_PALETTE)
		png_set_palette_to_rgb(g->p);
	if (color == PNG_COLOR_TYPE_GRAY)
		png_set_expand_gray_1_2_4_to_8(g->p);
	png_set_strip_16(g->p);
	png_set_strip_alpha(g->p);
	png_set_interlace_handling(g->p);
	png_read_update_info(g->p, g->info);
	native = png_get_channels(g->p, g->info);
	if ((native != 1 && native != 3) ||
	    png_get_rowbytes(g->p, g->info) != (size_t)image->width * (size_t)native)
		return gt_err_set(g->err, GT_ENOTSUP, "a PNG of %d channels", native);
	g->rows = gt_calloc((size_t)image->height, sizeof(*g->rows), g->err);
	if (!g->rows || alloc_pixels(image, native, g->channels, g->err))
		return GT_ENOMEM;
	for (int y = 0; y < image->height; y++)
		g->rows[y] = image->pixels + (size_t)y * image->width * native;
	png_read_image(g->p, g->rows);
	png_read_end(g->p, NULL);
	image->channels = native;
	return 0;
}

static int parse_png(struct png *g)
{
	static const png_byte useless[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0eXIf\0hIST";

	if (setjmp(png_jmpbuf(g->p)))
		return g->rc;
	/* Texts, profiles and the like may each inflate to megabytes, and are of no use here. */
	png_set_keep_unknown_chunks(g->p, PNG_HANDLE_CHUNK_NEVER, useless, sizeof(useless) / 5);
	png_set_user_limits(g->p, GT_IMAGE_MAX_PIXELS, GT_IMAGE_MAX_PIXELS);
	png_set_read_fn(g->p, g, supply_png);
	png_read_info(g->p, g->info);
	g->image->width = (int)png_get_image_width(g->p, g->info);
	g->image->height = (int)png_get_image_height(g->p, g->info);
	g->rc = check_size((uint64_t)g->image->width, (uint64_t)g->image->height, g->err);
	return g->rc || !g->channels ? g->rc : decode_png(g);
}

static int read_png(struct gt_image *image, const unsigned char *data, size_t size, int channels,
    struct gt_err *err)
{
	struct png g = {
		.data = data, .size = size, .image = image, .channels = channels, .err = err
	};
	int rc;

	g.p = png_create_read_struct(PNG_LIBPNG_VER_STRING, &g, fail_png, warn_png);
	g.info = g.p ? png_create_info_struct(g.p) : NULL;
	rc = g.info ? parse_png(&g) : gt_err_set(err, GT_ENOMEM, "out of memory: decoding a PNG");
	png_destroy_read_struct(&g.p, &g.info, NULL);
	free(g.rows);
	return rc;
}

/* ---- both ---- */

static bool is_jpeg(const unsigned char *data, size_t size)
{
	return size >= 3 && data[0] == 0xFF && data[1] == 0xD8 && data[2] == 0xFF;
}

static bool is_png(const unsigned char *data, size_t size)
{
	return size >= 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8);
}

bool gt_image_is_known(const unsigned char *data, size_t size)
{
	return is_jpeg(data, size) || is_png(data, size);
}

/* Turn a JPEG upright, whose pixels may be there; `channels` are those wanted. */
static int turn(struct gt_image *image, int orientation, int channels, struct gt_err *err)
{
	struct gt_image upright = *image;
	int rc = 0;

	if (orientation == 1)
		return 0;
	if (orientation >= 5) {
		upright.width = image->height;
		upright.height = image->width;
	}
	if (image->pixels) {
		rc = alloc_pixels(&upright, image->channels, channels, err);
		if (rc)
			return rc;
		gt_exif_turn(upright.pixels, image->pixels, image->width, image->height,
		    image->channels, orientation);
		free(image->pixels);
	}
	*image = upright;
	return 0;
}

static int read_image(
    struct gt_image *out, const unsigned char *data, size_t size, int channels, struct gt_err *err)
{
	*out = (struct gt_image){ 0 };
	if (is_jpeg(data, size)) {
		int rc = read_jpeg(out, data, size, channels, err);

		return rc ? rc : turn(out, gt_exif_orientation(data, size), channels, err);
	}
	if (is_png(data, size))
		return read_png(out, data, size, channels, err);
	gt_err_set(err, GT_EFORMAT, "neither a JPEG nor a PNG");
	return gt_err_hint(err, "the image is damaged; replace or remove it");
}

/* From grey to RGB backwards, from RGB to grey forwards, so that it works in place. */
static void convert(struct gt_image *image, int channels)
{
	size_t count = (size_t)image->height * image->width;
	uint8_t *p = image->pixels;

	if (image->channels == 1 && channels == 3)
		for (size_t i = count; i-- > 0;)
			p[3 * i] = p[3 * i + 1] = p[3 * i + 2] = p[i];
	else if (image->channels == 3 && channels == 1)
		for (size_t i = 0; i < count; i++)
			p[i] = gt_image_grey(p + 3 * i);
	image->channels = channels;
}

int gt_image_probe(struct gt_image *out, const unsigned char *data, size_t size, struct gt_err *err)
{
	return read_image(out, data, size, 0, err);
}

int gt_image_decode(
    struct gt_image *out, const unsigned char *data, size_t size, int channels, struct gt_err *err)
{
	int rc = read_image(out, data, size, channels, err);

	if (rc) {
		free(out->pixels);
		*out = (struct gt_image){ 0 };
		return rc;
	}
	convert(out, channels);
	return 0;
}
