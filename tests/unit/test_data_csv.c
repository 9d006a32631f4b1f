/* test_data_csv.c - tables: numbers far from 0, the place of the target, the first row. */
#include "lib/data/description.h"
#include "tests/unit/data_fixture.h"

static const struct gt_draw eval_draw;

/* ---- the place of the target ---- */

/* Tables of a target t and columns a and b, read after a training on another one. */
static const struct {
	const char *trained, *trained_options, *text, *options;
	float features[2];
	int target;
	const char *overruled; /* NULL: no note */
} places[] = {
	{ "7,1,2\n", ",target=0", "5,3,4\n", "", { 3, 4 }, 5, NULL },
	{ "1,7,2\n", ",target=1", "3,5,4\n", "", { 3, 4 }, 5, NULL },
	{ "1,2,7\n", "", "3,4,5\n", "", { 3, 4 }, 5, NULL },
	{ "7,1,2\n", ",target=0", "5,3,4\n", ",target=0", { 3, 4 }, 5, NULL },
	{ "7,1,2\n", ",target=0", "3,4,5\n", ",target=2", { 3, 4 }, 5,
	    "the target is column 2, but the model was trained on column 0" },
	/* skipped fields do not count */
	{ "9,7,1,2\n", ",target=1,skip=0", "5,3,4\n", "", { 3, 4 }, 5, NULL },
	{ "7,1,2\n", ",target=0", "9,9,5,3,4\n", ",skip=0/1", { 3, 4 }, 5, NULL },
	/* names on one side; on both, they win */
	{ "t,a,b\n7,1,2\n", ",target=t", "5,3,4\n", "", { 3, 4 }, 5, NULL },
	{ "7,1,2\n", ",target=0", "t,a,b\n5,3,4\n", "", { 3, 4 }, 5, NULL },
	{ "t,a,b\n7,1,2\n", ",target=t", "b,a,t\n4,3,5\n", "", { 3, 4 }, 5, NULL },
	{ "t,a,b\n7,1,2\n", ",target=t", "b,a,u\n4,3,5\n", "", { 3, 4 }, 5,
	    "the target is 'u', but the model was trained on 't'" },
	{ "t,a,b\n7,1,2\n", ",target=t", "4,3,5\n", ",target=2", { 4, 3 }, 5,
	    "the target is column 2, but the model was trained on column 0" },
};

static void the_target_keeps_its_place(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		struct gt_data_description d;
		const struct gt_data_request request = { .like = &d };
		struct gt_dataset *trained, *data;
		const char *overruled;
		float x[2];
		int32_t target;

		put_text(&f, "t.csv", places[i].trained);
		put_text(&f, "d.csv", places[i].text);
		trained = open_data("csv", in(&f, "t.csv"), places[i].trained_options, NULL);
		gt_data_describe(&d, trained);
		data = open_data("csv", in(&f, "d.csv"), places[i].options, &request);
		gt_dataset_read(data, 0, &eval_draw, x, &target, NULL);
		if (memcmp(x, places[i].features, sizeof(x)) || target != places[i].target)
			fail_msg("case %zu: %g, %g and %d", i, (double)x[0], (double)x[1], target);
		overruled = gt_dataset_info(data)->overruled;
		if (places[i].overruled)
			assert_string_equal(overruled, places[i].overruled);
		else
			assert_null(overruled);
		gt_dataset_close(data);
		gt_dataset_close(trained);
	}
	fixture_close(&f);
}

/* Runs of older versions do not say where the target was: it is the last column. */
static void an_older_run_has_no_place(void **state)
{
	struct gt_data_description d;
	const struct gt_data_request request = { .like = &d };
	struct gt_dataset *trained, *data;
	struct fixture f;
	int32_t target;
	float x[2];

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", "7,1,2\n");
	trained = open_data("csv", in(&f, "t.csv"), ",target=0", NULL);
	gt_data_describe(&d, trained);
	d.target_place = 0;
	for (int i = 0; i < 2; i++) {
		data = open_data("csv", in(&f, "t.csv"), i ? ",target=0" : "", &request);
		gt_dataset_read(data, 0, &eval_draw, x, &target, NULL);
		assert_true(target == (i ? 7 : 2) && x[0] == (i ? 1 : 7));
		assert_null(gt_dataset_info(data)->overruled);
		gt_dataset_close(data);
	}
	gt_dataset_close(trained);
	fixture_close(&f);
}

/* ---- the first row ---- */

/* The number of samples tells whether the first of two rows is a header. */
static void the_first_row_names_columns(void **state)
{
	static const struct {
		const char *text;
		int samples;
	} cases[] = {
		{ "a,k\n1,x\n", 1 },
		{ "a,b,k\n1,2,x\n", 1 },
		{ "nano,k\n1,x\n", 1 },
		{ "info,k\n1,x\n", 1 },
		{ "1st,b,k\n1,2,x\n", 1 },
		{ ",b,k\n1,2,x\n", 1 },
		{ "NA,b,k\n1,2,x\n", 1 },
		{ "3,y\n1,x\n", 2 },
		{ "a,y\nb,x\n", 2 },
		{ "a,1,y\nb,2,x\n", 2 },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_dataset *data;

		put_text(&f, "t.csv", cases[i].text);
		data = open_data("csv", in(&f, "t.csv"), "", NULL);
		if (gt_dataset_info(data)->samples != cases[i].samples)
			fail_msg(
			    "%s: %d samples", cases[i].text, (int)gt_dataset_info(data)->samples);
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

/* ---- errors of data for a model ---- */

static void bad_data_are_no_bad_options(void **state)
{
	static const struct {
		const char *trained, *text, *wanted;
	} cases[] = {
		{ "a,k\n1,x\n2,y\n", "a,k\n1,x\n1,z\n1,z\n",
		    "d.csv': line 3: class 'z' is not in the data trained on, which has 'x', 'y'" },
		{ "a,k\n1,x\n2,y\n", "a,k\n1,v\n1,w\n",
		    "d.csv': line 2: classes 'v', 'w' are not" },
		{ "1,0\n2,1\n", "1,0\n1,2\n",
		    "d.csv': line 2, column 1: class 2 is not among the 2 classes" },
		{ "red,0\nblue,1\n", "red,0\npink,0\n",
		    "d.csv': line 2, column 0: 'pink' is not among the words" },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_data_description d;
		const struct gt_data_request request = { .like = &d };
		struct gt_dataset *trained, *data;
		struct gt_err err = GT_ERR_INIT;
		char spec[256];

		put_text(&f, "t.csv", cases[i].trained);
		put_text(&f, "d.csv", cases[i].text);
		trained = open_data("csv", in(&f, "t.csv"), "", NULL);
		gt_data_describe(&d, trained);
		snprintf(spec, sizeof(spec), "csv:%s", in(&f, "d.csv"));
		assert_int_equal(gt_dataset_open(&data, spec, &request, &err), GT_EFORMAT);
		if (!strstr(err.text, cases[i].wanted))
			fail_msg("'%s'\nwanted '%s'", err.text, cases[i].wanted);
		gt_dataset_close(trained);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_target_keeps_its_place),
		cmocka_unit_test(an_older_run_has_no_place),
		cmocka_unit_test(the_first_row_names_columns),
		cmocka_unit_test(bad_data_are_no_bad_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
