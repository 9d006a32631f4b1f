/* test_data_images.c - folders and archives of images, and their augmentation. */
#include "lib/base/philox.h"
#include "lib/data/core/description.h"
#include "lib/data/images/exif.h"
#include "tests/unit/tar_fixture.h"

/* ---- reading ---- */

static void test_folder(void **state)
{
	struct gt_dataset *data;
	const struct gt_data_info *info;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_png(&f, "a-b/1.png", 6, 5, 4);
	put_png(&f, "a/z.PNG", 6, 5, 3);
	put_png(&f, "a/deep/1.png", 6, 5, 2);
	put_png(&f, "a/b.png", 6, 5, 1);
	put_png(&f, ".hidden/1.png", 6, 5, 9);
	put_png(&f, "beside.png", 6, 5, 9);
	put_text(&f, "a/notes.txt", "not an image");
	put_text(&f, "a/x.bmp", "left out");
	put_text(&f, "a/y.GIF", "left out");
	data = open_data("images", f.folder, ",mean=0.5,std=0.1/0.2/0.3", NULL);
	info = gt_dataset_info(data);
	assert_int_equal(info->form.kind, GT_SAMPLE_IMAGE);
	assert_int_equal(info->samples, 4);
	assert_int_equal(info->form.classes, 2);
	assert_string_equal(info->note,
	    "2 images are left out, being neither JPEG, PNG nor WebP; the first is 'a/x.bmp'");
	assert_int_equal(info->form.height, 5);
	assert_int_equal(info->form.width, 6);
	assert_int_equal(info->form.channels, 3);
	assert_true(
	    info->form.mean[0] == 0.5f && info->form.mean[2] == 0.5f && info->form.std[2] == 0.3f);
	/* "a" comes before "a-b" as it would not in the order of whole paths. */
	check_sample(data, 0, 1, 0);
	check_sample(data, 1, 2, 0);
	check_sample(data, 2, 3, 0);
	check_sample(data, 3, 4, 1);
	gt_dataset_close(data);
	fixture_close(&f);
}

/* Data with fewer classes than those trained on has their numbers, and so do its parts. */
static void test_classes_are_numbered_alike(void **state)
{
	struct gt_dataset *all, *some, *parts[2];
	struct gt_data_description like;
	struct gt_data_request request = { 0 };
	uint8_t input[6 * 5 * 3];
	struct fixture f;
	int32_t target;

	(void)state;
	fixture_open(&f);
	put_png(&f, "all/ant/1.png", 6, 5, 1);
	put_png(&f, "all/bee/1.png", 6, 5, 2);
	put_png(&f, "all/cow/1.png", 6, 5, 3);
	put_png(&f, "some/cow/1.png", 6, 5, 4);
	put_png(&f, "some/cow/2.png", 6, 5, 5);
	all = open_data("images", in(&f, "all"), "", NULL);
	gt_data_describe(&like, all);
	request.like = &like;
	some = open_data("images", in(&f, "some"), "", &request);
	assert_int_equal(gt_dataset_info(some)->form.classes, 3);
	check_sample(some, 0, 4, 2);
	assert_int_equal(gt_dataset_split(some, 0.5, &parts[0], &parts[1], NULL), 0);
	gt_dataset_close(some);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gt_dataset_info(parts[i])->form.classes, 3);
		assert_int_equal(gt_dataset_info(parts[i])->samples, 1);
		assert_int_equal(gt_dataset_read(parts[i], 0, &eval_draw, input, &target, NULL), 0);
		assert_int_equal(target, 2);
		gt_dataset_close(parts[i]);
	}
	gt_dataset_close(all);
	fixture_close(&f);
}

static void make_archive(struct archive *a)
{
	char name[300], record[400];
	int length;

	a->size = 0;
	add_entry(a, "./cats/", '5', "", 0);
	add_png(a, "./cats/1.png", 1);
	memset(name, 'x', sizeof(name));
	memcpy(name, "cats/", 5);
	strcpy(name + 200, ".png");
	add_entry(a, "././@LongLink", 'L', name, strlen(name) + 1);
	add_png(a, "cut", 2);
	strcpy(name + 150, ".png");
	memcpy(name, "dogs/", 5);
	length = snprintf(record, sizeof(record), "%zu path=%s\n", strlen(name) + 10, name);
	assert_int_equal(length, strlen(name) + 10);
	add_entry(a, "pax", 'x', record, (size_t)length);
	add_png(a, "cut too", 3);
	add_entry(a, "././@LongLink", 'L', "dogs/of the link", 17);
	add_entry(a, "dogs/link", '2', "", 0);
	add_entry(a, "g", 'g', "12 foo=bars\n", 12);
	add_png(a, "dogs/._2.png", 9);
	add_png(a, "dogs/y.png", 4);
	add_end(a);
}

static void check_archive(const char *path)
{
	struct gt_dataset *data = open_data("images", path, "", NULL);

	assert_int_equal(gt_dataset_info(data)->samples, 4);
	assert_int_equal(gt_dataset_info(data)->form.classes, 2);
	check_sample(data, 0, 1, 0);
	check_sample(data, 1, 2, 0);
	check_sample(data, 2, 3, 1);
	check_sample(data, 3, 4, 1);
	gt_dataset_close(data);
}

/* Open images in the fixture's folder, which must fail with a text. */
static void check_failure(const struct fixture *f, const char *name, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	char spec[300];

	snprintf(spec, sizeof(spec), "images:%s/%s", f->folder, name);
	assert_int_not_equal(gt_dataset_open(&data, spec, NULL, &err), 0);
	if (!strstr(err.text, text))
		fail_msg("%s", err.text);
}

/* A folder may have links, and has a name only once. */
static void test_links_and_doubles(void **state)
{
	static const struct {
		const char *name;
		char type;
		const char *text;
	} cases[] = {
		{ "cats/2.png", '1', "'cats/2.png' is a link, which has no content in an archive" },
		{ "./cats/2.png", '2', "'cats/2.png' is a link, which has no content" },
		{ "cats/1.png", '0', "/l.tar' has 'cats/1.png' twice" },
		{ "dogs", '2', "the class folder 'dogs' in '" },
	};
	static struct archive a;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		a.size = 0;
		add_png(&a, "cats/1.png", 1);
		if (cases[i].type == '0')
			add_png(&a, cases[i].name, 2);
		else
			add_entry(&a, cases[i].name, cases[i].type, "", 0);
		add_end(&a);
		put_bytes(&f, "l.tar", a.bytes, a.size);
		check_failure(&f, "l.tar", cases[i].text);
	}
	put_png(&f, "all/ant/1.png", 6, 5, 1);
	assert_int_equal(symlink("nowhere", in(&f, "all/bee")), 0);
	check_failure(&f, "all", "/all/bee' is a link to a file that does not exist");
	fixture_close(&f);
}

static void test_archive(void **state)
{
	static struct archive a;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	make_archive(&a);
	put_bytes(&f, "t.tar", a.bytes, a.size);
	check_archive(in(&f, "t.tar"));
	put_gz(&f, "t.tar.gz", a.bytes, a.size);
	check_archive(in(&f, "t.tar.gz"));
	fixture_close(&f);
}

/* However an archive is cut or changed in a header, it is refused, not misread. */
static void test_damaged_archive(void **state)
{
	static struct archive a;
	struct fixture f;
	char spec[600];

	(void)state;
	fixture_open(&f);
	snprintf(spec, sizeof(spec), "images:%s", in(&f, "t.tar"));
	make_archive(&a);
	for (size_t size = 100; size < a.size - 1024; size += 300) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;

		put_bytes(&f, "t.tar", a.bytes, size);
		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
		assert_non_null(
		    strstr(err.text, size < 512 ? "nor a tar" : "is cut short at byte"));
	}
	for (size_t at = 512; at < 1024; at += 7) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;

		a.bytes[at] ^= 0x15;
		put_bytes(&f, "t.tar", a.bytes, a.size);
		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
		assert_non_null(strstr(err.text, "wrong checksum in the tar header at byte 512"));
		a.bytes[at] ^= 0x15;
	}
	fixture_close(&f);
}

static void test_damaged_gzip(void **state)
{
	static struct archive a;
	struct gt_mapping map;
	struct fixture f;
	char spec[600];
	size_t size;

	(void)state;
	fixture_open(&f);
	snprintf(spec, sizeof(spec), "images:%s", in(&f, "t.tar.gz"));
	make_archive(&a);
	put_gz(&f, "good.gz", a.bytes, a.size);
	assert_int_equal(gt_map(&map, in(&f, "good.gz"), NULL), 0);
	size = map.size;
	memcpy(a.bytes, map.data, size);
	gt_unmap(&map);
	for (size_t cut = 18; cut < size; cut += 97) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;

		put_bytes(&f, "t.tar.gz", a.bytes, cut);
		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
		assert_non_null(strstr(err.text, "t.tar.gz': truncated gzip data"));
	}
	/* Two members make one file; rubbish after them does not. */
	memcpy(a.bytes + size, a.bytes, size);
	a.bytes[size - 5] ^= 1; /* the checksum */
	put_bytes(&f, "t.tar.gz", a.bytes, size);
	for (int i = 0; i < 2; i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;

		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
		assert_non_null(strstr(err.text, i ? "1 extra bytes" : "corrupt gzip data"));
		a.bytes[size - 5] ^= 1;
		a.bytes[size] = 'x';
		put_bytes(&f, "t.tar.gz", a.bytes, size + 1);
	}
	fixture_close(&f);
}

/* Images of a compressed archive, and names of any, are kept in so much memory as is allowed. */
static void test_memory_of_archive(void **state)
{
	static const struct {
		const char *name;
		uint64_t memory_bytes;
		const char *text; /* NULL: it can be read */
	} cases[] = {
		{ "t.tar.gz", 64 << 10, NULL },
		{ "t.tar.gz", 1100, "images and names take more than 1.07 KiB of memory" },
		{ "t.tar", 1100, NULL },
		{ "t.tar", 500, "images and names take more than 500 B of memory" },
	};
	static struct archive a;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	make_archive(&a);
	put_bytes(&f, "t.tar", a.bytes, a.size);
	put_gz(&f, "t.tar.gz", a.bytes, a.size);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_data_request request = { .memory_bytes = cases[i].memory_bytes };
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[600];

		snprintf(spec, sizeof(spec), "images:%s", in(&f, cases[i].name));
		assert_int_equal(
		    gt_dataset_open(&data, spec, &request, &err), cases[i].text ? GT_ENOMEM : 0);
		if (cases[i].text) {
			assert_non_null(strstr(err.text, cases[i].text));
			assert_non_null(strstr(err.hint, "unpack a compressed archive"));
		}
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

static void test_jpeg_grey_and_size(void **state)
{
	const struct gt_data_request request = { .form = {
		                                     .height = 8, .width = 8, .channels = 1 } };
	struct gt_dataset *data;
	uint8_t input[20 * 20 * 3];
	struct fixture f;
	int32_t target;

	(void)state;
	fixture_open(&f);
	put_jpeg(&f, "a/1.jpg", 40, 30, 90);
	data = open_data("images", f.folder, ",size=20", NULL);
	assert_int_equal(gt_dataset_info(data)->input_bytes, sizeof(input));
	assert_int_equal(gt_dataset_read(data, 0, &eval_draw, input, &target, NULL), 0);
	for (int i = 0; i < 20 * 20; i++) {
		assert_in_range(input[3 * i], 80, 165);
		assert_in_range(input[3 * i + 2], 70, 110);
	}
	gt_dataset_close(data);
	data = open_data("images", f.folder, "", &request);
	assert_int_equal(gt_dataset_info(data)->input_bytes, 64);
	assert_int_equal(gt_dataset_read(data, 0, &eval_draw, input, &target, NULL), 0);
	for (int i = 0; i < 64; i++)
		assert_in_range(input[i], 80, 140);
	gt_dataset_close(data);
	fixture_close(&f);
}

/* ---- augmentation ---- */

/* `out` pixel by pixel from `in`, the slow way. */
static void crop_and_flip(
    uint8_t *out, const uint8_t *image, int height, int width, int down, int right, bool flip)
{
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++) {
			int from_y = y + down, from_x = (flip ? width - 1 - x : x) + right;
			bool inside =
			    from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;

			for (int c = 0; c < 3; c++)
				out[(y * width + x) * 3 + c] =
				    inside ? image[(from_y * width + from_x) * 3 + c] : 0;
		}
}

/* Which (down, right, flip) makes `got` of `image`: adds to the counts; fails if none does. */
static void find_change(
    const uint8_t *got, const uint8_t *image, int height, int width, int pad, int counts[2][33][33])
{
	static uint8_t tried[64 * 64 * 3];

	for (int flip = 0; flip < 2; flip++)
		for (int down = -pad; down <= pad; down++)
			for (int right = -pad; right <= pad; right++) {
				crop_and_flip(tried, image, height, width, down, right, flip);
				if (!memcmp(tried, got, (size_t)(height * width) * 3)) {
					counts[flip][down + pad][right + pad]++;
					return;
				}
			}
	fail_msg("neither cropped nor mirrored");
}

static void test_augmentation(void **state)
{
	static const struct {
		const char *list;
		int height, width, pad, flips;
	} cases[] = { { "crop,flip", 12, 9, 4, 2 }, { "flip", 5, 8, 0, 2 }, { "crop", 3, 2, 4, 1 },
		{ "none", 5, 4, 0, 1 }, { "", 5, 4, 0, 1 }, { "crop", 10, 64, 8, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		static uint8_t plain[64 * 64 * 3], got[64 * 64 * 3], again[64 * 64 * 3];
		int height = cases[i].height, width = cases[i].width, pad = cases[i].pad;
		const struct gt_data_request request = {
			.form = { .height = height, .width = width, .channels = 3, .classes = 2 }
		};
		struct gt_dataset *data = open_data("random", "", ",samples=5", &request);
		struct gt_draw draw = { .train = true, .seed = 4 };
		int counts[2][33][33] = { 0 }, kinds = 0;
		int32_t target;

		assert_int_equal(gt_augment_parse(&draw.augment, cases[i].list, NULL), 0);
		for (int n = 0; n < 400; n++) {
			draw.epoch = (uint32_t)n / 5;
			gt_dataset_read(data, n % 5, &eval_draw, plain, &target, NULL);
			gt_dataset_read(data, n % 5, &draw, got, &target, NULL);
			gt_dataset_read(data, n % 5, &draw, again, &target, NULL);
			assert_memory_equal(got, again, gt_dataset_info(data)->input_bytes);
			find_change(got, plain, height, width, pad, counts);
		}
		for (int k = 0; k < 2 * 33 * 33; k++)
			kinds += (&counts[0][0][0])[k] > 0;
		if (width > 2) /* else most crops are empty, hence the same */
			assert_true(kinds > cases[i].flips * (2 * pad + 1) * (2 * pad + 1) / 2);
		if (pad == 0)
			assert_int_equal(kinds, cases[i].flips);
		gt_dataset_close(data);
	}
}

/* Rows longer than the blocks that a mirror works with, and pixels of all sizes. */
static void test_mirror(void **state)
{
	static uint8_t plain[3000 * 4], got[3000 * 4];
	struct gt_draw draw = { .train = true, .seed = 4 };
	int32_t target;

	(void)state;
	assert_int_equal(gt_augment_parse(&draw.augment, "flip", NULL), 0);
	for (int width = 1; width < 3000; width += width < 20 ? 1 : 101)
		for (int c = 1; c <= 4; c++) {
			const struct gt_data_request request = {
				.form = { .height = 1, .width = width, .channels = c, .classes = 2 }
			};
			struct gt_dataset *data = open_data("random", "", ",samples=20", &request);
			int flipped = 0;

			for (int i = 0; i < 20; i++) {
				gt_dataset_read(data, i, &eval_draw, plain, &target, NULL);
				gt_dataset_read(data, i, &draw, got, &target, NULL);
				if (!memcmp(got, plain, (size_t)(width * c)))
					continue;
				flipped++;
				for (int x = 0; x < width; x++)
					assert_memory_equal(
					    got + x * c, plain + (width - 1 - x) * c, c);
			}
			assert_true(width == 1 || (flipped > 0 && flipped < 20));
			gt_dataset_close(data);
		}
}

static void test_evaluation_is_not_augmented(void **state)
{
	const struct gt_data_request request = {
		.form = { .height = 8, .width = 8, .channels = 3, .classes = 2 }
	};
	struct gt_draw draw = { .seed = 4 };
	struct gt_dataset *data = open_data("random", "", "", &request);
	uint8_t plain[192], got[192];
	int32_t target;

	(void)state;
	assert_int_equal(gt_augment_parse(&draw.augment, "crop,flip,jitter", NULL), 0);
	for (int i = 0; i < 50; i++) {
		gt_dataset_read(data, i, &eval_draw, plain, &target, NULL);
		gt_dataset_read(data, i, &draw, got, &target, NULL);
		assert_memory_equal(got, plain, sizeof(got));
	}
	gt_dataset_close(data);
}

static void test_real_archive(void **state)
{
	struct gt_dataset *data =
	    open_data("images", real_data("cifar10-jpeg.tar.gz"), ",split=test", NULL);
	const struct gt_data_info *info = gt_dataset_info(data);
	int counts[10] = { 0 };

	(void)state;
	assert_int_equal(info->samples, 10000);
	assert_int_equal(info->form.classes, 10);
	assert_int_equal(info->form.height, 32);
	assert_int_equal(info->form.width, 32);
	for (int64_t i = 0; i < info->samples; i++) {
		uint8_t input[3072];
		int32_t target;

		assert_int_equal(gt_dataset_read(data, i, &eval_draw, input, &target, NULL), 0);
		assert_in_range(target, 0, 9);
		counts[target]++;
	}
	for (int i = 0; i < 10; i++)
		assert_int_equal(counts[i], 1000);
	gt_dataset_close(data);
}

/* Cut anywhere, and with bytes changed anywhere, an Exif part is read to its end and no further:
 * each copy lies in memory of its own, whose bounds the address sanitizer knows. */
static void test_damaged_exif(void **state)
{
	static const unsigned char jpeg[] = "\xFF\xD8\xFF\xE0\0\4JF\xFF\xFF\xE1\0\x2A"
	                                    "Exif\0\0MM\0*\0\0\0\x08\0\2"
	                                    "\1\x0F\0\2\0\0\0\4abc\0"
	                                    "\1\x12\0\3\0\0\0\1\0\6\0\0"
	                                    "\xFF\xDA\0\2";
	const size_t size = sizeof(jpeg) - 1, told = size - 4; /* where all of it is there */

	(void)state;
	assert_int_equal(gt_exif_orientation(jpeg, size), 6);
	for (size_t n = 0; n <= size; n++)
		for (uint64_t i = 0; i < 200; i++) {
			unsigned char *copy = malloc(n ? n : 1);
			int orientation;

			memcpy(copy, jpeg, n);
			for (uint64_t k = 0; n && k < i % 4; k++)
				copy[gt_philox_below(gt_philox_u64(1, n, 2 * k, i), n)] =
				    (unsigned char)gt_philox_u64(1, n, 2 * k + 1, i);
			orientation = gt_exif_orientation(copy, n);
			assert_in_range(orientation, 1, 8);
			if (!(i % 4))
				assert_int_equal(orientation, n < told ? 1 : 6);
			free(copy);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_classes_are_numbered_alike),
		cmocka_unit_test(test_links_and_doubles),
		cmocka_unit_test(test_archive),
		cmocka_unit_test(test_damaged_archive),
		cmocka_unit_test(test_damaged_gzip),
		cmocka_unit_test(test_memory_of_archive),
		cmocka_unit_test(test_jpeg_grey_and_size),
		cmocka_unit_test(test_damaged_exif),
		cmocka_unit_test(test_augmentation),
		cmocka_unit_test(test_mirror),
		cmocka_unit_test(test_evaluation_is_not_augmented),
		cmocka_unit_test(test_real_archive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
