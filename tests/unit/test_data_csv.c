/* test_data_csv.c - tables: numbers far from 0, the place of the target, the first row. */
#include "lib/data/description.h"
#include "tests/unit/data_fixture.h"

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
		cmocka_unit_test(the_first_row_names_columns),
		cmocka_unit_test(bad_data_are_no_bad_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
