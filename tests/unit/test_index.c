/* test_index.c - things found by their names or their addresses. */
#include "lib/base/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct thing {
	const char *name;
	int number;
};

static void names_are_kept_once(void **state)
{
	static const struct thing row[] = { { "b", 0 }, { "a", 1 }, { "c", 2 }, { "a", 3 },
		{ "", 4 }, { "b", 5 }, { "ab", 6 } };
	static const struct {
		const char *name;
		int number; /* of the first with the name; -1: none */
	} wanted[] = { { "a", 1 }, { "b", 0 }, { "c", 2 }, { "", 4 }, { "ab", 6 }, { "d", -1 },
		{ "abc", -1 } };
	struct gt_index x = { .compare = gt_index_by_name };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_null(gt_index_find(&x, &wanted[0].name));
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		const struct thing *first = gt_index_add(&x, &row[i], &err);

		assert_string_equal(first->name, row[i].name);
		assert_true(first == &row[i] || first < &row[i]);
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		const struct thing *found = gt_index_find(&x, &wanted[i].name);

		assert_int_equal(found ? found->number : -1, wanted[i].number);
	}
	gt_index_release(&x);
	assert_null(gt_index_find(&x, &wanted[0].name));
}

/* Addresses are compared, and the bytes there are not read. */
static void addresses(void **state)
{
	struct gt_index x = { 0 };
	const char *base = (const char *)(uintptr_t)4096;
	enum { COUNT = 3000 };
	bool there[COUNT] = { false };
	unsigned seed = (unsigned)time(NULL);

	(void)state;
	print_message("seed %u\n", seed);
	for (int i = 0; i < COUNT; i++) {
		size_t k = (size_t)rand_r(&seed) % COUNT;

		assert_ptr_equal(gt_index_add(&x, base + k, GT_ERR_IGNORED), base + k);
		there[k] = true;
	}
	for (size_t k = 0; k < COUNT; k++)
		assert_ptr_equal(gt_index_find(&x, base + k), there[k] ? base + k : NULL);
	gt_index_release(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_kept_once),
		cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
