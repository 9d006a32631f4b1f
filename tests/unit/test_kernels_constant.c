/* test_kernels_constant.c - the op constant: the elements, byte by byte, in each type. */
#include "tests/common/kernel_cases.h"

static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16, GT_F16, GT_I32, GT_BOOL };

/* The row of a type; integers have that of float32. */
static enum gt_dtype row_of(enum gt_dtype dtype)
{
	return gt_dtype_is_real(dtype) ? dtype : GT_F32;
}

static void check_constant(const struct test_set *set, enum gt_dtype dtype, int64_t n)
{
	size_t bytes = (size_t)n * gt_dtype_size(dtype);
	uint8_t *elements = test_alloc(bytes);
	struct gt_call call = { .outputs = 1 };

	for (size_t i = 0; i < bytes; i++)
		elements[i] = (uint8_t)(i * 37 + i / 251);
	call.attrs.constant.elements = elements;
	call.attrs.constant.dtype = dtype;
	call.out[0] = test_tensor1(dtype, n);
	if (!test_lacks(set, "constant", row_of(dtype), &call)) {
		test_launch(set->set, "constant", row_of(dtype), &call);
		assert_memory_equal(call.out[0].data, elements, bytes);
	}
	test_release(&call);
	free(elements);
}

static void test_constants(void **state)
{
	static const int64_t sizes[] = { 1, 7, 70001 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (size_t i = 0; i < COUNT(types) * COUNT(sizes); i++)
			check_constant(&set[s], types[i / COUNT(sizes)], sizes[i % COUNT(sizes)]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_constants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
