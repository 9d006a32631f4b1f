/* test_kernels_batched_matmul.c - products of random batches against plain loops; threads. */
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

static unsigned seed;

static int64_t draw(int64_t low, int64_t high)
{
	return low + rand_r(&seed) % (high - low + 1);
}

/* ---- random batches of whole numbers, whose products are exact in every type ---- */

/* Sizes of a product, and the dimensions of the batch. */
struct batch_case {
	int64_t m, n, k;
	int ndim;
	int64_t batch[GT_MAX_DIMS];
};

/* A tensor of matrices whose batch is broadcast to b's. */
static struct gt_tensor draw_factor(
    enum gt_dtype f, const struct batch_case *b, int64_t rows, int64_t columns)
{
	int ndim = draw(0, 2) ? b->ndim : (int)draw(0, b->ndim);
	int64_t shape[GT_MAX_DIMS];
	struct gt_tensor t;

	for (int d = 0; d < ndim; d++)
		shape[d] = draw(0, 2) ? b->batch[b->ndim - ndim + d] : 1;
	shape[ndim] = rows;
	shape[ndim + 1] = columns;
	t = test_tensor(f, ndim + 2, shape);
	t.layout = GT_PLAIN;
	test_random_int(&t, (uint32_t)draw(1, 1 << 30), -2, 3);
	return t;
}

/* Return the number of a factor's matrix that belongs to matrix i of y. */
static int64_t matrix_of(const struct gt_tensor *t, const struct gt_tensor *y, int64_t i)
{
	int64_t at = 0, step = 1;

	for (int d = y->ndim - 3; d >= 0; d--) {
		int own = d - (y->ndim - t->ndim);

		if (own >= 0) {
			at += t->shape[own] == 1 ? 0 : i % y->shape[d] * step;
			step *= t->shape[own];
		}
		i /= y->shape[d];
	}
	return at;
}

static void draw_batch(struct gt_call *c, struct batch_case *b, enum gt_dtype f)
{
	bool ta = draw(0, 1), tb = draw(0, 1);
	int64_t shape[GT_MAX_DIMS], size;

	*c = (struct gt_call){ .inputs = 2, .outputs = 1 };
	c->attrs.matmul.trans_a = ta;
	c->attrs.matmul.trans_b = tb;
	c->in[0] = draw_factor(f, b, ta ? b->k : b->m, ta ? b->m : b->k);
	c->in[1] = draw_factor(f, b, tb ? b->n : b->k, tb ? b->k : b->n);
	/* y has the dimensions that both factors lack no more */
	for (int d = 0; d < b->ndim; d++) {
		size = 1;
		for (int i = 0; i < 2; i++) {
			int own = d - (b->ndim + 2 - c->in[i].ndim);

			if (own >= 0 && c->in[i].shape[own] > size)
				size = c->in[i].shape[own];
		}
		shape[d] = size;
	}
	shape[b->ndim] = b->m;
	shape[b->ndim + 1] = b->n;
	c->out[0] = test_tensor(f, b->ndim + 2, shape);
	c->out[0].layout = GT_PLAIN;
}

static double product_at(
    const struct gt_call *c, const struct batch_case *b, int64_t matrix, int64_t i, int64_t j)
{
	int64_t a = matrix_of(&c->in[0], &c->out[0], matrix) * b->m * b->k;
	int64_t at_b = matrix_of(&c->in[1], &c->out[0], matrix) * b->k * b->n;
	double sum = 0;

	for (int64_t k = 0; k < b->k; k++)
		sum += test_get(
		           &c->in[0], a + (c->attrs.matmul.trans_a ? k * b->m + i : i * b->k + k)) *
		       test_get(&c->in[1],
		           at_b + (c->attrs.matmul.trans_b ? j * b->k + k : k * b->n + j));
	return sum;
}

static void check_batch(const struct gt_call *c, const struct batch_case *b, const char *set)
{
	int64_t size = b->m * b->n;

	EACH(i, c->out[0])
	{
		double got = test_get(&c->out[0], i);
		double want = product_at(c, b, i / size, i % size / b->n, i % b->n);

		if (got != want)
			fail_msg("%s %s, %d x %d x %d%s%s: element %d is %g, not %g", set,
			    gt_dtype_name(c->out[0].dtype), (int)b->m, (int)b->n, (int)b->k,
			    c->attrs.matmul.trans_a ? " trans_a" : "",
			    c->attrs.matmul.trans_b ? " trans_b" : "", (int)i, got, want);
	}
}

static void test_random_batches(void **state)
{
	static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };
	struct test_set set[3];
	int sets = test_sets(set), cases = test_device_is_cpu() ? 600 : 80;

	(void)state;
	seed = 41;
	for (int i = 0; i < cases; i++) {
		struct batch_case b = { draw(1, 9), draw(1, 9), draw(1, 12), (int)draw(0, 6),
			{ 0 } };
		struct gt_call c;

		if (draw(0, 5) == 0)
			b.m = draw(30, 130);
		for (int d = 0; d < b.ndim; d++)
			b.batch[d] = draw(1, 3);
		draw_batch(&c, &b, types[i % (int)COUNT(types)]);
		for (int s = 0; s < sets; s++) {
			test_launch(set[s].set, "batched_matmul", c.in[0].dtype, &c);
			check_batch(&c, &b, set[s].name);
		}
		test_release(&c);
	}
}

/* ---- large ones, for several threads: the same bits, near to the sums in float64 ---- */

static void check_large(
    const struct test_set *set, enum gt_dtype f, const struct batch_case *b, bool ta, bool tb)
{
	struct gt_call c = { .inputs = 2, .outputs = 1 };
	struct gt_tensor one, want = test_tensor3(GT_F64, b->batch[0], b->m, b->n);
	size_t bytes;

	c.attrs.matmul.trans_a = ta;
	c.attrs.matmul.trans_b = tb;
	c.in[0] = test_tensor3(f, b->batch[0], ta ? b->k : b->m, ta ? b->m : b->k);
	c.in[1] = test_tensor3(f, b->batch[0], tb ? b->n : b->k, tb ? b->k : b->n);
	for (int i = 0; i < 2; i++)
		test_random(&c.in[i], (uint32_t)(3 + i), -1, 1);
	c.out[0] = one = test_tensor3(f, b->batch[0], b->m, b->n);
	EACH(i, want)
	test_put(
	    &want, i, product_at(&c, b, i / (b->m * b->n), i % (b->m * b->n) / b->n, i % b->n));
	omp_set_num_threads(1);
	test_launch(set->set, "batched_matmul", f, &c);
	assert_near(&one, &want, f == GT_F32 ? 3e-6 : 1e-13, "%d x %d x %d\n", (int)b->m, (int)b->n,
	    (int)b->k);
	bytes = (size_t)gt_tensor_elements(&one) * gt_dtype_size(f);
	for (int threads = 2; threads < (test_device_is_cpu() ? 6 : 3); threads++) {
		c.out[0] = test_tensor3(f, b->batch[0], b->m, b->n);
		omp_set_num_threads(threads);
		test_launch(set->set, "batched_matmul", f, &c);
		if (memcmp(one.data, c.out[0].data, bytes))
			fail_msg("%s, %d x %d x %d: the bits depend on the number of threads",
			    set->name, (int)b->m, (int)b->n, (int)b->k);
		free(c.out[0].data);
	}
	c.out[0] = one;
	free(want.data);
	test_release(&c);
}

static void test_large_batches(void **state)
{
	static const struct batch_case large[] = { { 197, 16, 67, 1, { 3 } },
		{ 50, 17, 32, 1, { 24 } }, { 16, 16, 16, 1, { 40 } }, { 300, 70, 130, 1, { 1 } },
		{ 1, 131, 67, 1, { 30 } }, { 131, 1, 67, 1, { 30 } }, { 5, 7, 3, 1, { 2 } } };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (size_t i = 0; i < COUNT(large) * 8; i++)
		check_large(&set[0], i % 2 ? GT_F64 : GT_F32, &large[i / 8], i / 2 % 2, i / 4 % 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_batches),
		cmocka_unit_test(test_large_batches),
	};

	/* A GPU's choice of algorithms is not to be kept in the user's cache. */
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
