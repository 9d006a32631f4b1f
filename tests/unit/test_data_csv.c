/* test_data_csv.c - tables: numbers far from 0, the place of the target, the first row. */
#include <math.h>

#include "lib/data/core/description.h"
#include "tests/unit/data_fixture.h"

static const struct gt_draw eval_draw;

/* ---- numbers far from 0 ---- */

/* Columns [3] of a number. The features must be those that float64 gives, rounded to float32. */
struct numbers {
	const char *rows[3], *options;
	double mean, std;
	float features[3];
};

static const struct numbers columns[] = {
	{ { "1", "2", "6" }, "", 3, 2.1602468994692869, { 0 } },
	{ { "1700000000", "1700000001", "1700000005" }, "", 1700000002, 2.1602468994692869, { 0 } },
	{ { "-9007199254740991", "-9007199254740989", "-9007199254740990" }, "", -9007199254740990,
	    0.81649658092772603, { 0 } },
	/* with 15 digits, the mean would be off by a fifth of the deviation */
	{ { "1700000000000000000", "1700000000000025600", "1700000000000051200" }, "",
	    1700000000000025600, 20902.312471749799, { 0 } },
	{ { "0.1000000001", "0.1000000002", "0.1000000003" }, "", 0.1000000002,
	    8.1649658092772609e-11, { 0 } },
	/* numbers too small for float32 */
	{ { "1e-50", "2e-50", "6e-50" }, "", 3e-50, 2.1602468994692869e-50, { 0 } },
	{ { "1e-50", "0.5", "1" }, "", 0.5, 0.40824829046386302, { 0 } },
	/* a column that does not vary */
	{ { "1e-50", "1e-50", "1e-50" }, "", 1e-50, 1, { 0 } },
	{ { "1e-50", "1e-50", "1e-50" }, ",standardise=no", 0, 1, { 0 } },
	{ { "0.1", "0.1", "0.1" }, "", 0.1, 1, { 0 } },
	{ { "0", "0", "0" }, "", 0, 1, { 0 } },
	{ { "0.12345678901234567", "0.12345678901234567", "0.12345678901234567" }, "",
	    0.12345678901234567, 1, { 0 } },
	{ { "1.7014118346046923e38", "1.7014118346046923e38", "1.7014118346046923e38" }, "",
	    1.7014118346046923e38, 1, { 0 } },
	/* numbers are used unchanged */
	{ { "1", "2", "6" }, ",standardise=no", 0, 1, { 1, 2, 6 } },
	{ { "3.4028234663852886e38", "-3.4028234663852886e38", "0" }, "", 0, 2.7783937248879e38,
	    { 0 } },
};

static void check_numbers(const struct fixture *f, const struct numbers *c)
{
	struct gt_data_description d;
	struct gt_dataset *data;
	char text[256];

	snprintf(text, sizeof(text), "%s,0\n%s,1\n%s,0\n", c->rows[0], c->rows[1], c->rows[2]);
	put_text(f, "n.csv", text);
	data = open_data("csv", in(f, "n.csv"), c->options, NULL);
	assert_int_equal(gt_dataset_fit(data, NULL), 0);
	gt_data_describe(&d, data);
	if (fabs(d.columns[0].mean - c->mean) > 1e-14 * fabs(c->mean) ||
	    fabs(d.columns[0].std - c->std) > 1e-7 * c->std)
		fail_msg(
		    "%s: mean %.17g, std %.17g", c->rows[0], d.columns[0].mean, d.columns[0].std);
	for (int i = 0; i < 3; i++) {
		double want = (strtod(c->rows[i], NULL) - c->mean) / c->std;
		int32_t target;
		float x;

		assert_int_equal(gt_dataset_read(data, i, &eval_draw, &x, &target, NULL), 0);
		if (c->features[i])
			want = (double)c->features[i];
		if (fabs((double)x - want) > 2e-7 * (1 + fabs(want)))
			fail_msg("%s: %.9g, not %.9g", c->rows[i], (double)x, want);
	}
	gt_dataset_close(data);
}

static void numbers_keep_their_digits(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		check_numbers(&f, &columns[i]);
	fixture_close(&f);
}

/* Targets far from 1, but with deviations whose squares float64 holds, are standardized. */
static void small_targets_are_standardized(void **state)
{
	static const double units[] = { 1, 1e-100, 1e38 };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		struct gt_data_description d;
		struct gt_dataset *data;
		char text[256];

		snprintf(
		    text, sizeof(text), "5,%g\n6,%g\n7,%g\n", units[i], 2 * units[i], 3 * units[i]);
		put_text(&f, "n.csv", text);
		data = open_data("csv", in(&f, "n.csv"), ",task=regression", NULL);
		assert_int_equal(gt_dataset_fit(data, NULL), 0);
		gt_data_describe(&d, data);
		if (fabs(d.target.mean / units[i] - 2) > 1e-14 ||
		    fabs(d.target.std / units[i] - sqrt(2.0 / 3)) > 1e-14)
			fail_msg(
			    "%g: mean %.17g, std %.17g", units[i], d.target.mean, d.target.std);
		for (int k = 0; k < 3; k++) {
			float x, target;

			assert_int_equal(gt_dataset_read(data, k, &eval_draw, &x,
			                     (int32_t *)(void *)&target, NULL),
			    0);
			assert_true(fabs((double)target - (k - 1) * sqrt(1.5)) < 1e-6);
		}
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

/* The squares of these deviations would be 0 as double. */
static void numbers_too_near_each_other_are_refused(void **state)
{
	static const char *const rows[] = { "5,1e-165\n6,2e-165\n", "1e-200,0.5\n2e-200,1.5\n" };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;

		put_text(&f, "n.csv", rows[i]);
		data = open_data("csv", in(&f, "n.csv"), ",task=regression", NULL);
		assert_int_equal(gt_dataset_fit(data, &err), GT_EFORMAT);
		assert_non_null(strstr(err.text, "has numbers too near each other"));
		assert_string_equal(err.hint, "write the column in another unit");
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

/* Other data for a model may have only numbers that are small for their column. */
static void small_numbers_of_other_data_are_read(void **state)
{
	struct gt_data_description d;
	const struct gt_data_request request = { .like = &d };
	struct gt_dataset *trained, *data;
	struct fixture f;
	int32_t target;
	float x;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", "1,0\n2,1\n3,0\n");
	put_text(&f, "d.csv", "1e-50,0\n");
	trained = open_data("csv", in(&f, "t.csv"), "", NULL);
	assert_int_equal(gt_dataset_fit(trained, NULL), 0);
	gt_data_describe(&d, trained);
	data = open_data("csv", in(&f, "d.csv"), "", &request);
	assert_int_equal(gt_dataset_read(data, 0, &eval_draw, &x, &target, NULL), 0);
	assert_true(x == (float)(-2 / d.columns[0].std));
	gt_dataset_close(data);
	gt_dataset_close(trained);
	fixture_close(&f);
}

/* Columns of numbers far from 0, of such numbers and others, and late ones near 0: numbers stay
 * distinct, and are the same features when other data are read with the description. */
static void numbers_of_any_size_stay_distinct(void **state)
{
	static const char *const words[4] = { "999999", "999999.1", "20.51", "20.53" };
	struct gt_data_description d;
	const struct gt_data_request request = { .like = &d };
	struct gt_dataset *data, *other;
	struct fixture f;
	float row[2][2], last[2] = { 0 };
	int32_t target;
	FILE *file;

	(void)state;
	fixture_open(&f);
	file = create(&f, "n.csv");
	fprintf(file, "c,x,y,k\n");
	for (int i = 0; i < 2000; i++)
		fprintf(file, "w,%s,%d,0\n", words[(i >= 300) * 2 + i % 2], 1700000000 + i);
	fclose(file);
	data = open_data("csv", in(&f, "n.csv"), ",skip=c", NULL);
	assert_int_equal(gt_dataset_fit(data, NULL), 0);
	gt_data_describe(&d, data);
	other = open_data("csv", in(&f, "n.csv"), "", &request);
	for (int i = 0; i < 2000; i++) {
		gt_dataset_read(data, i, &eval_draw, row[0], &target, NULL);
		gt_dataset_read(other, i, &eval_draw, row[1], &target, NULL);
		assert_memory_equal(row[0], row[1], sizeof(row[0]));
		assert_true(row[0][0] != last[0] && row[0][1] != last[1]);
		memcpy(last, row[0], sizeof(last));
	}
	gt_dataset_close(data);
	gt_dataset_close(other);
	fixture_close(&f);
}

/* With standardise=no, a column or a target to train on that is one number in float32 is an error.
 */
static void digits_lost_in_float32_are_an_error(void **state)
{
	static const struct {
		const char *rows, *options, *column;
	} cases[] = {
		{ "1700000000,0\n1700000001,1\n1700000005,0\n", ",standardise=no", "column 0" },
		{ "t,y\n1,1e-60\n2,2e-60\n3,3e-60\n", ",standardise=no,task=regression",
		    "column 'y'" },
		{ "1700000000,0\n1700000001,1\n1700009000,0\n", ",standardise=no", NULL },
		{ "1700000000,0\n1700000000,1\n1700000000,0\n", ",standardise=no", NULL },
		{ "1700000000,0\n1700000001,1\n1700000005,0\n", "", NULL },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[512], want[256];
		int rc;

		put_text(&f, "n.csv", cases[i].rows);
		snprintf(spec, sizeof(spec), "csv:%s%s", in(&f, "n.csv"), cases[i].options);
		rc = gt_dataset_open(&data, spec, NULL, &err);
		assert_int_equal(rc, cases[i].column ? GT_EFORMAT : 0);
		gt_dataset_close(data);
		if (!rc)
			continue;
		snprintf(want, sizeof(want),
		    "%s: float32 has one number for all its numbers, so standardise=no makes them equal",
		    cases[i].column);
		assert_non_null(strstr(err.text, want));
		assert_string_equal(
		    err.hint, "leave out standardise=no, or subtract a constant from the column");
	}
	fixture_close(&f);
}

/* The description has the same bits when JSON gives it back, and other data are read with it. */
static void a_description_keeps_the_scale(void **state)
{
	struct gt_data_description d, known;
	struct gt_data_request request = { .like = &known };
	struct gt_dataset *data, *other;
	struct gt_err err = GT_ERR_INIT;
	struct fixture f;
	float a, b;
	int32_t targets[2];
	double number;
	json_t *json;
	char *text;

	(void)state;
	fixture_open(&f);
	put_text(&f, "n.csv", "1700000000.30000049,-7.1\n1700000001.7,1e9\n1700000005.9,3.5\n");
	put_text(&f, "one.csv", "1700000001.7,3.5\n");
	data = open_data("csv", in(&f, "n.csv"), "", NULL);
	assert_int_equal(gt_dataset_fit(data, NULL), 0);
	gt_data_describe(&d, data);
	json = gt_data_description_to_json(&d, false, &err);
	text = json_dumps(json, JSON_REAL_PRECISION(17));
	json_decref(json);
	json = json_loads(text, 0, NULL);
	assert_int_equal(gt_data_description_from_json(&known, json, &err), 0);
	assert_true(known.columns[0].mean == d.columns[0].mean);
	assert_true(known.columns[0].std == d.columns[0].std);
	assert_true(known.target.mean == d.target.mean && known.target_place == 2);
	other = open_data("csv", in(&f, "one.csv"), "", &request);
	gt_dataset_read(data, 1, &eval_draw, &a, &targets[0], NULL);
	gt_dataset_read(other, 0, &eval_draw, &b, &targets[1], NULL);
	assert_true(a == b);
	gt_dataset_read(data, 2, &eval_draw, &a, &targets[0], NULL);
	assert_int_equal(targets[0], targets[1]);
	assert_true(gt_dataset_number(data, 0, &number) && number == -7.1);
	assert_true(gt_dataset_number(data, 1, &number) && number == 1e9);
	gt_data_description_release(&known);
	json_object_set_new(json, "target-place", json_integer(3));
	assert_int_equal(gt_data_description_from_json(&known, json, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "'target-place'"));
	json_decref(json);
	free(text);
	gt_dataset_close(data);
	gt_dataset_close(other);
	fixture_close(&f);
}

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

/* Another target than in training has its place in the new file, if the columns have their order
 * there: 1 + the number of known columns before it. */
static void another_target_has_another_place(void **state)
{
	static const struct {
		const char *text, *options;
		int place; /* 0: not known */
	} cases[] = {
		{ "x,y,price\n1,2,7\n", "", 3 },
		{ "price,x,y\n7,1,2\n", "", 3 },
		{ "price,y,x\n7,2,1\n", "", 3 },
		{ "age,x,y\n5,1,2\n", ",target=age", 1 },
		{ "price,age,x,y\n7,5,1,2\n", ",target=age", 1 },
		{ "x,age,price,y\n1,5,7,2\n", ",target=age", 2 },
		{ "x,y,z,age\n1,2,3,5\n", "", 3 },
		{ "age,y,x\n5,2,1\n", ",target=age", 0 },
	};
	struct gt_data_description d, other;
	const struct gt_data_request request = { .like = &d };
	struct gt_dataset *trained, *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", "x,y,price\n1,2,7\n");
	trained = open_data("csv", in(&f, "t.csv"), "", NULL);
	gt_data_describe(&d, trained);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		put_text(&f, "d.csv", cases[i].text);
		data = open_data("csv", in(&f, "d.csv"), cases[i].options, &request);
		gt_data_describe(&other, data);
		if (other.target_place != cases[i].place)
			fail_msg("%s: place %d", cases[i].text, other.target_place);
		gt_dataset_close(data);
	}
	gt_dataset_close(trained);
	fixture_close(&f);
}

/* A target without a place is the last column. */
static void a_target_without_a_place_is_the_last(void **state)
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
		{ "nan,b,k\n1,2,x\n", 1 },
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

/* Data that nobody trains on need not vary as float32. */
static void small_numbers_are_read_for_a_model(void **state)
{
	const struct gt_data_description nothing_known = { 0 };
	const struct gt_data_request request = { .like = &nothing_known };
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", "1e-50,0\n2e-50,1\n");
	data = open_data("csv", in(&f, "t.csv"), "", &request);
	assert_int_equal(gt_dataset_info(data)->samples, 2);
	gt_dataset_close(data);
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
		    "d.csv': line 2, column 1: the target '2' is not among the classes" },
		{ "red,0\nblue,1\n", "red,0\npink,0\n",
		    "d.csv': line 2, column 0: 'pink' is not among the words" },
		{ "1,0\n2,1\n", "1,2,0\n",
		    "d.csv': rows of 2 features, but the model was trained on 1" },
		{ "a,b,k\n1,2,x\n", "a,c,k\n1,2,x\n",
		    "d.csv': there is no column 'b', but the model was trained with it" },
		{ "a,b,k\n1,2,x\n", "a,b,b,k\n1,2,2,x\n",
		    "d.csv': columns 1 and 2 have the same name, 'b'" },
		{ "a,b,k\n1,2,x\n", "a,b\n1,2\n", "d.csv': no column is left to be the target" },
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

/* Settings that are refused for data of a trained model do not stand in hints. */
static void hints_suit_data_for_a_model(void **state)
{
	static const struct {
		const char *text, *wanted, *hint;
	} cases[] = {
		{ "1,,x\n", "the value is missing", "fill it in or leave out the row" },
		{ "1,z,x\n", "'z' is not a number", "write a number, or leave out the row" },
		{ "1,inf,x\n", "'inf' is not a number", "numbers are finite" },
		{ "1,1e39,x\n", "'1e39' is beyond the range of float32", "leave out the row" },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", "1,2,x\n3,4,y\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_data_description d;
		const struct gt_data_request request = { .like = &d };
		struct gt_dataset *trained = open_data("csv", in(&f, "t.csv"), "", NULL), *data;
		struct gt_err err = GT_ERR_INIT;
		char spec[256];

		put_text(&f, "d.csv", cases[i].text);
		gt_data_describe(&d, trained);
		snprintf(spec, sizeof(spec), "csv:%s", in(&f, "d.csv"));
		assert_int_equal(gt_dataset_open(&data, spec, &request, &err), GT_EFORMAT);
		if (!strstr(err.text, cases[i].wanted))
			fail_msg("'%s'\nwanted '%s'", err.text, cases[i].wanted);
		assert_string_equal(err.hint, cases[i].hint);
		gt_dataset_close(trained);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_keep_their_digits),
		cmocka_unit_test(small_targets_are_standardized),
		cmocka_unit_test(numbers_too_near_each_other_are_refused),
		cmocka_unit_test(small_numbers_of_other_data_are_read),
		cmocka_unit_test(numbers_of_any_size_stay_distinct),
		cmocka_unit_test(digits_lost_in_float32_are_an_error),
		cmocka_unit_test(a_description_keeps_the_scale),
		cmocka_unit_test(the_target_keeps_its_place),
		cmocka_unit_test(another_target_has_another_place),
		cmocka_unit_test(a_target_without_a_place_is_the_last),
		cmocka_unit_test(the_first_row_names_columns),
		cmocka_unit_test(small_numbers_are_read_for_a_model),
		cmocka_unit_test(bad_data_are_no_bad_options),
		cmocka_unit_test(hints_suit_data_for_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
