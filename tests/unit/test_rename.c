/* test_rename.c - names rewritten by regular expressions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <string.h>

#include "lib/ckpt/edit/rename.h"

#define NESTED "((a+)+)+$=b"
#define MANY_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"

static const struct {
	const char *name, *rules[3], *from, *to;
} renamed[] = {
	{ "no match", { "^x=y" }, "conv.weight", "conv.weight" },
	{ "the first match alone", { "a=b" }, "a.a", "b.a" },
	{ "rules in turn", { "^a=b", "^b=c" }, "a.w", "c.w" },
	{ "groups", { "^(\\w+)\\.(\\d+)=\\2.\\1" }, "layer.10.w", "10.layer.w" },
	{ "the whole match", { "conv=<\\0>" }, "my.conv.w", "my.<conv>.w" },
	{ "a group that took no part", { "^(a)|(b)=[\\1\\2]" }, "b.w", "[b].w" },
	{ "ten groups and more", { "(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)=\\9\\1" }, "abcdefghijk",
	    "iak" },
	{ "only digits refer to groups", { "w=\\n&$1\\\\" }, "w", "\\n&$1\\\\" },
	{ "the last = cuts", { "a=b=c" }, "a=b", "c" },
	{ "a bracket takes whole characters", { "[äö]=o" }, "schön.w", "schon.w" },
	{ "a dot is one character", { "^sch.n$=x" }, "schön", "x" },
	{ "\\w and \\d of any script", { "^\\w+\\.\\d=x" }, "größe.٣", "x" },
	{ "POSIX classes", { "^[[:alpha:]]+=x" }, "größe.1", "x.1" },
	{ "a dot is a line break, too", { "^a.b$=x" }, "a\nb", "x" },
	{ "$ is the end alone", { "a$=x" }, "a\n", "a\n" },
	{ "look-ahead", { "^net\\.(?!head)=" }, "net.body.w", "body.w" },
	{ "an empty match", { "^=net." }, "w", "net.w" },
	{ "\\K keeps the text before", { "^net\\.\\Kw=v" }, "net.w", "net.v" },
	{ "bytes that are not UTF-8 match nothing", { "^.=x", "b=c" },
	    "\xff"
	    "ab",
	    "\xff"
	    "ac" },
};

static const struct {
	const char *rule, *from, *text;
} refused[] = {
	{ "(", NULL, "'(' is not REGEX=REPLACEMENT" },
	{ "a(=b", NULL,
	    "'a(=b': the regular expression is wrong at byte 2: missing closing parenthesis" },
	{ "[b-a]=c", NULL,
	    "'[b-a]=c': the regular expression is wrong at byte 3: "
	    "range out of order in character class" },
	{ "\\C=c", NULL,
	    "'\\C=c': the regular expression is wrong at byte 2: "
	    "using \\C is disabled by the application" },
	{ "\xff=c", NULL,
	    "'\xff=c': the regular expression is wrong at byte 0: "
	    "UTF-8 error: illegal byte (0xfe or 0xff)" },
	{ "(a)b=\\1\\2", NULL,
	    "'(a)b=\\1\\2': the replacement has \\2, and the regular expression has 1 group" },
	{ "l=\\5", NULL,
	    "'l=\\5': the replacement has \\5, and the regular expression has 0 groups" },
	{ NESTED, MANY_A,
	    "'" NESTED "': matching '" MANY_A "' takes more than 1000000 steps or 19 MiB" },
};

static void test_renamed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++) {
		struct gt_arena arena = { 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_renames r;
		const char *got;

		assert_int_equal(gt_renames_init(&r, renamed[i].rules, &err), 0);
		got = gt_renames_apply(&r, renamed[i].from, &arena, &err);
		if (!got || strcmp(got, renamed[i].to))
			print_error("%s\n", renamed[i].name);
		assert_non_null(got);
		assert_string_equal(got, renamed[i].to);
		gt_renames_release(&r);
		gt_arena_release(&arena);
	}
}

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		const char *const rules[] = { refused[i].rule, NULL };
		struct gt_arena arena = { 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_renames r;

		if (refused[i].from) {
			assert_int_equal(gt_renames_init(&r, rules, &err), 0);
			assert_null(gt_renames_apply(&r, refused[i].from, &arena, &err));
			assert_int_equal(err.code, GT_EINVAL);
		} else {
			assert_int_equal(gt_renames_init(&r, rules, &err), GT_EINVAL);
		}
		assert_string_equal(err.text, refused[i].text);
		gt_renames_release(&r);
		gt_arena_release(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_renamed),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
