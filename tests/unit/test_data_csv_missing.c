/* test_data_csv_missing.c - missing values of tables: replaced, a category, or rows left out. */
#include <math.h>

#include "lib/data/core/description.h"
#include "tests/unit/data_fixture.h"

static const struct gt_draw eval_draw;

/* Three columns, age, colour and size, and a class. */
static const char table[] = "age,colour,size,kind\n,red,1,a\n20,,1,b\nNA,red,1,a\n40,blue,1,b\n"
                            "30,null,1,a\n90,blue,1,b\n";

/* The same columns to read with a trained model. */
static const char other[] = "age,colour,size,kind\n,red,1,a\n20,,,b\n";

enum { FEATURES = 5 }; /* age, "", blue, red, size */

struct filled {
	const char *options;
	double fill, mean, std; /* of the column `age` */
};

static const struct filled filled[] = {
	/* 20, 40, 30 and 90 */
	{ ",missing=mean", 45, 45, 26.9258240356725 },
	{ ",missing=median", 35, 45, 26.9258240356725 },
	{ ",missing=mean,standardise=no", 45, 0, 1 },
	{ ",missing=median,standardise=no", 35, 0, 1 },
};

static void check_features(struct gt_dataset *data, int64_t i, const float *wanted)
{
	float features[FEATURES];
	int32_t target;

	assert_int_equal(gt_dataset_read(data, i, &eval_draw, features, &target, NULL), 0);
	for (int k = 0; k < FEATURES; k++)
		if (fabsf(features[k] - wanted[k]) > 1e-6f)
			fail_msg("sample %lld, feature %d: %g, not %g", (long long)i, k,
			    (double)features[k], (double)wanted[k]);
}

/* Write the description as JSON and read it again, as a run does. */
static void save_and_read(struct gt_data_description *out, const struct gt_dataset *data)
{
	struct gt_data_description d;
	json_t *json, *parsed;
	char *text;

	gt_data_describe(&d, data);
	json = gt_data_description_to_json(&d, true, NULL);
	text = json_dumps(json, 0);
	parsed = json_loads(text, 0, NULL);
	assert_int_equal(gt_data_description_from_json(out, parsed, NULL), 0);
	json_decref(json);
	json_decref(parsed);
	free(text);
}

static void check_filled(const struct fixture *f, const struct filled *c)
{
	const struct gt_data_request fit = { .fit = true };
	struct gt_data_request like = { 0 };
	struct gt_data_description d;
	struct gt_dataset *data;
	float age = (float)((c->fill - c->mean) / c->std), one = c->mean != 0 ? 0 : 1;
	const float first[FEATURES] = { age, 0, 0, 1, one };
	const float second[FEATURES] = { (float)((20 - c->mean) / c->std), 1, 0, 0, one };

	put_text(f, "t.csv", table);
	data = open_data("csv", in(f, "t.csv"), c->options, &fit);
	assert_int_equal(gt_dataset_fit(data, NULL), 0);
	assert_int_equal(gt_dataset_info(data)->form.features, FEATURES);
	check_features(data, 0, first);
	check_features(data, 1, second);
	save_and_read(&d, data);
	gt_dataset_close(data);
	/* without the setting, other data have that of the training; `size` had none missing */
	like.like = &d;
	put_text(f, "o.csv", other);
	data = open_data(
	    "csv", in(f, "o.csv"), strchr(c->options + 1, ',') ? ",standardise=no" : "", &like);
	check_features(data, 0, first);
	check_features(data, 1, second);
	gt_dataset_close(data);
	gt_data_description_release(&d);
}

static void missing_values_are_replaced(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(filled) / sizeof(*filled); i++)
		check_filled(&f, &filled[i]);
	fixture_close(&f);
}

/* The statistics are those of the samples to train on, not of those held out. */
static void held_out_rows_do_not_count(void **state)
{
	const struct gt_data_request fit = { .fit = true };
	struct gt_data_description d;
	struct gt_dataset *data, *train, *val;
	FILE *file;
	struct fixture f;
	double sum = 0;
	int count = 0;

	(void)state;
	fixture_open(&f);
	file = create(&f, "t.csv");
	for (int i = 0; i < 40; i++)
		i % 4 ? fprintf(file, "%d,%d\n", i * i, i % 2) : fprintf(file, ",%d\n", i % 2);
	fclose(file);
	data = open_data("csv", in(&f, "t.csv"), ",missing=mean,standardise=no", &fit);
	assert_int_equal(gt_dataset_split(data, 0.3, &train, &val, NULL), 0);
	assert_int_equal(gt_dataset_fit(train, NULL), 0);
	gt_data_describe(&d, train);
	for (int i = 0; i < gt_dataset_info(train)->samples; i++) {
		float x;
		int32_t target;

		assert_int_equal(gt_dataset_read(train, i, &eval_draw, &x, &target, NULL), 0);
		if (x == (float)d.columns[0].fill)
			continue;
		sum += (double)x;
		count++;
	}
	assert_true(count > 15 && count < 30);
	assert_true(fabs(sum / count - d.columns[0].fill) < 1e-6 * d.columns[0].fill);
	gt_dataset_close(data);
	gt_dataset_close(train);
	gt_dataset_close(val);
	fixture_close(&f);
}

/* Numbers far from 0, with a late one near 0, keep their digits beside missing values. */
static void far_numbers_agree_with_missing_values(void **state)
{
	static const char *const options[] = { ",missing=mean", ",missing=drop" };
	const struct gt_data_request fit = { .fit = true };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (int late = 0; late < 2; late++)
		for (int o = 0; o < 2; o++) {
			FILE *file = create(&f, "t.csv");
			struct gt_data_description d;
			struct gt_dataset *data;
			double mean = 0, n = 300;

			fprintf(file, ",b\n");
			for (int i = 0; i < 300; i++) {
				int x = i == 299 && late ? 1 : 1700000000 + i % 7;

				fprintf(file, "%d,%c\n%s", x, 'a' + i % 2, i % 3 ? "" : "NA,a\n");
				mean += x / n;
			}
			fclose(file);
			data = open_data("csv", in(&f, "t.csv"), options[o], &fit);
			assert_int_equal(gt_dataset_fit(data, NULL), 0);
			assert_int_equal(gt_dataset_info(data)->samples, o ? 300 : 401);
			gt_data_describe(&d, data);
			if (fabs(d.columns[0].mean - mean) > 1e-4)
				fail_msg("mean %.17g, not %.17g", d.columns[0].mean, mean);
			gt_dataset_close(data);
		}
	fixture_close(&f);
}

static void rows_are_dropped(void **state)
{
	static const char *const rows = "age,colour,size,kind\n,red,1,a\n20,red,1,\n1,red,1,a\n"
	                                "5,blue,1,b\n";
	const struct gt_data_request fit = { .fit = true };
	struct gt_data_request like = { 0 };
	struct gt_data_description d;
	struct gt_dataset *data;
	struct gt_err err = GT_ERR_INIT;
	struct fixture f;
	char spec[512], *inputs[1];

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", rows);
	data = open_data("csv", in(&f, "t.csv"), ",missing=drop", &fit);
	assert_int_equal(gt_dataset_info(data)->samples, 2);
	assert_non_null(strstr(gt_dataset_info(data)->interpretation, "2 of 4 rows are left out"));
	assert_int_equal(gt_dataset_fit(data, NULL), 0);
	save_and_read(&d, data);
	gt_dataset_close(data);
	like.like = &d;
	data = open_data("csv", in(&f, "t.csv"), "", &like);
	assert_int_equal(gt_dataset_info(data)->samples, 2);
	gt_dataset_close(data);
	/* inputs of predictions are not left out */
	put_text(&f, "i.csv", "age,colour,size\n1,red,1\n,red,1\n");
	inputs[0] = strdup(in(&f, "i.csv"));
	like.inputs = inputs;
	like.input_count = 1;
	assert_int_equal(gt_dataset_open(&data, "csv:", &like, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "line 3, column 'age': the value is missing"));
	assert_string_equal(err.hint, "fill it in or leave out the row");
	free(inputs[0]);
	gt_data_description_release(&d);
	/* nothing is left */
	snprintf(spec, sizeof(spec), "csv:%s,missing=drop", in(&f, "i.csv"));
	put_text(&f, "i.csv", "1,\n,a\n");
	assert_int_equal(gt_dataset_open(&data, spec, &fit, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "a value is missing in every row"));
	fixture_close(&f);
}

/* ---- errors ---- */

static const struct {
	const char *text, *options, *error, *hint;
} wrongs[] = {
	{ "1,a,x\n,b,y\n", "", "line 2, column 0: the value is missing",
	    "missing=mean or missing=median fills in numbers" },
	{ "1,a,x\n,b,y\n", ",missing=category", "line 2, column 0: the value is missing",
	    "missing=mean or missing=median fills in numbers" },
	{ "a,b,c\n,a,x\nNA,b,y\n", ",missing=median,header=yes",
	    "column 'a' has no value in any row", "skip=a leaves it out" },
	{ "1,a,x\n2,b,\n", ",missing=mean", "line 2, column 2: the target is missing",
	    "missing=drop" },
	{ "1,,x\n5,,y\n", ",missing=mean", "column 1 has no value in any row", "skip=1" },
	{ "1,2,x,\n3,4,y,\n", "", "column 3 has no value in any row", "skip=3" },
	{ ",a,x\n1,b,y\n", ",missing=category", "line 1, column 0: the value is missing",
	    "missing=mean or missing=median fills in numbers" },
	{ "1,,x\n5\n6,2,y\n", ",missing=mean", "line 2 has 1 fields", "divided" },
	{ "1,,x\n\"5\"6,2,y\n", ",missing=mean", "line 2: field 1 goes on", "twice" },
	{ "1,a,x\n2,b,y\n", ",missing=zero", "'missing=zero'", "" },
};

static void errors_lead_on(void **state)
{
	const struct gt_data_request fit = { .fit = true };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[512];

		put_text(&f, "t.csv", wrongs[i].text);
		snprintf(spec, sizeof(spec), "csv:%s%s", in(&f, "t.csv"), wrongs[i].options);
		assert_true(gt_dataset_open(&data, spec, &fit, &err) < 0);
		if (!strstr(err.text, wrongs[i].error) || !strstr(err.hint, wrongs[i].hint))
			fail_msg("case %zu: '%s'\n'%s'", i, err.text, err.hint);
	}
	fixture_close(&f);
}

/* Data for a model are read with its setting, and a category needs to occur in training. */
static void the_setting_is_that_of_the_training(void **state)
{
	static const struct {
		const char *trained, *options, *text, *error;
	} cases[] = {
		{ ",missing=mean", ",missing=median", other, "trained with missing=mean" },
		{ "", ",missing=mean", other, "trained with missing=error" },
		{ ",missing=mean", ",missing=mean", other, NULL },
		{ ",missing=mean", ",missing=drop", table, NULL },
		{ ",missing=mean", ",missing=error", other, "line 2, column 'age': the value is" },
		{ "", "", other, "line 2, column 'age': the value is missing" },
		{ ",missing=category", "", "age,colour,size,kind\n1,,1,a\n",
		    "line 2, column 'colour': the value is missing" },
	};
	static const char full[] = "age,colour,size,kind\n1,red,1,a\n2,blue,2,b\n";
	const struct gt_data_request fit = { .fit = true };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_data_request like = { 0 };
		struct gt_data_description d;
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *trained, *data;
		char spec[512];
		bool gaps = !strcmp(cases[i].trained, ",missing=mean");
		int rc;

		put_text(&f, "t.csv", gaps ? table : full);
		trained = open_data("csv", in(&f, "t.csv"), cases[i].trained, &fit);
		assert_int_equal(gt_dataset_fit(trained, NULL), 0);
		gt_data_describe(&d, trained);
		like.like = &d;
		put_text(&f, "o.csv", cases[i].text);
		snprintf(spec, sizeof(spec), "csv:%s%s", in(&f, "o.csv"), cases[i].options);
		rc = gt_dataset_open(&data, spec, &like, &err);
		if (cases[i].error ? !rc || !strstr(err.text, cases[i].error) : rc)
			fail_msg("case %zu: '%s'", i, err.text);
		if (!rc)
			gt_dataset_close(data);
		gt_dataset_close(trained);
	}
	fixture_close(&f);
}

/* A description that was changed by hand. */
static void bad_descriptions_are_refused(void **state)
{
	static const struct {
		const char *missing, *column, *error;
	} cases[] = {
		{ "\"mean\"", "\"mean\":1,\"std\":1", "'fill' must be in each column of numbers" },
		{ "\"mean\"", "\"mean\":1,\"std\":1,\"fill\":\"x\"", "'fill' must be a number" },
		{ "\"mode\"", "\"mean\":1,\"std\":1", "'missing' must be mean, median" },
		{ "7", "\"mean\":1,\"std\":1", "'missing' must be mean, median" },
		{ "\"drop\"", "\"mean\":1,\"std\":1", NULL },
		{ "\"median\"", "\"mean\":1,\"std\":1,\"fill\":3", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_data_description d;
		struct gt_err err = GT_ERR_INIT;
		char text[256];
		json_t *json;
		int rc;

		snprintf(text, sizeof(text),
		    "{\"kind\":\"vector\",\"classes\":2,\"features\":1,\"missing\":%s,"
		    "\"columns\":[{%s}]}",
		    cases[i].missing, cases[i].column);
		json = json_loads(text, 0, NULL);
		rc = gt_data_description_from_json(&d, json, &err);
		if (cases[i].error ? !rc || !strstr(err.text, cases[i].error) : rc)
			fail_msg("case %zu: '%s'", i, err.text);
		gt_data_description_release(&d);
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_values_are_replaced),
		cmocka_unit_test(held_out_rows_do_not_count),
		cmocka_unit_test(far_numbers_agree_with_missing_values),
		cmocka_unit_test(rows_are_dropped),
		cmocka_unit_test(errors_lead_on),
		cmocka_unit_test(the_setting_is_that_of_the_training),
		cmocka_unit_test(bad_descriptions_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
