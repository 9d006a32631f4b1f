/* test_sizes.c - sizes of exported networks, as sympy writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/model/import/sizes.h"

#define S77 "Symbol('s77', positive=True, integer=True)"
#define S7  "Symbol('s7', positive=True, integer=True)"

static const struct gt_symbols symbols = { { { "s77", 3, 12 }, { "s7", 2, -5 } }, 2 };

static void test_numbers(void **state)
{
	static const struct {
		const char *expression;
		int64_t value;
	} cases[] = {
		{ "Integer(3)", 3 },
		{ "Integer(-3)", -3 },
		{ S77, 12 },
		{ S7, -5 },
		{ "Symbol('s77')", 12 },
		{ "Mul(Integer(64), " S77 ")", 768 },
		{ "Add(Integer(1), Mul(Integer(2), " S77 "), " S7 ")", 20 },
		{ "FloorDiv(" S77 ", Integer(5))", 2 },
		{ "FloorDiv(" S7 ", Integer(2))", -3 },
		{ "Mod(" S7 ", Integer(3))", 1 },
		{ "Max(" S77 ", " S7 ")", 12 },
		{ "Min(Integer(9), " S77 ", Integer(10))", 9 },
		{ "Pow(" S77 ", Integer(2))", 144 },
		{ "Pow(" S77 ", Integer(0))", 1 },
	};
	int64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!gt_symbols_compute(&symbols, cases[i].expression, &value))
			fail_msg("'%s' is an error", cases[i].expression);
		if (value != cases[i].value)
			fail_msg("'%s' is %lld", cases[i].expression, (long long)value);
	}
}

static void test_errors(void **state)
{
	static const char *const cases[] = { "", "3", "Integer()", "Integer(3", "Integer(3))",
		"Symbol('s8')", "Symbol(s77)", "Symbol('s77'", "Add()", "Add(Integer(1),)",
		"Sin(Integer(1))", "FloorDiv(Integer(1), Integer(0))",
		"Mod(Integer(1), Integer(0))", "Pow(Integer(2), Integer(-1))",
		"Pow(Integer(2), Integer(63))", "Pow(Integer(1), Integer(1000000000000))",
		"Mul(Integer(4611686018427387904), Integer(2))",
		"Add(Integer(9223372036854775807), Integer(1))" };
	char deep[2000] = "";
	int64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (gt_symbols_compute(&symbols, cases[i], &value))
			fail_msg("'%s' is no error", cases[i]);
	for (int i = 0; i < 300; i++)
		strcat(deep, "Add(");
	assert_false(gt_symbols_compute(&symbols, deep, &value));
}

static void test_symbols(void **state)
{
	struct gt_symbols s = { .count = 0 };
	int64_t value;

	(void)state;
	assert_true(gt_symbols_set(&s, S77, 4));
	assert_true(gt_symbols_set(&s, S77, 4));
	assert_false(gt_symbols_set(&s, S77, 5));
	assert_false(gt_symbols_set(&s, "Mul(Integer(2), " S77 ")", 8));
	assert_true(gt_symbols_compute(&s, "Mul(Integer(2), " S77 ")", &value));
	assert_int_equal(value, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
