/* test_opt_config.c - options in configuration files: read, written, wrong. */
#include "tests/unit/opt_fixture.h"

static void wrong_config(void **state)
{
	static const struct {
		const char *json, *text, *hint;
	} row[] = {
		{ "{\"bacth\":1}", "unknown option 'bacth'", "did you mean 'batch'?" },
		{ "{\"dry-run\":true}",
		    "'dry-run' belongs on the command line, not in a configuration file", "" },
		{ "{\"batch\":0}", "'batch': '0' is not a number from 1 to 65536", "a number" },
		{ "{\"batch\":1.5}", "'batch': must be a whole number", "" },
		{ "{\"batch\":\"64\"}", "'batch': must be a whole number", "" },
		{ "{\"lr\":\"fast\"}", "'lr': must be a number", "" },
		{ "{\"lr\":-1.5}", "'lr': '-1.5' is not a number above 0", "a number" },
		{ "{\"flag\":1}", "'flag': must be true or false", "" },
		{ "{\"strict\":\"yes\"}", "'strict': must be true or false", "" },
		{ "{\"model\":3}", "'model': must be a string", "" },
		{ "{\"model\":\"\"}", "'model': the value is empty", "" },
		{ "{\"model\":\"a\\u0000b\"}", "'model': contains a zero byte", "" },
		{ "{\"betas\":[1]}", "'betas': must be an array of two numbers", "" },
		{ "{\"betas\":[0.5,2]}",
		    "'betas': '0.5,2' is not two numbers A,B, each from 0 to below 1",
		    "two numbers" },
		{ "{\"map\":\"a=b\"}", "'map': must be an array of strings", "" },
		{ "{\"map\":[1]}", "'map': must be an array of strings", "" },
		{ "{\"optimizer\":\"adma\"}", "'optimizer': 'adma' is not one of sgd, adam, adamw",
		    "did you mean 'adam'?" },
		{ "{\"abot\":{}}", "unknown option 'abot'", "" },
		{ "{\"steps\":1,\"epochs\":1}", "--steps cannot be combined with --epochs", "" },
		{ "{\"bucket-size\":\"1T\"}",
		    "'bucket-size': '1T' is not a size in bytes, K, M or G of at least 1",
		    "a size" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_opts opts;
		struct values v;
		struct gt_err err;
		char line[] = "";

		assert_int_equal(parse(&opts, &v, line, &err), 0);
		json_t *object = json_loads(row[i].json, JSON_ALLOW_NUL, NULL);

		assert_non_null(object);
		assert_int_equal(gt_opts_from_json(&opts, object, &err), GT_EINVAL);
		json_decref(object);
		assert_string_equal(err.text, row[i].text);
		assert_string_equal(err.hint, row[i].hint);
		gt_opts_release(&opts);
	}
}

/* Written options read back as the same values, digit for digit; once-only options stay out. */
static void config_round_trip(void **state)
{
	struct gt_opts opts, again;
	struct values v, w;
	struct gt_err err;
	char line[] = "-fn|--lr|0.1234567890123456789|--betas=0.123456789012345678,0.3|--map|a=b|"
	              "--model|m|--timeout|90|--strict=no",
	     empty[] = "";
	json_t *first, *second;

	(void)state;
	assert_int_equal(parse(&opts, &v, line, &err), 0);
	first = gt_opts_to_json(&opts, &err);
	assert_non_null(first);
	assert_null(json_object_get(first, "dry-run"));
	assert_true(json_is_null(json_object_get(first, "steps")));
	assert_true(json_is_null(json_object_get(first, "note")));
	assert_true(json_is_null(json_object_get(first, "shell")));
	assert_true(json_is_integer(json_object_get(first, "seed")));
	assert_int_equal(json_integer_value(json_object_get(first, "bucket-size")), 25 << 20);
	assert_string_equal(json_string_value(json_object_get(first, "optimizer")), "adamw");

	assert_int_equal(parse(&again, &w, empty, &err), 0);
	assert_int_equal(gt_opts_from_json(&again, first, &err), 0);
	second = gt_opts_to_json(&again, &err);
	assert_true(json_equal(first, second));
	assert_true(v.lr == w.lr && v.betas[0] == w.betas[0]);
	assert_string_equal(w.map.items[0], "a=b");
	json_decref(first);
	json_decref(second);
	gt_opts_release(&opts);
	gt_opts_release(&again);
}

/* Patterns that a config.json repeats are compared with every parameter of a model, one by one. */
static void long_lists(void **state)
{
	(void)state;
	for (int count = 1000; count <= 1001; count++) {
		json_t *items = json_array(), *object = json_pack("{s:o}", "map", items);
		struct gt_opts opts;
		struct values v;
		struct gt_err err;
		char line[] = "";

		for (int i = 0; i < count; i++)
			json_array_append_new(items, json_string("a=b"));
		assert_int_equal(parse(&opts, &v, line, &err), 0);
		assert_int_equal(
		    gt_opts_from_json(&opts, object, &err), count > 1000 ? GT_EINVAL : 0);
		if (count > 1000)
			assert_string_equal(err.text, "'map': more than 1000 values");
		else
			assert_int_equal(v.map.count, count);
		json_decref(object);
		gt_opts_release(&opts);
	}
}

static void config_files(void **state)
{
	static const struct {
		const char *content;
		int code;
		const char *text; /* after the file's name */
	} row[] = {
		{ "{\"batch\": 7}", 0, "" },
		{ "[1]", GT_EFORMAT, ": not a JSON object of options" },
		{ "{\"batch\": 7, \"batch\": 8}", GT_EFORMAT, NULL },
		{ "{", GT_EFORMAT, NULL },
		{ "", GT_EFORMAT, NULL },
		{ "{\"batch\": 0}", GT_EINVAL, ": 'batch': '0' is not a number from 1 to 65536" },
	};
	char path[] = "/tmp/gtrain-test-opt-XXXXXX", line[] = "";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_opts opts;
		struct values v;
		struct gt_err err;
		size_t length = strlen(row[i].content);

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, row[i].content, length, 0), (ssize_t)length);
		assert_int_equal(parse(&opts, &v, line, &err), 0);
		assert_int_equal(gt_opts_load(&opts, path, &err), row[i].code);
		if (!row[i].code) {
			assert_int_equal(v.batch, 7);
		} else {
			assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
			if (row[i].text)
				assert_string_equal(err.text + strlen(path), row[i].text);
		}
		gt_opts_release(&opts);
	}
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_config),
		cmocka_unit_test(config_round_trip),
		cmocka_unit_test(long_lists),
		cmocka_unit_test(config_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
