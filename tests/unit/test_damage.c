/* test_damage.c - the record of damaged samples, and the batches that have their places. */
#include "tests/unit/data_fixture.h"

static struct gt_damage *new_record(int64_t samples, bool strict)
{
	struct gt_damage *d = NULL;

	assert_int_equal(gt_damage_new(&d, samples, strict, GT_ERR_IGNORED), 0);
	return d;
}

static int leave_out(struct gt_damage *d, int64_t sample, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "sample %d", (int)sample);
	return gt_damage_record(d, sample, err);
}

static void expect_next(struct gt_damage *d, const char *wanted)
{
	char text[GT_DAMAGE_TEXT] = "";

	assert_int_equal(gt_damage_next(d, text), wanted != NULL);
	assert_string_equal(text, wanted ? wanted : "");
}

static void test_texts_come_once_and_in_order(void **state)
{
	struct gt_damage *d = new_record(1000, false);
	struct gt_err err;
	char wanted[32];

	(void)state;
	expect_next(d, NULL);
	assert_false(gt_damage_has(d, 7));
	for (int i = 0; i < 200; i++) /* in another order, some of them twice */
		assert_int_equal(leave_out(d, 10 + i * 7 % 100, &err), 0);
	assert_int_equal(gt_damage_count(d), 100);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(gt_damage_has(d, i), i >= 10 && i < 110);
	for (int i = 10; i < 30; i++) {
		snprintf(wanted, sizeof(wanted), "sample %d", i);
		expect_next(d, wanted);
	}
	assert_int_equal(leave_out(d, 3, &err), 0); /* takes the place of the last text */
	expect_next(d, "sample 3");
	for (int i = 30; i < 10 + GT_DAMAGE_TEXTS - 1; i++) {
		snprintf(wanted, sizeof(wanted), "sample %d", i);
		expect_next(d, wanted);
	}
	expect_next(d, NULL);
	gt_damage_free(d);
	gt_damage_free(NULL);
}

static void test_what_is_an_error(void **state)
{
	struct gt_damage *d = new_record(9, true);
	struct gt_err err;

	(void)state;
	assert_int_equal(leave_out(d, 4, &err), GT_EFORMAT);
	assert_string_equal(err.text, "sample 4");
	assert_int_equal(gt_damage_count(d), 0);
	gt_damage_free(d);
	d = new_record(3, false);
	assert_int_equal(leave_out(d, 2, &err), 0);
	assert_int_equal(leave_out(d, 1, &err), 0);
	assert_int_equal(leave_out(d, 1, &err), 0);
	assert_int_equal(leave_out(d, 0, &err), GT_EFORMAT);
	assert_string_equal(err.text, "none of the 3 images can be decoded; the first: sample 0");
	gt_damage_free(d);
	d = new_record(1, false);
	assert_int_equal(leave_out(d, 0, &err), GT_EFORMAT);
	assert_string_equal(err.text, "sample 0");
	gt_damage_free(d);
}

static void test_ranks_put_theirs_together(void **state)
{
	struct gt_damage *a = new_record(21, false), *b = new_record(21, false);
	void *packed = malloc(gt_damage_bytes(a));
	struct gt_err err;

	(void)state;
	assert_non_null(packed);
	assert_int_equal(gt_damage_bytes(a), gt_damage_bytes(b));
	gt_damage_pack(b, packed); /* nothing yet */
	assert_int_equal(gt_damage_merge(a, packed, &err), 0);
	assert_int_equal(gt_damage_count(a), 0);
	leave_out(a, 5, &err);
	leave_out(b, 5, &err);
	leave_out(b, 20, &err);
	leave_out(b, 0, &err);
	expect_next(b, "sample 0");
	expect_next(a, "sample 5");
	gt_damage_pack(b, packed);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gt_damage_merge(a, packed, &err), 0);
		assert_int_equal(gt_damage_count(a), 3);
		assert_true(gt_damage_has(a, 0) && gt_damage_has(a, 5) && gt_damage_has(a, 20));
	}
	expect_next(a, "sample 0"); /* given by the other rank's record, not by this one */
	expect_next(a, "sample 20");
	expect_next(a, NULL);
	free(packed);
	gt_damage_free(a);
	gt_damage_free(b);
}

/* ---- data sets ---- */

enum { IMAGES = 8, SIDE = 12 };

/* Numbers 1, 3 and 6 of the files are damaged, each in its own way. */
static void put_images(const struct fixture *f)
{
	char name[32];

	for (int i = 0; i < IMAGES; i++) {
		snprintf(name, sizeof(name), "%c/%d.png", i < 4 ? 'a' : 'b', i);
		put_png(f, name, SIDE, SIDE, i);
	}
	cut_file(f, "a/1.png", 30);
	put_text(f, "a/3.png", "");
	put_text(f, "b/6.png", "this is not an image");
}

static bool is_damaged(int64_t index)
{
	return index == 1 || index == 3 || index == 6;
}

/* Sizes that are decoded when the data set is opened, and those that are read each time; and the
 * files' own size, whose headers are read when it is opened. */
static const char *const sizes[] = { ",size=12", ",size=4096", "" };

static void test_places_stay_empty(void **state)
{
	const struct gt_draw draw = { .train = true };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_images(&f);
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		struct gt_dataset *data = open_data("images", f.folder, sizes[k], NULL);
		const struct gt_data_info *info = gt_dataset_info(data);
		uint8_t *pixels = malloc(info->input_bytes);

		assert_non_null(pixels);
		assert_int_equal(info->samples, IMAGES);
		/* Images of that size take some time. */
		for (int round = 0; round < (info->form.height > SIDE ? 1 : 2); round++)
			for (int64_t i = 0; i < IMAGES; i++) {
				struct gt_err err = GT_ERR_INIT;
				int32_t target;

				assert_int_equal(
				    gt_dataset_read(data, i, &draw, pixels, &target, &err), 0);
				assert_int_equal(target, is_damaged(i) ? GT_DATA_IGNORE : i >= 4);
				assert_int_equal(gt_dataset_is_damaged(data, i), is_damaged(i));
				assert_int_equal(pixels[0], is_damaged(i) ? 0 : pixel((int)i, 0));
				assert_string_equal(err.text, "");
			}
		assert_int_equal(gt_damage_count(gt_dataset_damage(data)), 3);
		free(pixels);
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

static void test_strict_and_hopeless_data(void **state)
{
	static const struct {
		const char *name, *size, *text; /* a part of it */
		bool strict;
	} rows[] = {
		{ "some", ",size=12", "a/1.png': corrupt PNG", true },
		{ "some", "", "a/3.png': neither a JPEG, a PNG nor a WebP", true },
		{ "none", ",size=12", "none of the 2 images can be decoded; the first: '", false },
		{ "none", "", "none of the 2 images can be decoded; the first: '", false },
		{ "one", ",size=12", "a/1.png': neither a JPEG, a PNG nor a WebP", false },
	};
	struct fixture f, some;

	(void)state;
	fixture_open(&f);
	some = f;
	strcat(some.folder, "/some");
	put_images(&some);
	put_text(&f, "none/a/1.png", "this is not an image");
	put_text(&f, "none/a/2.png", "");
	put_text(&f, "one/a/1.png", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct gt_data_request request = { .strict = rows[i].strict };
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[200];

		snprintf(
		    spec, sizeof(spec), "images:%s/%s%s", f.folder, rows[i].name, rows[i].size);
		assert_int_equal(gt_dataset_open(&data, spec, &request, &err), GT_EFORMAT);
		if (!strstr(err.text, rows[i].text))
			fail_msg("%s: '%s'", spec, err.text);
	}
	fixture_close(&f);
}

/* Both parts of a divided data set have the record of the whole, and its numbers. */
static void test_parts_share_the_record(void **state)
{
	struct gt_dataset *whole, *train, *val;
	const struct gt_draw draw = { 0 };
	static uint8_t pixels[SIDE * SIDE * 3];
	struct fixture f;
	int damaged = 0;

	(void)state;
	fixture_open(&f);
	put_images(&f);
	whole = open_data("images", f.folder, ",size=12", NULL);
	assert_int_equal(gt_dataset_split(whole, 0.5, &train, &val, GT_ERR_IGNORED), 0);
	gt_dataset_close(whole);
	for (int part = 0; part < 2; part++)
		for (int64_t i = 0; i < IMAGES / 2; i++) {
			struct gt_dataset *data = part ? val : train;
			int32_t target;

			gt_dataset_read(data, i, &draw, pixels, &target, GT_ERR_IGNORED);
			assert_int_equal(gt_dataset_is_damaged(data, i), target < 0);
			damaged += target < 0;
		}
	assert_int_equal(damaged, 3);
	assert_ptr_equal(gt_dataset_damage(train), gt_dataset_damage(val));
	gt_dataset_close(train);
	gt_dataset_close(val);
	fixture_close(&f);
}

/* ---- batches ---- */

enum { BATCH = 2, EPOCHS = 2 };

/* The targets of all steps, in the order in which `ranks` ranks have them side by side. */
static void read_targets(
    struct gt_dataset *data, int ranks, int workers, int32_t targets[EPOCHS * IMAGES])
{
	for (int rank = 0; rank < ranks; rank++) {
		const struct gt_loader_options o = {
			.sampler = { .samples = IMAGES,
			    .seed = 2,
			    .rank = rank,
			    .world = ranks,
			    .batch = BATCH * 2 / ranks,
			    .shuffle = true,
			    .pad = true },
			.draw = { .train = true, .seed = 2 },
			.workers = workers,
			.prefetch = 3,
			.epochs = EPOCHS,
		};
		const struct gt_batch *b;
		struct gt_loader *loader;

		assert_int_equal(gt_loader_open(&loader, data, &o, GT_ERR_IGNORED), 0);
		for (int at = 0; gt_loader_next(loader, &b, GT_ERR_IGNORED) == 1;)
			for (int i = 0; i < b->count; i++, at++)
				targets[at * ranks + rank] = b->target[i];
		gt_loader_close(loader);
	}
}

static void test_batches_for_any_ranks_and_workers(void **state)
{
	static const struct {
		int size, ranks, workers;
	} rows[] = { { 0, 1, 0 }, { 0, 1, 4 }, { 0, 2, 1 }, { 0, 4, 0 }, { 0, 4, 2 }, { 1, 2, 2 },
		{ 2, 1, 1 }, { 2, 2, 0 } };
	int32_t wanted[EPOCHS * IMAGES], got[EPOCHS * IMAGES];
	struct fixture f;
	int empty = 0;

	(void)state;
	fixture_open(&f);
	put_images(&f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_dataset *data = open_data("images", f.folder, sizes[rows[i].size], NULL);

		read_targets(data, rows[i].ranks, rows[i].workers, i ? got : wanted);
		if (i)
			assert_memory_equal(got, wanted, sizeof(wanted));
		gt_dataset_close(data);
	}
	for (int i = 0; i < EPOCHS * IMAGES; i++)
		empty += wanted[i] == GT_DATA_IGNORE;
	assert_int_equal(empty, EPOCHS * 3);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts_come_once_and_in_order),
		cmocka_unit_test(test_what_is_an_error),
		cmocka_unit_test(test_ranks_put_theirs_together),
		cmocka_unit_test(test_places_stay_empty),
		cmocka_unit_test(test_strict_and_hopeless_data),
		cmocka_unit_test(test_parts_share_the_record),
		cmocka_unit_test(test_batches_for_any_ranks_and_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
