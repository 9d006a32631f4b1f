/* test_opt.c - option tables: command lines, configuration files, help. */
#include "tests/unit/opt_fixture.h"

static void defaults(void **state)
{
	struct gt_opts opts;
	struct values v;
	struct gt_err err;
	char line[] = "";

	(void)state;
	memset(&v, 0xa5, sizeof(v));
	assert_int_equal(parse(&opts, &v, line, &err), 0);
	assert_false(v.flag);
	assert_true(v.strict);
	assert_int_equal(v.batch, 64);
	assert_int_equal(v.steps, 0);
	assert_int_equal(v.bucket, 25 << 20);
	assert_true(v.lr == 0);
	assert_true(v.momentum == 0.9);
	assert_true(v.betas[0] == 0.9 && v.betas[1] == 0.999);
	assert_true(v.timeout == 600);
	assert_null(v.model);
	assert_int_equal(v.optimizer, 2);
	assert_int_equal(v.shell, -1);
	assert_int_equal(v.map.count, 0);
	assert_int_equal(gt_opts_source(&opts, "batch"), GT_OPT_DEFAULT);
	gt_opts_release(&opts);
}

static void every_type_and_spelling(void **state)
{
	struct gt_opts opts;
	struct values v;
	struct gt_err err;
	char line[] = "-fb|8|in|--lr=1e-3|--betas|0.5,0|--bucket-size=64K|--strict=no|"
	              "--map=a=b|--map|c=d|--|--flag";

	(void)state;
	assert_int_equal(parse(&opts, &v, line, &err), 0);
	assert_true(v.flag);
	assert_false(v.strict);
	assert_int_equal(v.batch, 8);
	assert_true(v.lr == 1e-3);
	assert_true(v.betas[0] == 0.5 && v.betas[1] == 0);
	assert_int_equal(v.bucket, 65536);
	assert_int_equal(v.map.count, 2);
	assert_string_equal(v.map.items[0], "a=b");
	assert_string_equal(v.map.items[1], "c=d");
	assert_int_equal(opts.operand_count, 2);
	assert_string_equal(opts.operands[0], "in");
	assert_string_equal(opts.operands[1], "--flag");
	assert_int_equal(gt_opts_source(&opts, "batch"), GT_OPT_COMMAND_LINE);
	assert_int_equal(gt_opts_source(&opts, "momentum"), GT_OPT_DEFAULT);
	gt_opts_release(&opts);
}

static void more_spellings(void **state)
{
	struct gt_opts opts;
	struct values v;
	struct gt_err err;
	char line[] =
	    "-b16|-b4|--note=|--timeout|1.5h|--optimizer=sgd|-|--seed|9223372036854775807|"
	    "--model=-x|-n";

	(void)state;
	assert_int_equal(parse(&opts, &v, line, &err), 0);
	assert_int_equal(v.batch, 4);
	assert_string_equal(v.note, "");
	assert_true(v.timeout == 5400);
	assert_int_equal(v.optimizer, 0);
	assert_int_equal(v.seed, INT64_MAX);
	assert_string_equal(v.model, "-x");
	assert_true(v.dry);
	assert_int_equal(opts.operand_count, 1);
	assert_string_equal(opts.operands[0], "-");
	assert_int_equal(gt_opts_require(&opts, &err), 0);
	gt_opts_release(&opts);
}

/* A word that is no choice is not the value of an option that can do without one. */
static void implied_values(void **state)
{
	static const struct {
		const char *line;
		int keep, operands;
		bool flag;
	} row[] = {
		{ "", 0, 0, false }, { "--keep", 1, 0, false }, { "--keep|--flag", 1, 0, true },
		{ "--keep|-f", 1, 0, true }, { "--keep=some", 2, 0, false },
		{ "--keep|some|-f", 2, 0, true }, { "--keep|else", 1, 1, false },
		{ "--keep=some|--keep=none", 0, 0, false }, { "--flag=yes", 0, 0, true },
		{ "--flag=no", 0, 0, false }, { "--flag=Yes", 0, 0, true },
		{ "-f|--flag=no", 0, 0, false }, { "--flag|yes", 0, 1, true }, /* an operand */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_opts opts;
		struct values v;
		struct gt_err err;
		char *line = strdup(row[i].line);

		assert_int_equal(parse(&opts, &v, line, &err), 0);
		assert_int_equal(v.keep, row[i].keep);
		assert_int_equal(opts.operand_count, row[i].operands);
		assert_int_equal(v.flag, row[i].flag);
		gt_opts_release(&opts);
		free(line);
	}
}

static void wrong_usage(void **state)
{
	static const struct {
		const char *line, *text, *hint;
	} row[] = {
		{ "--bacth|3", "unknown option '--bacth'", "did you mean '--batch'?" },
		{ "--bacth=3", "unknown option '--bacth'", "did you mean '--batch'?" },
		{ "--zzz", "unknown option '--zzz'", "" },
		{ "--=3", "unknown option '--'", "" },
		{ "-fx", "unknown option '-x'", "" },
		{ "--batch", "--batch: needs a value, N", "" },
		{ "-b", "--batch: needs a value, N", "" },
		{ "--model|--lr|3", "--model: needs a value, MODEL",
		    "'--lr' looks like an option; write '--model=--lr' if it is the value" },
		{ "--flag=maybe", "--flag: 'maybe' is neither yes nor no", "" },
		{ "--flag=true", "--flag: 'true' is neither yes nor no", "did you mean 'yes'?" },
		{ "--strict|Off", "--strict: 'Off' is neither yes nor no", "did you mean 'no'?" },
		{ "--flag=", "--flag: the value is empty", "" },
		{ "--no-flag", "unknown option '--no-flag'", "did you mean '--flag=no'?" },
		{ "--no_strict", "unknown option '--no_strict'", "did you mean '--strict=no'?" },
		{ "--DRY_RUN", "unknown option '--DRY_RUN'", "did you mean '--dry-run'?" },
		{ "--batch=", "--batch: the value is empty", "" },
		{ "--model|", "--model: the value is empty", "" },
		{ "--batch|0", "--batch: '0' is not a number from 1 to 65536", "a number" },
		{ "--batch|65537", "--batch: '65537' is not a number from 1 to 65536", "a number" },
		{ "--batch|-1", "--batch: '-1' is not a number from 1 to 65536", "a number" },
		{ "--batch|3x", "--batch: '3x' is not a whole number from 1 to 65536", "a number" },
		{ "--batch|1.5", "--batch: '1.5' is not a whole number from 1 to 65536",
		    "a number" },
		{ "--seed|-1", "--seed: '-1' is not a number of at least 0", "a number" },
		{ "--lr|0", "--lr: '0' is not a number above 0", "a number" },
		{ "--lr|nan", "--lr: 'nan' is not a number above 0", "a number" },
		{ "--val-split|1", "--val-split: '1' is not a number above 0 and below 1",
		    "a number" },
		{ "--momentum|1", "--momentum: '1' is not a number from 0 to below 1",
		    "a number whose help is so long that it has to be broken into several lines, at words" },
		{ "--betas|0.9", "--betas: '0.9' is not two numbers A,B, each from 0 to below 1",
		    "two numbers" },
		{ "--betas|0.9,1",
		    "--betas: '0.9,1' is not two numbers A,B, each from 0 to below 1",
		    "two numbers" },
		{ "--bucket-size|1T",
		    "--bucket-size: '1T' is not a size in bytes, K, M or G of at least 1",
		    "a size" },
		{ "--timeout|2d", "--timeout: '2d' is not a time in s, m or h from 0 to 86400",
		    "a time" },
		{ "--timeout|25h", "--timeout: '25h' is not a time in seconds from 0 to 86400",
		    "a time" },
		{ "--strict|maybe", "--strict: 'maybe' is neither yes nor no", "" },
		{ "--optimizer|adma", "--optimizer: 'adma' is not one of sgd, adam, adamw",
		    "did you mean 'adam'?" },
		{ "--keep=sone", "--keep: 'sone' is not one of none, all, some",
		    "did you mean 'none'?" },
		{ "--keep=", "--keep: the value is empty", "" },
		{ "--steps|5|--epochs|1", "--steps cannot be combined with --epochs", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_opts opts;
		struct values v;
		struct gt_err err;
		char *line = strdup(row[i].line);

		assert_int_equal(parse(&opts, &v, line, &err), GT_EINVAL);
		assert_string_equal(err.text, row[i].text);
		assert_string_equal(err.hint, row[i].hint);
		gt_opts_release(&opts);
		free(line);
	}
}

static void required_is_required(void **state)
{
	struct gt_opts opts;
	struct values v;
	struct gt_err err;
	char line[] = "";

	(void)state;
	assert_int_equal(parse(&opts, &v, line, &err), 0);
	assert_int_equal(gt_opts_require(&opts, &err), GT_EINVAL);
	assert_string_equal(err.text, "--model MODEL is missing");
	gt_opts_release(&opts);
}

/* Apply JSON after a command line; returns the code. */
static int configure(struct gt_opts *opts, const char *json, struct gt_err *err)
{
	json_t *object = json_loads(json, 0, NULL);
	int rc;

	assert_non_null(object);
	rc = gt_opts_from_json(opts, object, err);
	json_decref(object); /* strings must not point into it */
	return rc;
}

static void command_line_beats_config(void **state)
{
	struct gt_opts opts;
	struct values v;
	struct gt_err err;
	char line[] = "--batch|8|--map|x=y|--steps|100";

	(void)state;
	assert_int_equal(parse(&opts, &v, line, &err), 0);
	assert_int_equal(configure(&opts,
	                     "{\"batch\":9,\"model\":\"mlp\",\"map\":[\"a=b\"],\"epochs\":3,"
	                     "\"about\":{\"data\":{}},"
	                     "\"lr\":1,\"momentum\":null,\"bucket-size\":\"1M\",\"timeout\":5,"
	                     "\"flag\":true,\"strict\":false,\"betas\":[0.1,0.2],"
	                     "\"optimizer\":\"adam\"}",
	                     &err),
	    0);
	assert_int_equal(v.batch, 8);
	assert_string_equal(v.model, "mlp");
	assert_int_equal(v.map.count, 1);
	assert_string_equal(v.map.items[0], "x=y");
	assert_int_equal(v.epochs, 0); /* excluded by --steps */
	assert_true(v.lr == 1);
	assert_true(v.momentum == 0.9);
	assert_int_equal(v.bucket, 1 << 20);
	assert_true(v.timeout == 5);
	assert_true(v.flag);
	assert_false(v.strict);
	assert_true(v.betas[0] == 0.1 && v.betas[1] == 0.2);
	assert_int_equal(v.optimizer, 1);
	assert_int_equal(gt_opts_source(&opts, "model"), GT_OPT_CONFIG);
	assert_int_equal(gt_opts_source(&opts, "momentum"), GT_OPT_DEFAULT);
	assert_int_equal(gt_opts_require(&opts, &err), 0);
	gt_opts_release(&opts);
}

static void help_text(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	gt_opt_print_help(stream, table, false);
	fclose(stream);
	assert_non_null(strstr(text, "First:\n  -f, --flag                a flag\n"));
	assert_non_null(strstr(text, "\n  -b, --batch N             a number (default: 64)\n"));
	assert_non_null(strstr(text, "\n      --epochs N            a number (default: ten)\n"));
	assert_non_null(
	    strstr(text, "\n      --strict=yes|no       a choice of two (default: yes)\n"));
	assert_non_null(strstr(text, "\n\nSecond:\n      --lr X                a number\n"));
	assert_non_null(strstr(
	    text, "\n  -m, --model MODEL         a text (required, unless a file has it)\n"));
	assert_non_null(strstr(text, "\n      --optimizer sgd|adam|adamw\n"
	                             "                            a choice (default: adamw)\n"));
	assert_non_null(strstr(text, "\n      --keep[=none|all|some]\n"));
	assert_non_null(strstr(text, "\n      --every[=SECONDS]     a time\n"));
	for (char *line = text, *next; *line; line = next + 1) {
		next = strchr(line, '\n');
		assert_true(next - line <= 80);
		assert_true(next == line || next[-1] != ' ');
	}
	free(text);
}

static void description(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	json_t *array = gt_opt_describe(table, &err), *batch;

	(void)state;
	assert_non_null(array);
	assert_int_equal(json_array_size(array), sizeof(table) / sizeof(*table) - 3);
	batch = json_array_get(array, 3);
	assert_string_equal(json_string_value(json_object_get(batch, "name")), "batch");
	assert_string_equal(json_string_value(json_object_get(batch, "letter")), "b");
	assert_string_equal(json_string_value(json_object_get(batch, "default")), "64");
	assert_null(json_object_get(batch, "words"));
	assert_null(json_object_get(batch, "implied"));
	json_decref(array);
}

/* Nor is a word a number that an option can do without, unless a '=' joins them. */
static void implied_numbers(void **state)
{
	static const struct {
		const char *line;
		double every;
		int operands;
	} row[] = {
		{ "", 0, 0 },
		{ "--every", 1, 0 },
		{ "--every=2.5", 2.5, 0 },
		{ "--every|2.5", 1, 1 },
		{ "--every|-f", 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_opts opts;
		struct values v;
		struct gt_err err;
		char *line = strdup(row[i].line);

		assert_int_equal(parse(&opts, &v, line, &err), 0);
		assert_true(v.every == row[i].every);
		assert_int_equal(opts.operand_count, row[i].operands);
		gt_opts_release(&opts);
		free(line);
	}
}

/* A word too many is refused: as the value of the option before it, where that may have one. */
static void surplus_operands(void **state)
{
	static const struct {
		const char *line;
		int max;
		const char *text, *hint; /* NULL: no error */
	} row[] = {
		{ "a|b", 2, NULL, NULL },
		{ "a|b", 1, "unexpected argument 'b'", "" },
		{ "--keep|somme", 1, NULL, NULL },
		{ "--keep|somme", 0, "--keep: 'somme' is not one of none, all, some",
		    "did you mean 'some'?" },
		{ "--every|2", 0, "unexpected argument '2'",
		    "write '--every=2' if it is the value" },
		{ "--keep|", 0, "--keep: the value is empty", "" },
		{ "--keep|-f|x", 0, "unexpected argument 'x'", "" },
		{ "--keep|some|x", 0, "unexpected argument 'x'", "" },
		{ "--keep=all|x", 0, "unexpected argument 'x'", "" },
		{ "a|--keep|x", 1, "--keep: 'x' is not one of none, all, some", "" },
		{ "--keep|--|all", 0, "unexpected argument 'all'", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		char *line = strdup(row[i].line);
		struct gt_err err = GT_ERR_INIT;
		struct gt_opts opts;
		struct values v;

		assert_int_equal(parse(&opts, &v, line, &err), 0);
		assert_int_equal(
		    gt_opts_check_operands(&opts, row[i].max, &err), row[i].text ? GT_EINVAL : 0);
		assert_string_equal(err.text, row[i].text ? row[i].text : "");
		assert_string_equal(err.hint, row[i].hint ? row[i].hint : "");
		gt_opts_release(&opts);
		free(line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_type_and_spelling),
		cmocka_unit_test(more_spellings),
		cmocka_unit_test(implied_values),
		cmocka_unit_test(implied_numbers),
		cmocka_unit_test(surplus_operands),
		cmocka_unit_test(wrong_usage),
		cmocka_unit_test(required_is_required),
		cmocka_unit_test(command_line_beats_config),
		cmocka_unit_test(help_text),
		cmocka_unit_test(description),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
