/* opt_fixture.h - a table with an option of every type, and command lines for it. */
#ifndef TESTS_UNIT_OPT_FIXTURE_H
#define TESTS_UNIT_OPT_FIXTURE_H

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
static inline int parse(struct gt_opts *opts, struct values *v, char *line, struct gt_err *err)
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

#endif
