/* test_log.c - text that a terminal shows and does not obey. */
#include "lib/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
	const char *text, *shown;
} cases[] = {
	{ "", "" },
	{ "conv1.weight", "conv1.weight" },
	{ "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
	    "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80" },
	{ "a\nb\tc", "a\\nb\\tc" },
	{ "\x1b[1m\x7f", "\\x1b[1m\\x7f" },
	{ "\xc2\x9b"
	  "1m\xc2\xa0",
	    "\\u009b1m\xc2\xa0" }, /* C1; a no-break space is harmless */
	{ "a\xe2\x80\xae"
	  "b\xe2\x80\x8f\xe2\x81\xa6",
	    "a\\u202eb\\u200f\\u2066" },
	{ "\xe2\x80\xa9\xe2\x80\xaf", "\xe2\x80\xa9\xe2\x80\xaf" },
	{ "\x9b"
	  "1m",
	    "\\x9b1m" },
	{ "\xed\xa0\x80x", "\\xed\\xa0\\x80x" }, /* half of a surrogate pair */
	{ "\xe2\x82", "\\xe2\\x82" },
	{ "\xc0\xaf", "\\xc0\\xaf" },
};

static void terminals_obey_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *shown = NULL;
		size_t size;
		FILE *out = open_memstream(&shown, &size);

		assert_non_null(out);
		gt_log_put(out, cases[i].text);
		fclose(out);
		assert_string_equal(shown, cases[i].shown);
		free(shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(terminals_obey_nothing) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
