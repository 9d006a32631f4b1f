/* test_dcp_set.c - lists of parts that other ranks send for a distributed checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/mem.h"
#include "lib/ckpt/dcp_set.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void lists_of_other_ranks_are_checked(void **state)
{
	static const struct {
		const char *what;
		size_t count;
		int64_t list[14]; /* tensor, place, bytes, and offset and size of each dimension */
		bool good;
	} cases[] = {
		{ "nothing", 0, { 0 }, true },
		{ "the last row", 7, { 0, 64, 80, 1, 0, 1, 3 }, true },
		{ "two boxes", 14, { 0, 0, 8, 0, 0, 1, 1, 0, 64, 8, 1, 2, 1, 1 }, true },
		{ "no such tensor", 7, { 1, 64, 80, 1, 0, 1, 3 }, false },
		{ "tensor -1", 7, { -1, 64, 80, 1, 0, 1, 3 }, false },
		{ "a head that is cut off", 2, { 0, 64 }, false },
		{ "a box that is cut off", 6, { 0, 64, 80, 1, 0, 1 }, false },
		{ "a negative place", 7, { 0, -1, 80, 1, 0, 1, 3 }, false },
		{ "negative bytes", 7, { 0, 64, -1, 1, 0, 1, 3 }, false },
		{ "a row too many", 7, { 0, 64, 80, 1, 0, 2, 3 }, false },
		{ "a sum that overflows", 7, { 0, 64, 80, 1, 0, INT64_MAX, 3 }, false },
		{ "a negative offset", 7, { 0, 64, 80, 0, -1, 1, 3 }, false },
		{ "a second part that is wrong", 14, { 0, 0, 8, 0, 0, 1, 1, 0, 64, 8, 1, 2, 1, 2 },
		    false },
	};
	static const int64_t shape[] = { 2, 3 };
	static const float elements[6];
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_tree *root = gt_tree_dict(&arena, &err);

	(void)state;
	assert_int_equal(
	    gt_tree_set(root, "number", gt_tree_int(&arena, 1, &err), &arena, &err), 0);
	assert_int_equal(
	    gt_tree_set(root, "weight", gt_tree_tensor(&arena, GT_F32, 2, shape, elements, &err),
	        &arena, &err),
	    0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_dcp_set *set;
		int rc;

		err = GT_ERR_INIT;
		assert_int_equal(gt_dcp_set_new(&set, root, 0, &err), 0);
		rc = gt_dcp_set_add_list(set, 1, cases[i].list, cases[i].count, &err);
		if (cases[i].good ? rc : rc != GT_EFORMAT || !strstr(err.text, "rank 1"))
			fail_msg("%s: %d, '%s'", cases[i].what, rc, err.text);
		gt_dcp_set_free(set);
	}
	gt_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_other_ranks_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
