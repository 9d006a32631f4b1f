/* test_mem.c - memory that reports its failure, growing arrays, the arena. */
#include "lib/base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void products_that_overflow_are_refused(void **state)
{
	static const struct {
		size_t n, size;
	} cases[] = { { SIZE_MAX, 2 }, { 2, SIZE_MAX }, { SIZE_MAX / 4 + 2, 4 }, { SIZE_MAX, 1 } };
	int *old = malloc(sizeof(*old));

	(void)state;
	assert_non_null(old);
	*old = 7;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;

		assert_null(gt_calloc(cases[i].n, cases[i].size, &err));
		assert_int_equal(err.code, GT_ENOMEM);
		err = GT_ERR_INIT;
		assert_null(gt_reallocarray(old, cases[i].n, cases[i].size, &err));
		assert_int_equal(err.code, GT_ENOMEM);
		assert_int_equal(*old, 7);
	}
	free(old);
}

static void nothing_is_a_pointer_that_may_be_freed(void **state)
{
	void *p;

	(void)state;
	assert_non_null(p = gt_calloc(0, 8, GT_ERR_IGNORED));
	free(p);
	assert_non_null(p = gt_calloc(8, 0, GT_ERR_IGNORED));
	assert_non_null(p = gt_reallocarray(p, 0, 8, GT_ERR_IGNORED));
	free(p);
}

static void strings_are_copied_and_formatted(void **state)
{
	char *copy = gt_strdup("abc", GT_ERR_IGNORED),
	     *made = gt_asprintf(NULL, "%s-%03d", copy, 7);

	(void)state;
	assert_string_equal(copy, "abc");
	assert_string_equal(made, "abc-007");
	free(copy);
	free(made);
}

static void grow_keeps_what_is_there(void **state)
{
	size_t count = 0, capacity = 0, moves = 0;
	int *items = NULL;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		size_t before = capacity;

		assert_int_equal(
		    gt_grow(&items, count, &capacity, sizeof(*items), GT_ERR_IGNORED), 0);
		assert_true(capacity > count);
		moves += capacity != before;
		items[count++] = i;
	}
	for (int i = 0; i < 1000; i++)
		assert_int_equal(items[i], i);
	assert_true(moves < 12); /* doubling, not creeping */
	free(items);
}

static void grow_that_fails_leaves_the_array(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	size_t capacity = SIZE_MAX / 4;
	int value = 3, *items = &value;

	(void)state;
	assert_int_equal(gt_grow(&items, capacity, &capacity, 1 << 10, &err), GT_ENOMEM);
	assert_int_equal(err.code, GT_ENOMEM);
	assert_ptr_equal(items, &value);
	assert_int_equal(capacity, SIZE_MAX / 4);
}

static void arena_gives_zeroed_aligned_separate_memory(void **state)
{
	static const size_t sizes[] = { 1, 0, 15, 16, 17, 1000, 65535, 65536, 65537, 300000, 3 };
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	struct gt_arena arena = { 0 };
	unsigned char *p[COUNT];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		p[i] = gt_arena_alloc(&arena, sizes[i], GT_ERR_IGNORED);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % 16, 0);
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(p[i][k], 0);
		memset(p[i], i + 1, sizes[i]);
	}
	for (int i = 0; i < COUNT; i++)
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(p[i][k], i + 1);
	gt_arena_release(&arena);
}

static void arena_is_usable_after_release_and_refuses_too_much(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };

	(void)state;
	gt_arena_release(&arena);
	assert_string_equal(gt_arena_strdup(&arena, "one", GT_ERR_IGNORED), "one");
	gt_arena_release(&arena);
	assert_string_equal(gt_arena_strdup(&arena, "two", GT_ERR_IGNORED), "two");
	assert_null(gt_arena_alloc(&arena, SIZE_MAX, &err));
	assert_int_equal(err.code, GT_ENOMEM);
	assert_null(gt_arena_alloc(&arena, SIZE_MAX / 2, GT_ERR_IGNORED));
	gt_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_that_overflow_are_refused),
		cmocka_unit_test(nothing_is_a_pointer_that_may_be_freed),
		cmocka_unit_test(strings_are_copied_and_formatted),
		cmocka_unit_test(grow_keeps_what_is_there),
		cmocka_unit_test(grow_that_fails_leaves_the_array),
		cmocka_unit_test(arena_gives_zeroed_aligned_separate_memory),
		cmocka_unit_test(arena_is_usable_after_release_and_refuses_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
