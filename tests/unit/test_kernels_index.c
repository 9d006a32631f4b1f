/* test_kernels_index.c - largest elements, gather, scatter and products of groups of rows. */
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

/* Rows of so many indices, about a third of a row's elements. */
static int64_t indices_of(kernel_sizes d)
{
	return (d[1] + 2) / 3;
}

/* ---- topk: whole numbers, many of them equal, so that their order counts ---- */

enum { LARGEST, SMALLEST, SORTED, NONE_LARGER };

static void topk_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	int64_t k = d[VARIANT] == SORTED ? d[1] : d[VARIANT] == NONE_LARGER ? 1 : indices_of(d);

	c->inputs = 1;
	c->outputs = 2;
	c->attrs.index.size = k;
	c->attrs.index.smallest = d[VARIANT] == SMALLEST || d[VARIANT] == SORTED;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random_int(&c->in[0], 21, -40, 40);
	c->out[0] = test_tensor2(f, d[0], k);
	c->out[1] = test_tensor2(GT_I32, d[0], k);
}

/* Count the elements of a row that come before element i. */
static int64_t count_before(const struct gt_call *c, const double *row, int64_t i)
{
	double sign = c->attrs.index.smallest ? -1 : 1;
	int64_t n = gt_tensor_last(&c->in[0]), before = 0;

	for (int64_t j = 0; j < n; j++)
		before += row[j] == row[i] ? j < i : sign * row[j] > sign * row[i];
	return before;
}

static void topk_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]), k = c->attrs.index.size;
	const double *x = c->in[0].data; /* naive calls are float64 */

	EACH(i, c->in[0])
	{
		int64_t row = i / n, before = count_before(c, x + row * n, i % n);

		if (before >= k)
			continue;
		test_put(&c->out[0], row * k + before, x[i]);
		test_put(&c->out[1], row * k + before, (double)(i % n));
	}
}

/* ---- gather and scatter ---- */

static void gather_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor2(GT_I32, d[0], indices_of(d));
	test_random(&c->in[0], 22, -1, 1);
	test_random_int(&c->in[1], 23, 0, (int)d[1]);
	c->out[0] = test_tensor2(f, d[0], indices_of(d));
}

static void gather_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]), k = gt_tensor_last(&c->in[1]);

	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[0], i / k * n + (int64_t)test_get(&c->in[1], i)));
}

/* Variant 1: no row has an index twice. */
static void scatter_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	c->attrs.index.size = d[1];
	c->attrs.index.distinct = d[VARIANT];
	c->in[0] = test_tensor2(f, d[0], indices_of(d));
	c->in[1] = test_tensor2(GT_I32, d[0], indices_of(d));
	test_random(&c->in[0], 24, -1, 1);
	test_random_int(&c->in[1], 25, 0, (int)d[1]);
	EACH(i, c->in[1])
	if (d[VARIANT])
		test_put(&c->in[1], i, (double)(3 * (i % indices_of(d)) % d[1]));
	c->out[0] = test_tensor2(f, d[0], d[1]);
}

static void scatter_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->out[0]), k = gt_tensor_last(&c->in[0]);

	EACH(i, c->out[0])
	test_put(&c->out[0], i, 0);
	EACH(i, c->in[0])
	{
		int64_t at = i / k * n + (int64_t)test_get(&c->in[1], i);

		test_put(&c->out[0], at, test_get(&c->out[0], at) + test_get(&c->in[0], i));
	}
}

/* ---- groups of rows: d[0] rows of d[1] elements in 4 groups, of which one is empty ---- */

enum { GROUPS = 4, COLUMNS = 37 };

static void fill_ends(struct gt_tensor *ends, int64_t rows, bool all)
{
	const int64_t end[GROUPS] = { rows / 3, rows / 3, rows - rows / 4,
		all ? rows : rows - rows / 5 };

	*ends = test_tensor(GT_I32, 1, (int64_t[]){ GROUPS });
	for (int e = 0; e < GROUPS; e++)
		test_put(ends, e, (double)end[e]);
}

/* Variant 1: the matrices are transposed. Variant 2: the last rows are in no group. */
static void grouped_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	bool across = d[VARIANT] == 1;

	c->inputs = 3;
	c->outputs = 1;
	c->attrs.matmul.trans_b = across;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor3(f, GROUPS, across ? COLUMNS : d[1], across ? d[1] : COLUMNS);
	test_random(&c->in[0], 26, -1, 1);
	test_random(&c->in[1], 27, -0.1, 0.1);
	fill_ends(&c->in[2], d[0], d[VARIANT] != 2);
	c->out[0] = test_tensor2(f, d[0], COLUMNS);
}

static int64_t group_of(const struct gt_call *c, int64_t row)
{
	int64_t e = 0;

	while (e < GROUPS && row >= (int64_t)test_get(&c->in[2], e))
		e++;
	return e;
}

static void grouped_naive(struct gt_call *c)
{
	int64_t inner = gt_tensor_last(&c->in[0]);

	EACH(i, c->out[0])
	{
		int64_t row = i / COLUMNS, e = group_of(c, row), j = i % COLUMNS;
		double sum = 0;

		for (int64_t k = 0; e < GROUPS && k < inner; k++) {
			int64_t at = c->attrs.matmul.trans_b ? j * inner + k : k * COLUMNS + j;

			sum += test_get(&c->in[0], row * inner + k) *
			       test_get(&c->in[1], e * inner * COLUMNS + at);
		}
		test_put(&c->out[0], i, sum);
	}
}

static void grouped_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 3;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor2(f, d[0], COLUMNS);
	test_random(&c->in[0], 28, -1, 1);
	test_random(&c->in[1], 29, -0.1, 0.1);
	fill_ends(&c->in[2], d[0], d[VARIANT] != 2);
	c->out[0] = test_tensor3(f, GROUPS, d[1], COLUMNS);
}

static void grouped_grad_naive(struct gt_call *c)
{
	int64_t inner = gt_tensor_last(&c->in[0]);

	EACH(i, c->out[0])
	test_put(&c->out[0], i, 0);
	EACH(i, c->in[0])
	for (int64_t j = 0; j < COLUMNS; j++) {
		int64_t row = i / inner, e = group_of(c, row);
		int64_t at = (e * inner + i % inner) * COLUMNS + j;

		if (e < GROUPS)
			test_put(&c->out[0], at,
			    test_get(&c->out[0], at) +
			        test_get(&c->in[0], i) * test_get(&c->in[1], row * COLUMNS + j));
	}
}

static const struct kernel_case cases[] = {
	{ "topk", topk_make, topk_naive, 0, LARGEST, 0, false },
	{ "topk", topk_make, topk_naive, 0, SMALLEST, 0, false },
	{ "topk", topk_make, topk_naive, 0, SORTED, 0, true },
	{ "topk", topk_make, topk_naive, 0, NONE_LARGER, 0, true },
	{ "index_gather", gather_make, gather_naive, 1e-7, 0, 0, false },
	{ "index_scatter", scatter_make, scatter_naive, 1e-6, 0, 0, false },
	{ "index_scatter", scatter_make, scatter_naive, 1e-7, 1, 0, false },
	{ "grouped_matmul", grouped_make, grouped_naive, 2e-6, 0, 0, false },
	{ "grouped_matmul", grouped_make, grouped_naive, 2e-6, 1, 0, false },
	{ "grouped_matmul", grouped_make, grouped_naive, 2e-6, 2, 0, false },
	{ "grouped_matmul_grad", grouped_grad_make, grouped_grad_naive, 2e-6, 0, 0, false },
	{ "grouped_matmul_grad", grouped_grad_make, grouped_grad_naive, 2e-6, 2, 0, false },
};

static void test_rows(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_half_rows(void **state)
{
	(void)state;
	kernel_check_half(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), NULL);
}

/* A NaN is larger than infinity; of equal elements the first one comes first. */
static void test_order_of_special_numbers(void **state)
{
	static const double row[] = { 0, NAN, -INFINITY, INFINITY, -0.0, NAN, 1 };
	static const int largest[] = { 1, 5, 3, 6, 0, 4, 2 }, smallest[] = { 2, 0, 4, 6, 3, 1, 5 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (int down = 0; down < 2; down++) {
			struct gt_call c = { .inputs = 1,
				.outputs = 2,
				.attrs.index = { .size = 7, .smallest = down } };

			c.in[0] = test_tensor2(GT_F32, 1, 7);
			c.out[0] = test_tensor2(GT_F32, 1, 7);
			c.out[1] = test_tensor2(GT_I32, 1, 7);
			for (int i = 0; i < 7; i++)
				test_put(&c.in[0], i, row[i]);
			test_launch(set[s].set, "topk", GT_F32, &c);
			for (int i = 0; i < 7; i++)
				assert_int_equal(
				    (int)test_get(&c.out[1], i), (down ? smallest : largest)[i]);
			test_release(&c);
		}
}

/* Indices outside of a row, and groups that end before others, are faults of the data. */
static void test_faults(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++) {
		const int64_t d[5] = { 5, 9 };
		struct gt_call c = { 0 };

		gather_make(&c, GT_F32, d);
		test_put(&c.in[1], 4, 9);
		test_refuses(&set[s], "index_gather", GT_F32, &c,
		    "index 9 of row 1 is outside of its 9 elements");
		test_release(&c);
		memset(&c, 0, sizeof(c));
		grouped_make(&c, GT_F32, d);
		test_put(&c.in[2], 2, 0);
		test_refuses(&set[s], "grouped_matmul", GT_F32, &c,
		    "grouped_matmul: group 2 ends at row 0, behind the end 1 of the group before it "
		    "and 5 rows");
		test_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_half_rows),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_order_of_special_numbers),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
