/* test_image_formats.c - WebP, whole and damaged, and the formats that are not read. */
#include "lib/data/images/images.h"
#include "tests/unit/data_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* A lossless WebP of 3 x 2 pixels, written by Pillow, and its pixels. */
static const uint8_t webp[84] = { 0x52, 0x49, 0x46, 0x46, 0x4C, 0x00, 0x00, 0x00, 0x57, 0x45, 0x42,
	0x50, 0x56, 0x50, 0x38, 0x4C, 0x3F, 0x00, 0x00, 0x00, 0x2F, 0x02, 0x40, 0x00, 0x00, 0x2F,
	0xA0, 0xA6, 0x6D, 0x03, 0xA6, 0x83, 0x43, 0xCF, 0xF0, 0xA7, 0x58, 0x26, 0x6A, 0xDA, 0x36,
	0x60, 0x3A, 0xCE, 0x72, 0x08, 0x7F, 0x8E, 0x7D, 0x14, 0xB5, 0x6D, 0xC4, 0x74, 0xF0, 0x18,
	0xC7, 0x1F, 0xE0, 0x7D, 0xE7, 0x3F, 0x62, 0x6F, 0xED, 0x7F, 0xDB, 0x81, 0x80, 0x80, 0x9A,
	0xB6, 0x0D, 0xD8, 0x50, 0xE7, 0x5F, 0x4E, 0x8D, 0xE8, 0x7F, 0xBC, 0x13, 0x00 };
static const uint8_t pixels[18] = { 10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3, 4, 5, 6, 255, 254,
	253 };

enum { SIZE_AT = 21 }; /* of the width and height */

/* The beginning of an animated WebP of 3 x 2 pixels. */
static const uint8_t animation[] = { 'R', 'I', 'F', 'F', 0x2E, 1, 0, 0, 'W', 'E', 'B', 'P', 'V',
	'P', '8', 'X', 10, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 1, 0, 0, 'A', 'N', 'I', 'M', 6, 0, 0, 0, 0,
	0, 0, 0, 0, 0 };

static int decode(const uint8_t *bytes, size_t size, uint8_t *out, struct gt_err *err)
{
	const struct gt_view view = gt_view_whole(2, 3);
	struct gt_image *image;
	int rc = gt_image_open(&image, bytes, size, err);

	if (rc) {
		assert_null(image);
		return rc;
	}
	if (gt_image_height(image) == 2 && gt_image_width(image) == 3)
		rc = gt_image_read(image, &view, 3, true, out, err);
	gt_image_close(image);
	return rc;
}

static void test_webp(void **state)
{
	uint8_t copy[sizeof(webp)], out[18];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(decode(webp, sizeof(webp), out, &err), 0);
	assert_memory_equal(out, pixels, sizeof(pixels));
	for (size_t size = 12; size < sizeof(webp) - 2; size++) {
		uint8_t *cut = malloc(size); /* a byte read behind it is found by a sanitizer */

		assert_non_null(cut);
		memcpy(cut, webp, size);
		assert_int_equal(decode(cut, size, out, &err), GT_EFORMAT);
		assert_non_null(strstr(err.text, "corrupt WebP: "));
		free(cut);
	}
	/* Whatever a byte is, the picture is decoded or refused. */
	for (size_t at = 12; at < sizeof(webp); at++)
		for (int value = 0; value < 256; value += 15) {
			int rc;

			memcpy(copy, webp, sizeof(webp));
			copy[at] = (uint8_t)value;
			rc = decode(copy, sizeof(copy), out, &err);
			assert_true(!rc || rc == GT_EFORMAT);
		}
	/* 14 bits of width - 1, and 14 bits of height - 1: 268 million pixels. */
	memcpy(copy, webp, sizeof(webp));
	memset(copy + SIZE_AT, 0xFF, 3);
	copy[SIZE_AT + 3] = 0x0F;
	assert_int_equal(decode(copy, sizeof(copy), out, &err), GT_EFORMAT);
	assert_string_equal(err.text, "an image of 16384 x 16384 pixels");
	assert_int_equal(decode(animation, sizeof(animation), out, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "an animated WebP"));
}

/* The first bytes of a file, its name in a folder of a class, and what is said about both. */
static void test_other_formats(void **state)
{
	static const struct {
		const char *name, *bytes;
		size_t size;
		const char *format; /* NULL: not known */
	} cases[] = {
		{ "1.gif", "GIF89a..........", 16, "GIF" },
		{ "1.BMP", "BM\1\2\3\4\0\0\0\0......", 16, "BMP" },
		{ "1.tif", "II*\0............", 16, "TIFF" },
		{ "1.tiff", "MM\0*............", 16, "TIFF" },
		{ "1.heic",
		    "\0\0\0\x18"
		    "ftypheic....",
		    16, "HEIC" },
		{ "1.heif",
		    "\0\0\0\x18"
		    "ftypmif1....",
		    16, "HEIC" },
		{ "1.avif",
		    "\0\0\0\x18"
		    "ftypavif....",
		    16, "AVIF" },
		{ "1.jp2", "\0\0\0\x0CjP  \r\n\x87\n....", 16, "JPEG 2000" },
		{ "1.jxl", "\xFF\x0A..............", 16, "JPEG XL" },
		{ "1.ppm", "P6\n2 2\n255\n.....", 16, "PNM" },
		{ "1.psd", "8BPS............", 16, "PSD" },
		{ "1.txt", "a text..........", 16, NULL },
		{ "2.txt", "BMW is no picture", 17, NULL },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < COUNT(cases); i++) {
		char folder[20], path[40], spec[300], wanted[200];
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		uint8_t out[18];

		assert_int_equal(
		    decode((const uint8_t *)cases[i].bytes, cases[i].size, out, &err), GT_EFORMAT);
		snprintf(wanted, sizeof(wanted), "%s%s", cases[i].format ? cases[i].format : "",
		    cases[i].format ? " is a format that gtrain does not read"
		                    : "neither a JPEG, a PNG nor a WebP");
		assert_string_equal(err.text, wanted);
		snprintf(folder, sizeof(folder), "c%zu", i);
		snprintf(path, sizeof(path), "%s/a/%s", folder, cases[i].name);
		put_bytes(&f, path, cases[i].bytes, cases[i].size);
		snprintf(spec, sizeof(spec), "images:%s/%s", f.folder, folder);
		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EINVAL);
		snprintf(wanted, sizeof(wanted),
		    "has no images that gtrain reads, but %s images, such",
		    cases[i].format ? cases[i].format : "");
		if (!cases[i].format != !strstr(err.text, wanted) ||
		    !strstr(err.text, "the class folder 'a' in '"))
			fail_msg("%s: %s", cases[i].name, err.text);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_webp),
		cmocka_unit_test(test_other_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
