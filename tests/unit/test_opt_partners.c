/* test_opt_partners.c - options that have an effect only together with others, and defaults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "lib/base/opt.h"

struct values {
	int64_t ranks, size;
	double wait, rate;
	const char *name;
	int mode;
	bool fast, safe;
};

#define AT(member) GT_OPT_FIELD(struct values, member)

static const char *const modes[] = { "a", "b", "c", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "All" },
	{ "ranks", 0, GT_OPT_INT, AT(ranks), "N", "ranks", .initial = "1", .min = 1, .max = 9,
	    .needs = { { "mode", .is_not = "a" } } },
	{ "size", 0, GT_OPT_SIZE, AT(size), "SIZE", "size", .initial = "2K", .min = 1, .max = 1e9,
	    .needs = { { "ranks" }, { "name" } } },
	{ "wait", 0, GT_OPT_DURATION, AT(wait), "TIME", "time", .initial = "1m", .max = 1e6,
	    .needs = { { "mode", "b" } } },
	{ "rate", 0, GT_OPT_DOUBLE, AT(rate), "X", "rate", .max = 1, .without = { { "fast" } } },
	{ "name", 0, GT_OPT_STRING, AT(name), "NAME", "name", .needs = { { "rate" } },
	    .without = { { "mode", "c" } } },
	{ "mode", 0, GT_OPT_CHOICE, AT(mode), .words = modes, .initial = "b", .help = "mode" },
	{ "fast", 0, GT_OPT_FLAG, AT(fast), .help = "fast", .needs = { { "size" }, { "wait" } } },
	{ "safe", 0, GT_OPT_YESNO, AT(safe), .help = "safe", .initial = "yes" },
	{ 0 }
};
/* clang-format on */

enum { MOST_WORDS = 8 };

/* Parse a line of words with "|" between them, and check the partners. */
static void check_line(char *text, struct gt_err *err)
{
	char *words[MOST_WORDS] = { "test" };
	struct values values;
	struct gt_opts opts;
	int count = 1;

	*err = (struct gt_err)GT_ERR_INIT;
	for (char *next = text; next && *next;)
		words[count++] = strsep(&next, "|");
	assert_int_equal(gt_opts_init(&opts, table, &values, err), 0);
	assert_int_equal(gt_opts_parse(&opts, count, words, err), 0);
	gt_opts_check_partners(&opts, err);
	gt_opts_release(&opts);
}

static void partners_are_checked(void **state)
{
	static const struct {
		const char *line, *text, *hint;
	} row[] = {
		{ "", "", "" },
		{ "--ranks|2|--size|1K", "", "" },
		{ "--ranks|2|--mode|a", "ranks has no effect with these options",
		    "use it with another mode" },
		{ "--size|1K", "size has no effect with these options",
		    "use it with ranks or name" },
		{ "--size|1K|--ranks|1", "size has no effect with these options",
		    "use it with ranks or name" },
		{ "--wait|2m|--mode|c", "wait has no effect with these options",
		    "use it with mode b" },
		{ "--rate|0.5|--name|x", "", "" },
		{ "--rate|0.5|--name|x|--mode|c", "name has no effect with mode c",
		    "leave one of the two out" },
		{ "--fast|--wait|60", "fast has no effect with these options",
		    "use it with size or wait" },
		{ "--fast|--wait|61", "", "" },
		{ "--rate|0|--fast|--wait|61", "rate has no effect with fast",
		    "leave one of the two out" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		char line[80], *to = line;
		struct gt_err err;

		strcpy(line, row[i].line);
		check_line(line, &err);
		/* The marks of options are not printed. */
		for (const char *from = err.text; (*to = *from); from++)
			to += *from != '\x1f';
		assert_string_equal(line, row[i].text);
		to = line;
		for (const char *from = err.hint; (*to = *from); from++)
			to += *from != '\x1f';
		assert_string_equal(line, row[i].hint);
	}
}

static void changed_values_differ_from_the_default(void **state)
{
	struct values v;
	struct gt_opts opts = { .table = table, .values = &v };

	(void)state;
	memset(&v, 255, sizeof(v));
	gt_opt_set_defaults(table, &v);
	assert_int_equal(v.size, 2048);
	assert_true(v.wait == 60 && v.rate == 0 && !v.name && v.mode == 1 && !v.fast && v.safe);
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++)
		assert_true(row->type == GT_OPT_HEADING || !gt_opts_is_changed(&opts, row));
	v = (struct values){ 2, 2049, 61, 1, "", 2, true, false };
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++)
		assert_true(row->type == GT_OPT_HEADING || gt_opts_is_changed(&opts, row));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(partners_are_checked),
		cmocka_unit_test(changed_values_differ_from_the_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
