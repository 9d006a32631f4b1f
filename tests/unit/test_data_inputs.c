/* test_data_inputs.c - images and tables without classes. */
#include "lib/data/core/description.h"
#include "tests/unit/data_fixture.h"

static const struct gt_draw eval_draw;

static int open_inputs(struct gt_dataset **out, const char *spec, char *const *inputs, int count,
    const struct gt_data_description *like, struct gt_err *err)
{
	const struct gt_data_request request = {
		.inputs = inputs, .input_count = count, .like = like, .form.classes = 5
	};

	return gt_dataset_open(out, spec, &request, err);
}

/* ---- images ---- */

static void check_image(struct gt_dataset *data, int64_t i, const char *name, int seed)
{
	uint8_t input[6 * 5 * 3];
	int32_t target;

	assert_string_equal(gt_dataset_sample_name(data, i), name);
	assert_int_equal(gt_dataset_info(data)->input_bytes, sizeof(input));
	assert_int_equal(gt_dataset_read(data, i, &eval_draw, input, &target, NULL), 0);
	assert_int_equal(target, GT_DATA_IGNORE);
	for (int k = 0; k < (int)sizeof(input); k++)
		assert_int_equal(input[k], pixel(seed, k));
}

static void test_images(void **state)
{
	static const char *const names[] = { "cat", "dog" };
	const struct gt_data_description like = { .kind_known = true,
		.form = { .kind = GT_SAMPLE_IMAGE,
		    .height = 5,
		    .width = 6,
		    .channels = 3,
		    .mean = { 0.5f, 0.5f, 0.5f },
		    .std = { 0.1f, 0.2f, 0.3f },
		    .classes = 2 },
		.normalization_known = true,
		.class_names = names };
	struct gt_err err = GT_ERR_INIT;
	struct gt_data_description described;
	struct gt_dataset *data;
	struct fixture f;
	char file[128], folder[128], name[256];
	char *inputs[] = { file, folder, file };

	(void)state;
	fixture_open(&f);
	put_png(&f, "any.name", 6, 5, 1);
	put_png(&f, "below/b/2.png", 6, 5, 3);
	put_png(&f, "below/a/1.PNG", 6, 5, 2);
	put_png(&f, "below/.hidden/1.png", 6, 5, 9);
	put_text(&f, "below/a/notes.txt", "not an image");
	snprintf(file, sizeof(file), "%s", in(&f, "any.name"));
	snprintf(folder, sizeof(folder), "%s/", in(&f, "below"));
	if (open_inputs(&data, "images", inputs, 3, &like, &err))
		fail_msg("%s", err.text);
	assert_int_equal(gt_dataset_info(data)->samples, 4);
	assert_int_equal(gt_dataset_info(data)->form.classes, 2);
	assert_true(gt_dataset_info(data)->form.std[1] == 0.2f);
	gt_data_describe(&described, data);
	assert_string_equal(described.class_names[1], "dog");
	check_image(data, 0, file, 1);
	snprintf(name, sizeof(name), "%sa/1.PNG", folder);
	check_image(data, 1, name, 2);
	snprintf(name, sizeof(name), "%sb/2.png", folder);
	check_image(data, 2, name, 3);
	check_image(data, 3, file, 1);
	gt_dataset_close(data);
	/* Where nothing is known, the request says how many classes there are. */
	assert_int_equal(open_inputs(&data, "images", inputs, 1, NULL, &err), 0);
	assert_int_equal(gt_dataset_info(data)->form.classes, 5);
	check_image(data, 0, file, 1);
	gt_dataset_close(data);
	fixture_close(&f);
}

/* ---- tables ---- */

static const char *const columns[] = { "b", "a" };

static const struct gt_data_description named = { .kind_known = true,
	.form = { .kind = GT_SAMPLE_VECTOR, .classes = 2, .features = 2 },
	.feature_names = columns };

static const struct table_case {
	const char *text;
	bool no_names;     /* the training data had none */
	const char *error; /* NULL: none */
	float last[2];
	const char *last_name; /* behind the path */
	int samples;
} tables[] = {
	{ "1,2\n3,4\n", false, NULL, { 3, 4 }, ":2", 2 },
	{ "a,b\n1,2\n3,4\n", false, NULL, { 4, 3 }, ":3", 2 },
	{ "class,a,x,b\nq,1,,2\nr,3,z,4\n", false, NULL, { 4, 3 }, ":3", 2 },
	{ "a,b\n1,2\n3,4\n", true, NULL, { 3, 4 }, ":3", 2 },
	{ "1,\"2\"\n\n\n5,6\n", false, NULL, { 5, 6 }, ":4", 2 },
	{ "a,c\n1,2\n", false, "there is no column 'b'", { 0 }, NULL, 0 },
	{ "1\n", false, "rows of 1 feature, but the model was trained on 2", { 0 }, NULL, 0 },
	{ "1,2,3\n", true, "rows of 3 features, but the model was trained on 2", { 0 }, NULL, 0 },
	{ "1,x\n", false, "line 1, column 1: 'x' is not a number", { 0 }, NULL, 0 },
	{ "1,2\n3\n", false, "line 2 has 1 fields", { 0 }, NULL, 0 },
	{ "", false, "there are no rows", { 0 }, NULL, 0 },
};

static void check_table(const struct table_case *c, const struct fixture *f)
{
	struct gt_data_description like = named;
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	char path[128], name[160];
	char *inputs[] = { path, path };
	float input[2];
	int32_t target;

	put_text(f, "t.csv", c->text);
	snprintf(path, sizeof(path), "%s", in(f, "t.csv"));
	if (c->no_names)
		like.feature_names = NULL;
	if (c->error) {
		assert_true(open_inputs(&data, "csv", inputs, 2, &like, &err) < 0);
		assert_non_null(strstr(err.text, c->error));
		return;
	}
	/* The same file twice: its rows follow each other. */
	if (open_inputs(&data, "csv", inputs, 2, &like, &err))
		fail_msg("%s", err.text);
	assert_int_equal(gt_dataset_info(data)->samples, 2 * c->samples);
	assert_int_equal(gt_dataset_info(data)->form.classes, 2);
	for (int turn = 1; turn <= 2; turn++) {
		int64_t last = turn * c->samples - 1;

		assert_int_equal(gt_dataset_read(data, last, &eval_draw, input, &target, NULL), 0);
		assert_memory_equal(input, c->last, sizeof(input));
		assert_int_equal(target, GT_DATA_IGNORE);
		snprintf(name, sizeof(name), "%s%s", path, c->last_name);
		assert_string_equal(gt_dataset_sample_name(data, last), name);
	}
	gt_dataset_close(data);
}

static void test_tables(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		check_table(&tables[i], &f);
	fixture_close(&f);
}

static void test_files_that_differ(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	struct fixture f;
	char a[128], b[128];
	char *inputs[] = { a, b };

	(void)state;
	fixture_open(&f);
	put_text(&f, "a.csv", "1,2\n");
	put_text(&f, "b.csv", "1,2,3\n");
	snprintf(a, sizeof(a), "%s", in(&f, "a.csv"));
	snprintf(b, sizeof(b), "%s", in(&f, "b.csv"));
	assert_int_equal(open_inputs(&data, "csv", inputs, 2, NULL, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "b.csv': rows of 3 features, but"));
	fixture_close(&f);
}

static void test_kinds_with_classes(void **state)
{
	static const char *const specs[] = { "text", "mnist", "random" };
	char *inputs[] = { (char *)"-" };
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++)
		assert_int_equal(open_inputs(&data, specs[i], inputs, 1, NULL, &err), GT_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_files_that_differ),
		cmocka_unit_test(test_kinds_with_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
