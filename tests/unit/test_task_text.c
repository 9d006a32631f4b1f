/* test_task_text.c - texts of tasks, changed as Python's functions change them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/err.h"
#include "lib/train/task_text.h"

/* The right sides are what Python prints. */
struct text_case {
	const char *from, *to;
};

static void check(void (*change)(struct gt_buf *out, const char *text, size_t size),
    const struct text_case *cases)
{
	for (; cases->from; cases++) {
		struct gt_buf out = { 0 };

		change(&out, cases->from, strlen(cases->from));
		assert_int_equal(gt_buf_check(&out, GT_ERR_IGNORED), 0);
		assert_string_equal(gt_buf_text(&out), cases->to);
		gt_buf_release(&out);
	}
}

static void marks_of_wikihow_are_removed(void **state)
{
	static const struct text_case cases[] = {
		{ "", "" },
		{ " \t\n\u3000", "" },
		{ "[header] How [title] Do it. [step] Now", " How. Do it. Now" },
		{ "a [b] c", "a c" },
		{ "a [b [c] d] e", "a d] e" },
		{ "a [b\nc] d", "a [b\nc] d" },
		{ "[[x\n] y]", "[[x\n] y]" },
		{ "a    b", "a  b" },
		{ "\u00a0a[]b]\x1f", "ab]" },
		{ "[title] a", " a" },
		{ 0 },
	};

	(void)state;
	check(gt_task_clean, cases);
}

static void first_letters_alone_are_capitals(void **state)
{
	static const struct text_case cases[] = {
		{ "", "" },
		{ "the EGG Is", "The egg is" },
		{ "éTÉ ÀB", "Été àb" },
		{ "ǆ ǅ", "ǅ ǆ" },
		{ "1A", "1a" },
		{ 0 },
	};

	(void)state;
	check(gt_task_capitalize, cases);
}

static void words_characters_and_spaces_are_counted(void **state)
{
	static const struct {
		const char *text;
		int words, characters;
		size_t skip, end;
	} cases[] = {
		{ "", 1, 0, 0, 0 },
		{ "one", 1, 3, 0, 3 },
		{ " a  b\n", 4, 6, 1, 5 },
		{ "é\u2003ü\u00a0", 3, 4, 0, 7 },
		{ "\t\n", 2, 2, 2, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n = strlen(cases[i].text), skip;

		assert_int_equal(gt_task_words_of(cases[i].text, n), cases[i].words);
		assert_int_equal(gt_task_characters(cases[i].text, n), cases[i].characters);
		assert_int_equal(gt_task_strip(cases[i].text, n, &skip), cases[i].end);
		assert_int_equal(skip, cases[i].skip);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_of_wikihow_are_removed),
		cmocka_unit_test(first_letters_alone_are_capitals),
		cmocka_unit_test(words_characters_and_spaces_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
