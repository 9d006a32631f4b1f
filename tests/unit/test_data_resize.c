/* test_data_resize.c - parts of images: decoded alone, and resized by every kernel alike. */
#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/data/core/description.h"
#include "lib/data/images/images.h"
#include "lib/data/images/resize.h"
#include "tests/unit/data_fixture.h"

enum { SEED = 20 };

/* A number from `min` to `max`, another one at each call. */
static int draw(int min, int max)
{
	static uint64_t count;

	return min +
	       (int)gt_philox_below(gt_philox_u64(SEED, count++, 0, 0), (uint64_t)(max - min + 1));
}

/* ---- kernels ---- */

/* A filter of random weights, as the axis of a resize gives. */
static void make_resize(struct gt_resize *r, struct gt_view *view, uint8_t *out)
{
	int input = draw(1, 200), output = draw(1, 120);

	view->across = (struct gt_view_axis){ draw(0, 9), input, output, 0, output };
	if (draw(0, 1)) {
		view->across.start += draw(1, 7) / 8.0;
		view->across.length = input - 1 + draw(1, 8) / 8.0;
	}
	view->down = view->across;
	view->interpolation = GT_BILINEAR;
	assert_int_equal(gt_resize_init(r, view, 3, out, NULL), 0);
}

static void check_row(
    const struct gt_resize *r, const struct gt_resize_kernel *k, const uint8_t *row)
{
	static uint8_t expected[120 * 3 + GT_RESIZE_SLACK], got[120 * 3 + GT_RESIZE_SLACK];
	const struct gt_resize_kernel *const *plain = gt_resize_kernels;

	while (plain[1])
		plain++;
	(*plain)->across_rgb(&r->across, row, expected);
	k->across_rgb(&r->across, row, got);
	assert_memory_equal(got, expected, r->row_bytes);
}

static void check_columns(
    const struct gt_resize *r, const struct gt_resize_kernel *k, const uint8_t *bytes)
{
	static uint8_t expected[500], got[500];
	const struct gt_resize_kernel *const *plain = gt_resize_kernels;
	const uint8_t *rows[512];
	size_t n = (size_t)draw(1, 499);

	while (plain[1])
		plain++;
	for (int i = 0; i < r->down.taps[0] || i < r->down.max_taps; i++)
		rows[i] = bytes + i * 7;
	for (int i = 0; i < r->down.count; i++) {
		got[n] = 77;
		(*plain)->down(&r->down, i, rows, n, expected);
		k->down(&r->down, i, rows, n, got);
		assert_memory_equal(got, expected, n);
		assert_int_equal(got[n], 77);
	}
}

/* Vectors give the bytes of plain C, for all sizes; pixels of 255 find sums that overflow. */
static void test_kernels_agree(void **state)
{
	static uint8_t out[120 * 120 * 3], bytes[1 << 13];

	(void)state;
	for (int n = 0; n < 300; n++) {
		struct gt_resize r;
		struct gt_view view;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)(n % 5 ? draw(0, 255) : 255);
		make_resize(&r, &view, out);
		for (const struct gt_resize_kernel *const *k = gt_resize_kernels; *k; k++) {
			if (!(*k)->is_usable())
				continue;
			if (!r.across.copies)
				check_row(&r, *k, bytes + draw(0, 40));
			if (!r.down.copies)
				check_columns(&r, *k, bytes + draw(0, 40));
		}
		gt_resize_release(&r);
	}
}

/* ---- views ---- */

static bool same_axis(const struct gt_view_axis *a, const struct gt_view_axis *b)
{
	return a->start == b->start && a->length == b->length && a->output == b->output &&
	       a->offset == b->offset && a->count == b->count;
}

static void test_views(void **state)
{
	static const struct {
		int height, width, to_height, to_width;
		struct gt_view_axis down, across;
		int eighths;
		struct gt_fit fit;
	} cases[] = {
		{ 375, 500, 224, 224, { 0, 375, 224, 0, 224 }, { 0, 500, 298, 37, 224 }, 8,
		    { .kind = GT_FIT_COVER } },
		{ 500, 375, 224, 224, { 0, 500, 298, 37, 224 }, { 0, 375, 224, 0, 224 }, 8,
		    { .kind = GT_FIT_COVER } },
		{ 448, 600, 224, 224, { 0, 448, 224, 0, 224 }, { 0, 600, 300, 38, 224 }, 4,
		    { .kind = GT_FIT_COVER } },
		{ 447, 600, 224, 224, { 0, 447, 224, 0, 224 }, { 0, 600, 300, 38, 224 }, 8,
		    { .kind = GT_FIT_COVER } },
		{ 3000, 4000, 224, 224, { 0, 3000, 224, 0, 224 }, { 0, 4000, 298, 37, 224 }, 1,
		    { .kind = GT_FIT_COVER } },
		{ 32, 32, 32, 32, { 0, 32, 32, 0, 32 }, { 0, 32, 32, 0, 32 }, 8,
		    { .kind = GT_FIT_COVER } },
		{ 5, 6, 5, 6, { 0, 5, 5, 0, 5 }, { 0, 6, 6, 0, 6 }, 8, { .kind = GT_FIT_COVER } },
		{ 10, 10, 20, 30, { 0, 10, 30, 5, 20 }, { 0, 10, 30, 0, 30 }, 8,
		    { .kind = GT_FIT_COVER } },
		{ 375, 500, 224, 224, { 0, 375, 256, 16, 224 }, { 0, 500, 341, 58, 224 }, 8,
		    { .kind = GT_FIT_SHORTER, .height = 256 } },
		{ 375, 500, 224, 224, { 0, 375, 256, 16, 224 }, { 0, 500, 341, 58, 224 }, 8,
		    { .kind = GT_FIT_SHARE, .share = 0.875 } },
		{ 375, 500, 20, 30, { 0, 375, 60, 20, 20 }, { 0, 500, 80, 25, 30 }, 2,
		    { .kind = GT_FIT_SHARE, .share = 0.5 } },
		{ 375, 500, 224, 224, { 0, 375, 224, 0, 224 }, { 0, 500, 224, 0, 224 }, 8,
		    { .kind = GT_FIT_SQUASH } },
		{ 375, 500, 224, 224, { 0, 375, 240, 8, 224 }, { 0, 500, 320, 48, 224 }, 8,
		    { .kind = GT_FIT_EXACT, .height = 240, .width = 320 } },
		/* torchvision rounds half of an odd rest to even: 3 / 2 to 2, 1 / 2 to 0. */
		{ 31, 29, 28, 28, { 0, 31, 31, 2, 28 }, { 0, 29, 29, 0, 28 }, 8,
		    { .kind = GT_FIT_NONE } },
	};
	struct gt_view got;
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(gt_view_fit(&got, cases[i].height, cases[i].width,
		                     cases[i].to_height, cases[i].to_width, &cases[i].fit, NULL),
		    0);
		assert_true(same_axis(&got.down, &cases[i].down));
		assert_true(same_axis(&got.across, &cases[i].across));
		assert_int_equal(gt_view_eighths(&got), cases[i].eighths);
	}
	assert_int_equal(gt_view_fit(&got, 1, 64 << 20, 2, 2, &cases[0].fit, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "too narrow to be resized"));
}

/* ---- parts of a JPEG ---- */

struct jpeg {
	unsigned char *bytes;
	unsigned long size;
};

/* Noise over waves, so that every coefficient and colour counts. `sampling` is 10 * h + v. */
static struct jpeg make_jpeg(int height, int width, int components, int sampling, bool progressive)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr e;
	struct jpeg out = { NULL, 0 };
	uint8_t row[3 * 400];
	JSAMPROW rows[1] = { row };

	c.err = jpeg_std_error(&e);
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &out.bytes, &out.size);
	c.image_width = (unsigned)width;
	c.image_height = (unsigned)height;
	c.input_components = components;
	c.in_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, 90, TRUE);
	c.comp_info[0].h_samp_factor = sampling / 10;
	c.comp_info[0].v_samp_factor = sampling % 10;
	c.restart_interval = width % 2 ? 3 : 0;
	if (progressive)
		jpeg_simple_progression(&c);
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < height; y++) {
		for (int i = 0; i < width * components; i++)
			row[i] = (uint8_t)(draw(0, 60) + (i % 3 * 40 + y * 2 + i) % 180);
		jpeg_write_scanlines(&c, rows, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	return out;
}

static int read_view(
    const struct jpeg *j, const struct gt_view *view, int channels, bool reduced, uint8_t *out)
{
	struct gt_image *image;
	int rc = gt_image_open(&image, j->bytes, j->size, GT_ERR_IGNORED);

	if (!rc)
		rc = gt_image_read(image, view, channels, reduced, out, GT_ERR_IGNORED);
	gt_image_close(image);
	return rc;
}

/* A random part, shrunk to 1 / shrink, is the same as that part of the whole picture. */
static void check_part(
    const struct jpeg *j, int height, int width, int channels, int shrink, const uint8_t *whole)
{
	static uint8_t part[400 * 300 * 3];
	int h = draw(1, height / shrink), w = draw(1, width / shrink);
	int top = draw(0, height / shrink - h), left = draw(0, width / shrink - w);
	const struct gt_view view = { { top * shrink, h * shrink, h, 0, h },
		{ left * shrink, w * shrink, w, 0, w }, GT_BILINEAR };

	assert_int_equal(read_view(j, &view, channels, shrink > 1, part), 0);
	for (int y = 0; y < h; y++)
		if (memcmp(part + (size_t)(y * w * channels),
		        whole + (size_t)(((top + y) * (width / shrink) + left) * channels),
		        (size_t)(w * channels)))
			fail_msg("%d x %d pixels from (%d, %d) of %d x %d, 1/%d: row %d", w, h,
			    left, top, width, height, shrink, y);
}

/* Only the part that is wanted is decoded; its pixels are those of the whole picture. */
static void test_parts_of_jpegs(void **state)
{
	static const struct {
		int height, width, components, sampling;
		bool progressive;
	} cases[] = { { 160, 240, 3, 22, false }, { 168, 264, 3, 21, false },
		{ 144, 200, 3, 12, false }, { 120, 176, 3, 11, false }, { 136, 208, 3, 41, false },
		{ 128, 184, 1, 11, false }, { 152, 216, 3, 22, true }, { 120, 176, 1, 22, false },
		{ 161, 241, 3, 22, false }, { 143, 199, 3, 21, false }, { 145, 201, 3, 12, true },
		{ 17, 33, 3, 22, false } };
	static uint8_t whole[400 * 300 * 3];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int height = cases[i].height, width = cases[i].width;
		struct jpeg j = make_jpeg(
		    height, width, cases[i].components, cases[i].sampling, cases[i].progressive);

		/* Other sides than multiples of 8, reduced, end in a part of a pixel. */
		for (int shrink = 1; shrink <= (height % 8 ? 1 : 8); shrink *= 2) {
			const struct gt_view all = { { 0, height, height / shrink, 0,
				                         height / shrink },
				{ 0, width, width / shrink, 0, width / shrink }, GT_BILINEAR };
			int channels = draw(0, 1) ? 3 : 1;

			assert_int_equal(read_view(&j, &all, channels, shrink > 1, whole), 0);
			for (int n = 0; n < 60; n++)
				check_part(&j, height, width, channels, shrink, whole);
		}
		free(j.bytes);
	}
}

/* A part that is cut off matters only to views that need it. */
static void test_truncated_jpeg(void **state)
{
	const struct gt_view top = { { 0, 40, 40, 0, 40 }, { 0, 200, 200, 0, 200 }, GT_BILINEAR };
	const struct gt_view bottom = { { 120, 40, 40, 0, 40 }, { 0, 200, 200, 0, 200 },
		GT_BILINEAR };
	struct jpeg j = make_jpeg(160, 200, 3, 22, false);
	static uint8_t out[200 * 160 * 3];

	(void)state;
	j.size -= j.size / 4;
	assert_int_equal(read_view(&j, &top, 3, false, out), 0);
	assert_int_equal(read_view(&j, &bottom, 3, false, out), GT_EFORMAT);
	free(j.bytes);
}

/* ---- the setting ---- */

static void check_text(const char *text, const char *wanted)
{
	if (wanted)
		assert_string_equal(text, wanted);
	else
		assert_null(text);
}

/* Whether JPEGs are decoded at a reduced size is as in training, unless the spec says it. */
static void test_reduction_is_that_of_training(void **state)
{
	static const struct {
		const char *options;
		bool known, trained, reduce;
		const char *adopted, *overruled;
	} cases[] = {
		{ "", false, false, true, NULL, NULL },
		{ ",reduce=no", false, false, false, NULL, NULL },
		{ "", true, true, true, NULL, NULL },
		{ "", true, false, false, "reduce=no", NULL },
		{ ",reduce=no", true, false, false, NULL, NULL },
		{ ",reduce=no", true, true, false, NULL,
		    "reduce=no, but the model was trained with reduce=yes" },
		{ ",reduce=yes", true, false, true, NULL,
		    "reduce=yes, but the model was trained with reduce=no" },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_png(&f, "ant/1.png", 6, 5, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_data_description like = { .reduce_known = cases[i].known,
			.reduce = cases[i].trained };
		const struct gt_data_request request = { .like = &like };
		struct gt_dataset *data = open_data("images", f.folder, cases[i].options, &request);
		const struct gt_data_info *info = gt_dataset_info(data);
		struct gt_data_description now;
		json_t *json;

		gt_data_describe(&now, data);
		assert_true(now.reduce_known);
		assert_int_equal(now.reduce, cases[i].reduce);
		json = gt_data_description_to_json(&now, false, GT_ERR_IGNORED);
		assert_int_equal(gt_data_description_from_json(&now, json, GT_ERR_IGNORED), 0);
		assert_true(now.reduce_known && now.reduce == cases[i].reduce);
		gt_data_description_release(&now);
		json_decref(json);
		check_text(info->adopted, cases[i].adopted);
		check_text(info->overruled, cases[i].overruled);
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_agree),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_parts_of_jpegs),
		cmocka_unit_test(test_truncated_jpeg),
		cmocka_unit_test(test_reduction_is_that_of_training),
	};

	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
