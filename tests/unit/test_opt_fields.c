/* test_opt_fields.c - option tables over a library's struct: sizes, opposites, values not given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/opt.h"
#include "lib/base/opt_json.h"
#include "lib/base/opt_value.h"

struct values {
	int64_t steps, batch, epochs;
	/* As a library's struct inside that of a command. */
	struct {
		unsigned given;
		bool own; /* the opposite of `shared` */
		int ranks;
		int64_t warmup;
		double decay;
	} inner;
};

enum { GIVEN_OTHER = 1, GIVEN_WARMUP = 2, GIVEN_DECAY = 4, MOST_WORDS = 8 };

#define AT(member) GT_OPT_FIELD(struct values, member)
#define GIVEN(bit) .given = { offsetof(struct values, inner.given), GIVEN_##bit }

static const char *const run_length[] = { "steps", "batch", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "All" },
	{ "steps", 0, GT_OPT_INT, AT(steps), "N", "a number", .min = 1, .max = 1e12 },
	{ "batch", 0, GT_OPT_INT, AT(batch), "N", "a number", .initial = "64", .min = 1,
	    .max = 65536 },
	{ "epochs", 0, GT_OPT_INT, AT(epochs), "N", "a number", .min = 1, .max = 1e9 },
	{ "shared", 0, GT_OPT_YESNO, AT(inner.own), .help = "a choice of two", .initial = "yes",
	    .flags = GT_OPT_INVERTED },
	{ "ranks", 0, GT_OPT_INT, AT(inner.ranks), "N", "a number", .min = -4, .max = 65536 },
	{ "warmup", 0, GT_OPT_INT, AT(inner.warmup), "N", "a number", .otherwise = "a tenth",
	    .max = 1e12, .follows = run_length, GIVEN(WARMUP) },
	{ "decay", 0, GT_OPT_DOUBLE, AT(inner.decay), "X", "a number", .otherwise = "by model",
	    .max = 1, GIVEN(DECAY) },
	{ .type = GT_OPT_END }
};
/* clang-format on */

/* Words separated by '|', then JSON as a configuration file has it. */
static void set(struct gt_opts *opts, struct values *v, char *line, const char *json)
{
	char *argv[MOST_WORDS + 1] = { "command" };
	json_t *object = json_loads(json, 0, NULL);
	struct gt_err err = GT_ERR_INIT;
	int argc = 1;

	assert_non_null(object);
	assert_int_equal(gt_opts_init(opts, table, v, &err), 0);
	for (char *next = line; next && *line;) {
		assert_true(argc < MOST_WORDS);
		argv[argc++] = strsep(&next, "|");
	}
	assert_int_equal(gt_opts_parse(opts, argc, argv, &err), 0);
	assert_int_equal(gt_opts_from_json(opts, object, &err), 0);
	assert_int_equal(gt_opts_reset_stale(opts, NULL, &err), 0);
	json_decref(object);
}

/* An option writes where its row says: into a field of int, the opposite into `own`, and a bit for
 * each option that was given, on the command line or in a file. */
static void fields_of_a_librarys_struct(void **state)
{
	static const struct {
		const char *line, *json;
		int ranks;
		bool own;
		unsigned given;
		const char *out; /* warmup, decay, ranks, shared */
	} row[] = {
		{ "", "{}", 0, false, 0, "[null,null,0,true]" },
		{ "--warmup|0|--decay=0.5", "{}", 0, false, GIVEN_WARMUP | GIVEN_DECAY,
		    "[0,0.5,0,true]" },
		{ "--shared=no|--ranks|-3", "{}", -3, true, 0, "[null,null,-3,false]" },
		{ "--warmup|5", "{\"warmup\":7,\"decay\":0.0,\"shared\":false,\"ranks\":9}", 9,
		    true, GIVEN_WARMUP | GIVEN_DECAY, "[5,0.0,9,false]" },
		{ "", "{\"warmup\":null,\"decay\":null,\"shared\":true}", 0, false, 0,
		    "[null,null,0,true]" },
		{ "--steps|9", "{\"warmup\":7}", 0, false, 0, "[null,null,0,true]" },
		{ "--batch|9", "{\"warmup\":7,\"decay\":0.25}", 0, false, GIVEN_DECAY,
		    "[null,0.25,0,true]" },
		{ "--epochs|9", "{\"warmup\":7}", 0, false, GIVEN_WARMUP, "[7,null,0,true]" },
		{ "--steps|9", "{\"steps\":9,\"warmup\":7}", 0, false, GIVEN_WARMUP,
		    "[7,null,0,true]" },
		{ "--steps|9", "{\"steps\":null,\"warmup\":7}", 0, false, 0, "[null,null,0,true]" },
		{ "--steps|9|--batch|8", "{\"warmup\":7,\"batch\":8,\"steps\":8}", 0, false, 0,
		    "[null,null,0,true]" },
		{ "--steps|9|--warmup|3", "{\"warmup\":7}", 0, false, GIVEN_WARMUP,
		    "[3,null,0,true]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		char *line = strdup(row[i].line), *text;
		struct gt_opts opts;
		struct values v = { .inner.given = GIVEN_OTHER | GIVEN_WARMUP };
		struct gt_err err;
		json_t *all, *some;

		set(&opts, &v, line, row[i].json);
		all = gt_opts_to_json(&opts, &err);
		some = json_pack("[O,O,O,O]", json_object_get(all, "warmup"),
		    json_object_get(all, "decay"), json_object_get(all, "ranks"),
		    json_object_get(all, "shared"));
		text = json_dumps(some, JSON_COMPACT);
		if (v.inner.ranks != row[i].ranks || v.inner.own != row[i].own ||
		    v.inner.given != (row[i].given | GIVEN_OTHER) || strcmp(text, row[i].out))
			fail_msg("'%s' and %s: ranks %d, own %d, given %u, %s", row[i].line,
			    row[i].json, v.inner.ranks, v.inner.own, v.inner.given, text);
		free(text);
		json_decref(some);
		json_decref(all);
		gt_opts_release(&opts);
		free(line);
	}
}

/* A row that does not fit its field would write beside it. */
static void rows_fit_their_fields(void **state)
{
	static const struct {
		struct gt_opt row;
		bool sound;
	} row[] = {
		{ { .type = GT_OPT_INT, .size = 8 }, true },
		{ { .type = GT_OPT_INT, .size = 4, .max = 65536 }, true },
		{ { .type = GT_OPT_INT, .size = 4 }, false },
		{ { .type = GT_OPT_INT, .size = 4, .max = 1e12 }, false },
		{ { .type = GT_OPT_INT, .size = 4, .min = 1, .max = INFINITY }, false },
		{ { .type = GT_OPT_INT, .size = 2, .max = 9 }, false },
		{ { .type = GT_OPT_SIZE, .size = 4, .max = 9 }, false },
		{ { .type = GT_OPT_FLAG, .size = 4 }, false },
		{ { .type = GT_OPT_CHOICE, .size = 4 }, true },
		{ { .type = GT_OPT_CHOICE, .size = 8 }, false },
		{ { .type = GT_OPT_DOUBLE, .size = 4 }, false },
		{ { .type = GT_OPT_PAIR, .size = 16, .initial = "0,0" }, true },
		{ { .type = GT_OPT_PAIR, .size = 16 }, false },
		{ { .type = GT_OPT_PAIR, .size = 8, .initial = "0,0" }, false },
		{ { .type = GT_OPT_STRING, .size = 8 }, true },
		{ { .type = GT_OPT_LIST, .size = 8 }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		if (gt_opt_is_sound(&row[i].row) != row[i].sound)
			fail_msg("row %zu", i);
	for (const struct gt_opt *r = table; r->type != GT_OPT_END; r++)
		if (r->type != GT_OPT_HEADING && !gt_opt_is_sound(r))
			fail_msg("--%s", r->name);
}

/* "about" is no option: any value may stand there. */
static void about_is_ignored(void **state)
{
	static const char *const value[] = { "{}", "{\"data\":{}}", "\"me\"", "[1]", "3", "true",
		"null" };

	(void)state;
	for (size_t i = 0; i < sizeof(value) / sizeof(*value); i++) {
		struct gt_opts opts;
		struct values v;
		char json[80];

		snprintf(json, sizeof(json), "{\"about\":%s,\"steps\":9}", value[i]);
		set(&opts, &v, NULL, json);
		assert_int_equal(v.steps, 9);
		gt_opts_release(&opts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_of_a_librarys_struct),
		cmocka_unit_test(rows_fit_their_fields),
		cmocka_unit_test(about_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
