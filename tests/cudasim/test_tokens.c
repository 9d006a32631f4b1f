/* test_tokens.c - embeddings of simulated GPUs in all types, beside the CPU's in float64. */
#include "tests/common/calls.h"
#include "tests/cudasim/cudasim.h"

enum { ORDERS = 2 };
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint64_t orders[ORDERS] = { 2, 77 };

struct token_case {
	int64_t b, t, cols, rows;
	int64_t first, whole; /* of a shard of the table */
	int64_t ids;          /* every other token is the last one, the others are below this */
};

/* One element; more tokens than a chunk, more rows than a block sorts, packs of each width and
 * none, rows of the table with more tokens than a warp adds up alone, shards. */
static const struct token_case cases[] = { { 1, 1, 1, 1, 0, 0, 1 }, { 3, 700, 24, 600, 0, 0, 600 },
	{ 2, 530, 37, 300, 0, 0, 250 }, { 1, 1025, 264, 7, 0, 0, 7 },
	{ 2, 65, 16, 257, 100, 600, 600 }, { 1, 300, 6, 3, 5, 9, 9 } };

/* Of the largest number: sums are of float32, results are rounded once. */
struct type {
	enum gt_dtype dtype;
	double tolerance;
};
static const struct type types[] = { { GT_F64, 1e-13 }, { GT_F32, 2e-6 }, { GT_BF16, 4e-3 },
	{ GT_F16, 5e-4 } };

static size_t bytes_of(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype);
}

static void ids_make(struct gt_tensor *ids, const struct token_case *c)
{
	*ids = test_tensor2(GT_I32, c->b, c->t);
	test_random_int(ids, 102, 0, c->ids);
	for (int64_t i = 0; i < c->b * c->t; i += 2)
		test_put(ids, i, (double)(c->ids - 1));
}

static void embedding_make(struct gt_call *c, enum gt_dtype f, const struct token_case *s)
{
	c->inputs = 4;
	c->outputs = 1;
	c->attrs.embedding.first = s->first;
	c->attrs.embedding.whole = s->whole;
	c->in[0] = test_tensor2(f, s->rows, s->cols);
	ids_make(&c->in[1], s);
	c->in[2] = test_tensor2(f, s->t + 2, s->cols);
	c->in[3] = test_tensor(GT_I32, 0, NULL);
	test_random(&c->in[0], 101, -1, 1);
	test_random(&c->in[2], 103, -1, 1);
	test_put(&c->in[3], 0, 2);
	c->out[0] = test_tensor3(f, s->b, s->t, s->cols);
}

static void gradient_make(struct gt_call *c, enum gt_dtype f, const struct token_case *s)
{
	c->inputs = 3;
	c->outputs = 1;
	c->attrs.embedding.first = s->first;
	c->attrs.embedding.whole = s->whole;
	c->attrs.embedding.rows = s->rows;
	c->in[0] = test_tensor3(f, s->b, s->t, s->cols);
	ids_make(&c->in[1], s);
	c->in[2] = test_tensor2(f, s->rows, s->cols);
	test_random(&c->in[0], 101, -1, 1);
	test_random(&c->in[2], 103, -1, 1);
	c->out[0] = test_tensor2(f, s->rows, s->cols);
}

static void positions_make(struct gt_call *c, enum gt_dtype f, const struct token_case *s)
{
	c->inputs = c->outputs = 1;
	c->attrs.embedding.rows = s->t + 3;
	c->in[0] = test_tensor3(f, s->b, s->t, s->cols);
	test_random(&c->in[0], 101, -1, 1);
	c->out[0] = test_tensor2(f, s->t + 3, s->cols);
}

/* As the graph has them: the sum in the memory of acc, in memory of its own, and without acc. */
enum acc { OVER_ACC, BESIDE_ACC, NO_ACC, ACCS };

static const struct {
	const char *op;
	void (*make)(struct gt_call *c, enum gt_dtype f, const struct token_case *s);
	int ways;
} ops[] = {
	{ "embedding", embedding_make, 1 },
	{ "embedding_grad", gradient_make, ACCS },
	{ "position_grad", positions_make, 1 },
};

static struct gt_call make(size_t op, enum gt_dtype f, const struct token_case *s, int way)
{
	struct gt_call c = { 0 };

	ops[op].make(&c, f, s);
	if (ops[op].ways == 1)
		return c;
	c.in[2].present = way != NO_ACC;
	if (way == OVER_ACC) {
		free(c.out[0].data);
		c.out[0].data = c.in[2].data;
	}
	return c;
}

/* The same numbers: those of 16 bits are themselves in float64. */
static void copy_inputs(struct gt_call *to, const struct gt_call *from)
{
	for (int i = 0; i < from->inputs; i++)
		for (int64_t e = 0; e < gt_tensor_elements(&from->in[i]); e++)
			test_put(&to->in[i], e, test_get(&from->in[i], e));
}

/* The same bits in every order of threads, and the CPU's results. */
static void check(size_t op, const struct token_case *s, const struct type *type, int way)
{
	struct gt_call near = make(op, GT_F64, s, way), far[ORDERS];
	struct test_set set[3];
	struct gt_err err = GT_ERR_INIT;

	assert_int_equal(test_sets(set), 1);
	for (int i = 0; i < ORDERS; i++) {
		far[i] = make(op, type->dtype, s, way);
		if (i == 0)
			copy_inputs(&near, &far[i]);
		cudasim_seed(orders[i]);
		if (test_run(set[0].set, ops[op].op, type->dtype, &far[i], &err))
			fail_msg("%s", err.text);
		assert_memory_equal(
		    far[i].out[0].data, far[0].out[0].data, bytes_of(&far[0].out[0]));
	}
	assert_int_equal(test_run(&gt_cpu_set_base, ops[op].op, GT_F64, &near, &err), 0);
	assert_near(&far[0].out[0], &near.out[0], type->tolerance, "%s %s way %d, %lld columns\n",
	    ops[op].op, gt_dtype_name(type->dtype), way, (long long)s->cols);
	for (int i = 0; i < ORDERS; i++)
		test_release(&far[i]);
	test_release(&near);
}

static void test_types(void **state)
{
	(void)state;
	for (size_t op = 0; op < COUNT(ops); op++)
		for (size_t c = 0; c < COUNT(cases); c++)
			for (size_t t = 0; t < COUNT(types); t++)
				for (int way = 0; way < ops[op].ways; way++)
					check(op, &cases[c], &types[t], way);
}

/* A bad id counts as no token at all, and is reported; which of two is, is left open. */
static void test_bad_ids(void **state)
{
	static const struct token_case s = { 2, 9, 8, 5, 0, 0, 5 };
	static const int at[] = { 3, 17 };
	static const int32_t bad[] = { 5, INT32_MIN };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (int seed = 1; seed <= 8; seed++) {
		struct gt_call c = make(1, GT_F32, &s, NO_ACC), want = make(1, GT_F32, &s, NO_ACC);
		struct gt_err err = GT_ERR_INIT;

		cudasim_seed((uint64_t)seed);
		for (int k = 0; k < 2; k++) {
			((int32_t *)c.in[1].data)[at[k]] = bad[k];
			for (int64_t e = 0; e < s.cols; e++)
				test_put(&want.in[0], at[k] * s.cols + e, 0);
		}
		assert_int_equal(
		    test_run(set[0].set, "embedding_grad", GT_F32, &c, &err), GT_EFORMAT);
		if (strcmp(err.text, "cuda:0: embedding: id 5 at [0, 3] is outside the table of "
		                     "5 rows") &&
		    strcmp(err.text, "cuda:0: embedding: id -2147483648 at [1, 8] is outside the "
		                     "table of 5 rows"))
			fail_msg("%s", err.text);
		assert_int_equal(
		    test_run(&gt_cpu_set_base, "embedding_grad", GT_F32, &want, &err), 0);
		assert_near(&c.out[0], &want.out[0], 1e-6, "bad ids\n");
		test_release(&c);
		test_release(&want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_bad_ids),
	};

	setenv("GTRAIN_TEST_BACKEND", "cuda", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
