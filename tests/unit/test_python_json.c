/* test_python_json.c - JSON with the integers and constants that Python writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <string.h>

#include "lib/base/python_json.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static void values_become_what_json_has(void **state)
{
	static const struct {
		const char *text, *wanted;
	} cases[] = {
		{ "[1,-2,3.5,\"x\",null]", "[1,-2,3.5,\"x\",null]" },
		{ "{\"a\":1000000000000000019884624838656,\"b\":7}", "{\"a\":1e30,\"b\":7}" },
		{ "[9223372036854775807,9223372036854775808]",
		    "[9223372036854775807,9223372036854775808.0]" },
		{ "[-9223372036854775808,-9223372036854775809]",
		    "[-9223372036854775808,-9223372036854775809.0]" },
		{ "[18446744073709551615]", "[18446744073709551615.0]" },
		{ "[NaN,Infinity,-Infinity,-1]", "[\"NaN\",\"Infinity\",\"-Infinity\",-1]" },
		/* texts that only look like them */
		{ "[NaN,\"NaN, \\\"Infinity\\\\\",\"99999999999999999999\"]",
		    "[\"NaN\",\"NaN, \\\"Infinity\\\\\",\"99999999999999999999\"]" },
		{ "[NaN,12345678901234567890.5,12345678901234567890e1]",
		    "[\"NaN\",12345678901234567890.5,12345678901234567890e1]" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		json_error_t error;
		json_t *wanted = json_loads(cases[i].wanted, 0, NULL);
		json_t *json =
		    gt_python_json_loadb(cases[i].text, strlen(cases[i].text), 0, &error);

		assert_non_null(wanted);
		if (!json)
			fail_msg("%s: %s", cases[i].text, error.text);
		if (!json_equal(json, wanted))
			fail_msg("%s: %s", cases[i].text, json_dumps(json, 0));
		json_decref(json);
		json_decref(wanted);
	}
}

static void other_faults_stay_errors(void **state)
{
	static const struct {
		const char *text;
		int line;
	} cases[] = { { "", -1 }, { "{", 1 }, { "[NaN", 1 }, { "[\nNaN,\n}", 3 }, { "[Nan]", 1 },
		{ "[NaNa]", 1 }, { "[-NaN]", 1 }, { "[\"", 1 }, { "[\"\\", 1 }, { "[1", 1 },
		{ "[1e999]", 1 }, { "[01,NaN]", 1 }, { "{\"a\":99999999999999999999,\"a\":1}", 1 },
		{ "[-99999999999999999999-]", 1 } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		json_error_t error;

		if (gt_python_json_loadb(
		        cases[i].text, strlen(cases[i].text), JSON_REJECT_DUPLICATES, &error))
			fail_msg("%s: taken", cases[i].text);
		if (cases[i].line > 0)
			assert_int_equal(error.line, cases[i].line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_become_what_json_has),
		cmocka_unit_test(other_faults_stay_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
