/* test_opt_json.c - values of options in JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include "lib/base/opt_json.h"

static void numbers_are_compared_by_value(void **state)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} row[] = {
		{ "1", "1.0", true },
		{ "1", "2", false },
		{ "[0.9, 1]", "[0.9, 1.0]", true },
		{ "[0.9, 1]", "[0.9, 2]", false },
		{ "[1]", "[1, 2]", false },
		{ "\"1K\"", "1024", false },
		{ "[\"a=b\"]", "[\"a=b\"]", true },
		{ "true", "1", false },
		{ "null", "null", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		json_t *a = json_loads(row[i].a, JSON_DECODE_ANY, NULL);
		json_t *b = json_loads(row[i].b, JSON_DECODE_ANY, NULL);

		assert_int_equal(gt_opt_json_equal(a, b), row[i].equal);
		assert_int_equal(gt_opt_json_equal(b, a), row[i].equal);
		json_decref(a);
		json_decref(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_compared_by_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
