/* jpeg.c - the rows and columns of a JPEG that are needed. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jpeglib.h wants stdio.h before it. */
#include <jerror.h>
#include <jpeglib.h>

#include "lib/data/images/codec.h"

/*
 * The library reports errors by calling a function that must not return. All state lives in struct
 * gt_jpeg, so no local variable of the function with the setjmp() is of interest after a longjmp().
 */

/* At a border, the smooth upsampling of colors takes a pixel for its neighbor; so columns are
 * decoded up to here beside those that are needed. */
enum { MAX_SCANS = 500, BORDER = 8, ROWS = 16 };

struct gt_jpeg {
	struct jpeg_error_mgr manager; /* first: the library knows only this */
	struct jpeg_decompress_struct d;
	struct jpeg_progress_mgr progress;
	jmp_buf jump;
	int eighths;
	struct gt_resize *resize;
	uint8_t *rows; /* ROWS of them, decoded */
	int rc;
	struct gt_err *err;
};

static void fail_jpeg(j_common_ptr common)
{
	struct gt_jpeg *j = (struct gt_jpeg *)common->err;
	char text[JMSG_LENGTH_MAX];

	j->manager.format_message(common, text);
	j->rc =
	    gt_err_set(j->err, j->manager.msg_code == JERR_OUT_OF_MEMORY ? GT_ENOMEM : GT_EFORMAT,
	        "corrupt JPEG: %s", text);
	gt_err_hint(j->err, "the image is damaged; replace or remove it");
	longjmp(j->jump, 1);
}

/* Warnings that leave every pixel right. */
static void warn(j_common_ptr common, int level)
{
	struct gt_jpeg *j = (struct gt_jpeg *)common->err;

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
	struct gt_jpeg *j = (struct gt_jpeg *)common->err;

	if (j->d.input_scan_number <= MAX_SCANS)
		return;
	j->rc = gt_err_set(j->err, GT_EFORMAT, "a JPEG of more than %d scans", MAX_SCANS);
	longjmp(j->jump, 1);
}

/* Pillow takes CMYK for inverted, as Adobe writes it; so value = color * black / 255. */
static void cmyk_to_rgb(uint8_t *pixels, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int k = 0; k < 3; k++) {
			unsigned black = pixels[4 * i + 3], ink = 255u - pixels[4 * i + k];
			unsigned product = ink * black + 128;

			pixels[3 * i + k] = (uint8_t)(black - (((product >> 8) + product) >> 8));
		}
}

/* Each block of 8 x 8 pixels takes at least a bit after the header, with Huffman codes. A header
 * with more pixels than that is rejected before memory is allocated for them. The arithmetic coder
 * has no such bound. */
static int check_pixel_count(const struct gt_jpeg *j)
{
	const struct jpeg_decompress_struct *d = &j->d;
	uint64_t pixels = (uint64_t)d->image_width * d->image_height;

	if (d->arith_code || pixels / 512 <= d->src->bytes_in_buffer)
		return 0;
	return gt_image_fail_too_small(
	    "JPEG", (int)d->image_width, (int)d->image_height, d->src->bytes_in_buffer, j->err);
}

/*
 * Whether coefficients are missing, after all scans of a progressive JPEG: the library then
 * estimates them from neighboring blocks, across the borders of the part that is decoded.
 */
static bool is_smoothed(const struct jpeg_decompress_struct *d)
{
	for (int c = 0; d->coef_bits && c < d->num_components; c++)
		for (int i = 0; i < DCTSIZE2; i++)
			if (d->coef_bits[c][i])
				return true;
	return false;
}

/* Decode no other columns than [left, right) and their neighbors. Returns the first one. */
static int crop_columns(struct gt_jpeg *j, int left, int right)
{
	JDIMENSION width = j->d.output_width,
	           first = left > BORDER ? (JDIMENSION)(left - BORDER) : 0;
	JDIMENSION end = (JDIMENSION)right + BORDER < width ? (JDIMENSION)right + BORDER : width;

	width = end - first;
	if (width == j->d.output_width || is_smoothed(&j->d))
		return 0;
	jpeg_crop_scanline(&j->d, &first, &width);
	return (int)first;
}

/*
 * The memory for rows. It is odd where a row begins: libjpeg-turbo writes rows that are aligned for
 * vectors past the cache, where the resizing would have to fetch them from.
 */
static int alloc_rows(struct gt_jpeg *j, JSAMPROW rows[ROWS], int native)
{
	const struct gt_resize *r = j->resize;
	int max = native > r->channels ? native : r->channels;
	size_t bytes = ((size_t)j->d.output_width * (size_t)max + r->slack) | 1;

	bytes += 64 - bytes % 64;
	j->rows = gt_calloc(ROWS, bytes, j->err);
	for (size_t i = 0; j->rows && i < ROWS; i++)
		rows[i] = j->rows + i * bytes + 1;
	return j->rows ? 0 : GT_ENOMEM;
}

static void put_row(const struct gt_jpeg *j, int y, uint8_t *row, int native, int first)
{
	struct gt_resize *r = j->resize;

	if (native == 4) {
		cmyk_to_rgb(row, j->d.output_width);
		native = 3;
	}
	gt_image_convert(row, j->d.output_width, native, r->channels);
	gt_resize_put(r, y, row + (size_t)(r->left - first) * (size_t)r->channels);
}

/* The rows [top, bottom) of the columns kept; `first` is the first of these. */
static int decode_rows(struct gt_jpeg *j, int native, int first)
{
	struct jpeg_decompress_struct *d = &j->d;
	JDIMENSION bottom = (JDIMENSION)j->resize->bottom;
	JSAMPROW rows[ROWS];

	if (alloc_rows(j, rows, native))
		return GT_ENOMEM;
	if (j->resize->top > 0)
		jpeg_skip_scanlines(d, (JDIMENSION)j->resize->top);
	while (d->output_scanline < bottom) {
		int y = (int)d->output_scanline;
		JDIMENSION left = bottom - d->output_scanline;
		JDIMENSION got = jpeg_read_scanlines(d, rows, left < ROWS ? left : ROWS);

		for (JDIMENSION i = 0; i < got; i++)
			put_row(j, y + (int)i, rows[i], native, first);
	}
	if (bottom == d->output_height)
		jpeg_finish_decompress(d);
	return 0;
}

static int decode(struct gt_jpeg *j)
{
	struct jpeg_decompress_struct *d = &j->d;
	int native;

	if (setjmp(j->jump))
		return j->rc;
	native = d->num_components == 1 ? 1 : d->num_components == 4 ? 4 : 3;
	d->out_color_space = native == 1 ? JCS_GRAYSCALE : native == 4 ? JCS_CMYK : JCS_RGB;
	d->dct_method = JDCT_ISLOW;
	d->do_fancy_upsampling = TRUE;
	d->scale_num = (unsigned)j->eighths;
	d->scale_denom = 8;
	jpeg_start_decompress(d);
	return decode_rows(j, native, crop_columns(j, j->resize->left, j->resize->right));
}

int gt_jpeg_read(struct gt_jpeg *j, int eighths, struct gt_resize *resize, struct gt_err *err)
{
	j->eighths = eighths;
	j->resize = resize;
	j->err = err;
	return check_pixel_count(j) ? GT_EFORMAT : decode(j);
}

static int read_jpeg_header(struct gt_jpeg *j, const unsigned char *data, size_t size)
{
	if (setjmp(j->jump))
		return j->rc;
	jpeg_create_decompress(&j->d);
	j->progress.progress_monitor = check_scans;
	j->d.progress = &j->progress;
	jpeg_mem_src(&j->d, data, size);
	jpeg_read_header(&j->d, TRUE);
	return gt_image_check_size(j->d.image_width, j->d.image_height, j->err);
}

int gt_jpeg_open(struct gt_jpeg **out, const unsigned char *data, size_t size, int *height,
    int *width, struct gt_err *err)
{
	struct gt_jpeg *j = *out = gt_calloc(1, sizeof(*j), err);
	int rc;

	if (!j)
		return GT_ENOMEM;
	j->err = err;
	j->d.err = jpeg_std_error(&j->manager);
	j->manager.error_exit = fail_jpeg;
	j->manager.emit_message = warn;
	j->manager.output_message = say_nothing;
	rc = read_jpeg_header(j, data, size);
	if (rc) {
		gt_jpeg_close(j);
		*out = NULL;
		return rc;
	}
	*height = (int)j->d.image_height;
	*width = (int)j->d.image_width;
	return 0;
}

void gt_jpeg_close(struct gt_jpeg *j)
{
	if (!j)
		return;
	jpeg_destroy_decompress(&j->d);
	free(j->rows);
	free(j);
}
