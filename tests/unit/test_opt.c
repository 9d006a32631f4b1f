/* test_opt.c - option tables: command lines, configuration files, help. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/opt.h"
#include "lib/base/opt_json.h"

/* One option of every type, and every way to limit one. */
struct values {
	bool flag, dry, strict;
	int64_t batch, steps, epochs, bucket, seed;
	double lr, val_split, momentum, betas[2], timeout, every;
	const char *model, *note;
	int optimizer, shell, keep;
	struct gt_opt_list map;
};

#define AT(member) GT_OPT_FIELD(struct values, member)

static const char *const optimizers[] = { "sgd", "adam", "adamw", NULL };
static const char *const kept[] = { "none", "all", "some", NULL };
static const char *const shells[] = { "bash", "zsh", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "First" },
	{ "flag", 'f', GT_OPT_FLAG, AT(flag), .help = "a flag" },
	{ "dry-run", 'n', GT_OPT_FLAG, AT(dry), .help = "a flag", .flags = GT_OPT_ONCE },
	{ "strict", 0, GT_OPT_YESNO, AT(strict), .help = "a choice of two", .initial = "yes" },
	{ "batch", 'b', GT_OPT_INT, AT(batch), "N", "a number", .initial = "64", .min = 1,
	    .max = 65536 },
	{ "steps", 0, GT_OPT_INT, AT(steps), "N", "a number", .min = 1, .max = 1e12,
	    .excludes = "epochs" },
	{ "epochs", 0, GT_OPT_INT, AT(epochs), "N", "a number", .otherwise = "ten", .min = 1,
	    .max = 1e9, .excludes = "steps" },
	{ "bucket-size", 0, GT_OPT_SIZE, AT(bucket), "SIZE", "a size", .initial = "25M", .min = 1,
	    .max = INFINITY },
	{ "seed", 0, GT_OPT_INT, AT(seed), "N", "a number", .initial = "0", .max = INFINITY },
	{ .type = GT_OPT_HEADING, .help = "Second" },
	{ "lr", 0, GT_OPT_DOUBLE, AT(lr), "X", "a number", .max = INFINITY,
	    .flags = GT_OPT_ABOVE },
	{ "val-split", 0, GT_OPT_DOUBLE, AT(val_split), "F", "a number", .max = 1,
	    .flags = GT_OPT_ABOVE | GT_OPT_BELOW },
	{ "momentum", 0, GT_OPT_DOUBLE, AT(momentum), "X",
	    "a number whose help is so long that it has to be broken into several lines, at words",
	    .initial = "0.9", .max = 1, .flags = GT_OPT_BELOW },
	{ "betas", 0, GT_OPT_PAIR, AT(betas), "A,B", "two numbers", .initial = "0.9,0.999",
	    .max = 1, .flags = GT_OPT_BELOW },
	{ "timeout", 0, GT_OPT_DURATION, AT(timeout), "TIME", "a time", .initial = "10m",
	    .max = 86400 },
	{ "model", 'm', GT_OPT_STRING, AT(model), "MODEL", "a text", .otherwise = "a file has it",
	    .flags = GT_OPT_REQUIRED },
	{ "note", 0, GT_OPT_STRING, AT(note), "TEXT", "a text", .flags = GT_OPT_EMPTY },
	{ "optimizer", 0, GT_OPT_CHOICE, AT(optimizer), .help = "a choice", .words = optimizers,
	    .initial = "adamw" },
	{ "shell", 0, GT_OPT_CHOICE, AT(shell), .help = "a choice", .words = shells },
	{ "keep", 0, GT_OPT_CHOICE, AT(keep), .help = "a choice", .words = kept, .initial = "none",
	    .implied = "all" },
	{ "map", 0, GT_OPT_LIST, AT(map), "FROM=TO", .help = "a list" },
	{ "every", 0, GT_OPT_DURATION, AT(every), "SECONDS", .help = "a time", .implied = "1" },
	{ 0 }
};
/* clang-format on */

enum { MOST_WORDS = 20 };

/* Parse words separated by '|' after the command's name; opts is set up here, release it. */
static int parse(struct gt_opts *opts, struct values *v, char *line, struct gt_err *err)
{
	char *argv[MOST_WORDS + 1] = { "command" };
	int argc = 1;

	*err = GT_ERR_INIT;
	assert_int_equal(gt_opts_init(opts, table, v, err), 0);
	for (char *next = line; next && *line;) {
		assert_true(argc < MOST_WORDS);
		argv[argc++] = strsep(&next, "|");
	}
	return gt_opts_parse(opts, argc, argv, err);
}

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
		{ "--flag=no", 0, 0, false }, { "-f|--flag=no", 0, 0, false },
		{ "--flag|yes", 0, 1, true }, /* an operand */
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
		{ "--batch|0", "--batch: '0' is not a number from 1 to 65536", "" },
		{ "--batch|65537", "--batch: '65537' is not a number from 1 to 65536", "" },
		{ "--batch|-1", "--batch: '-1' is not a number from 1 to 65536", "" },
		{ "--batch|3x", "--batch: '3x' is not a whole number from 1 to 65536", "" },
		{ "--batch|1.5", "--batch: '1.5' is not a whole number from 1 to 65536", "" },
		{ "--seed|-1", "--seed: '-1' is not a number of at least 0", "" },
		{ "--lr|0", "--lr: '0' is not a number above 0", "" },
		{ "--lr|nan", "--lr: 'nan' is not a number above 0", "" },
		{ "--val-split|1", "--val-split: '1' is not a number above 0 and below 1", "" },
		{ "--momentum|1", "--momentum: '1' is not a number from 0 to below 1", "" },
		{ "--betas|0.9", "--betas: '0.9' is not two numbers A,B, each from 0 to below 1",
		    "" },
		{ "--betas|0.9,1",
		    "--betas: '0.9,1' is not two numbers A,B, each from 0 to below 1", "" },
		{ "--bucket-size|1T",
		    "--bucket-size: '1T' is not a size in bytes, K, M or G of at least 1", "" },
		{ "--timeout|2d", "--timeout: '2d' is not a time in s, m or h from 0 to 86400",
		    "" },
		{ "--timeout|25h", "--timeout: '25h' is not a time in seconds from 0 to 86400",
		    "" },
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

static void wrong_config(void **state)
{
	static const struct {
		const char *json, *text, *hint;
	} row[] = {
		{ "{\"bacth\":1}", "unknown option 'bacth'", "did you mean 'batch'?" },
		{ "{\"dry-run\":true}",
		    "'dry-run' belongs on the command line, not in a configuration file", "" },
		{ "{\"batch\":0}", "'batch': '0' is not a number from 1 to 65536", "" },
		{ "{\"batch\":1.5}", "'batch': must be a whole number", "" },
		{ "{\"batch\":\"64\"}", "'batch': must be a whole number", "" },
		{ "{\"lr\":\"fast\"}", "'lr': must be a number", "" },
		{ "{\"lr\":-1.5}", "'lr': '-1.5' is not a number above 0", "" },
		{ "{\"flag\":1}", "'flag': must be true or false", "" },
		{ "{\"strict\":\"yes\"}", "'strict': must be true or false", "" },
		{ "{\"model\":3}", "'model': must be a string", "" },
		{ "{\"model\":\"\"}", "'model': the value is empty", "" },
		{ "{\"model\":\"a\\u0000b\"}", "'model': contains a zero byte", "" },
		{ "{\"betas\":[1]}", "'betas': must be an array of two numbers", "" },
		{ "{\"betas\":[0.5,2]}",
		    "'betas': '0.5,2' is not two numbers A,B, each from 0 to below 1", "" },
		{ "{\"map\":\"a=b\"}", "'map': must be an array of strings", "" },
		{ "{\"map\":[1]}", "'map': must be an array of strings", "" },
		{ "{\"optimizer\":\"adma\"}", "'optimizer': 'adma' is not one of sgd, adam, adamw",
		    "did you mean 'adam'?" },
		{ "{\"abot\":{}}", "unknown option 'abot'", "" },
		{ "{\"steps\":1,\"epochs\":1}", "--steps cannot be combined with --epochs", "" },
		{ "{\"bucket-size\":\"1T\"}",
		    "'bucket-size': '1T' is not a size in bytes, K, M or G of at least 1", "" },
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
		{ "--keep|Some", 1, NULL, NULL },
		{ "--keep|Some", 0, "--keep: 'Some' is not one of none, all, some",
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
		cmocka_unit_test(wrong_config),
		cmocka_unit_test(config_round_trip),
		cmocka_unit_test(long_lists),
		cmocka_unit_test(config_files),
		cmocka_unit_test(help_text),
		cmocka_unit_test(description),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
