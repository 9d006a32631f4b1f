/* data_fixture.h - files for the tests of lib/data, made in a temporary folder. */
#ifndef GT_TESTS_DATA_FIXTURE_H
#define GT_TESTS_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <jpeglib.h>
#include <png.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/base/file.h"
#include "lib/data/core/data.h"

#define UNUSED __attribute__((unused))

struct fixture {
	char folder[64];
};

/* A path in the fixture's folder, in one of a few static buffers that take turns. */
UNUSED static const char *in(const struct fixture *f, const char *name)
{
	static char paths[8][512];
	static int turn;
	char *path = paths[turn++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", f->folder, name);
	return path;
}

UNUSED static void fixture_open(struct fixture *f)
{
	snprintf(f->folder, sizeof(f->folder), "/tmp/gtrain-test-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

UNUSED static void fixture_close(struct fixture *f)
{
	assert_int_equal(nftw(f->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Create the folders that a file's path needs. */
static FILE *create(const struct fixture *f, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s", in(f, name));
	*strrchr(path, '/') = '\0';
	assert_int_equal(gt_make_dirs(path, NULL), 0);
	file = fopen(in(f, name), "wb");
	assert_non_null(file);
	return file;
}

UNUSED static void put_bytes(const struct fixture *f, const char *name, const void *p, size_t size)
{
	FILE *file = create(f, name);

	assert_int_equal(fwrite(p, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

UNUSED static void put_text(const struct fixture *f, const char *name, const char *text)
{
	put_bytes(f, name, text, strlen(text));
}

UNUSED static void put_gz(const struct fixture *f, const char *name, const void *p, size_t size)
{
	gzFile file;

	fclose(create(f, name));
	file = gzopen(in(f, name), "wb");
	assert_non_null(file);
	assert_int_equal(gzwrite(file, p, (unsigned)size), size);
	assert_int_equal(gzclose(file), Z_OK);
}

/* Leave off the last `cut` bytes of a file. */
UNUSED static void cut_file(const struct fixture *f, const char *name, size_t cut)
{
	struct gt_mapping map;
	size_t size;

	assert_int_equal(gt_map(&map, in(f, name), NULL), 0);
	size = map.size;
	gt_unmap(&map);
	assert_true(size > cut);
	assert_int_equal(truncate(in(f, name), (off_t)(size - cut)), 0);
}

/* The value of pixel byte i of the image number `seed`: smooth, so that JPEG keeps it roughly. */
UNUSED static uint8_t pixel(int seed, int i)
{
	return (uint8_t)(seed * 37 + i / 3);
}

/* A PNG with pixel(seed, i) in it, in memory; returns its size. */
UNUSED static size_t make_png(uint8_t *out, size_t size, int width, int height, int seed)
{
	png_image image = { .version = PNG_IMAGE_VERSION,
		.width = (unsigned)width,
		.height = (unsigned)height,
		.format = PNG_FORMAT_RGB };
	size_t n = (size_t)width * (size_t)height * 3;
	uint8_t *pixels = malloc(n);

	assert_non_null(pixels);
	for (size_t i = 0; i < n; i++)
		pixels[i] = pixel(seed, (int)i);
	assert_true(png_image_write_to_memory(&image, out, &size, 0, pixels, 0, NULL));
	free(pixels);
	return size;
}

UNUSED static void put_png(
    const struct fixture *f, const char *name, int width, int height, int seed)
{
	static uint8_t bytes[1 << 16];
	size_t size = make_png(bytes, sizeof(bytes), width, height, seed);

	put_bytes(f, name, bytes, size);
}

UNUSED static void put_jpeg(
    const struct fixture *f, const char *name, int width, int height, int grey)
{
	FILE *file = create(f, name);
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr e;
	uint8_t row[3 * 256];
	JSAMPROW rows[1] = { row };

	assert_true(width <= 256);
	memset(row, grey, sizeof(row));
	c.err = jpeg_std_error(&e);
	jpeg_create_compress(&c);
	jpeg_stdio_dest(&c, file);
	c.image_width = (unsigned)width;
	c.image_height = (unsigned)height;
	c.input_components = 3;
	c.in_color_space = JCS_RGB;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, 95, TRUE);
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < height; y++) {
		/* Something for the entropy coder, or there is nothing to cut. */
		for (int x = 0; x < width; x++)
			row[3 * x] = (uint8_t)(grey + (x * 7 + y * 13) % 64);
		jpeg_write_scanlines(&c, rows, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	assert_int_equal(fclose(file), 0);
}

/* An idx file of n images of side x side (labels where side is 0) in memory; returns its size. */
UNUSED static size_t make_idx(uint8_t *out, int n, int side)
{
	const uint8_t header[16] = { 0, 0, 8, side ? 3 : 1, 0, 0, (uint8_t)(n >> 8), (uint8_t)n, 0,
		0, 0, (uint8_t)side, 0, 0, 0, (uint8_t)side };
	size_t head = side ? 16 : 8, values = (size_t)n * (side ? side * side : 1);

	memcpy(out, header, head);
	for (size_t i = 0; i < values; i++)
		out[head + i] = (uint8_t)(side ? i * 7 : i % 10);
	return head + values;
}

/* Where the tests' real data lies. */
UNUSED static const char *real_data(const char *name)
{
	static char path[512];
	const char *folder = getenv("GTRAIN_TEST_DATA");

	snprintf(path, sizeof(path), "%s/%s", folder ? folder : "../shared/data", name);
	if (!access(path, R_OK))
		return path;
	print_message("skipped: no %s (GTRAIN_TEST_DATA names the folder)\n", path);
	skip();
	return NULL;
}

/* Open, with the error shown if it fails. */
UNUSED static struct gt_dataset *open_data(
    const char *kind, const char *path, const char *options, const struct gt_data_request *request)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	char spec[1024];

	snprintf(spec, sizeof(spec), "%s:%s%s", kind, path, options);
	if (gt_dataset_open(&data, spec, request, &err))
		fail_msg("%s: %s", spec, err.text);
	return data;
}

#endif
