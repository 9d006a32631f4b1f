/* test_kernels_loss.c - losses over classes, whole and in shards, against plain loops. */
#include <string.h>

#include "lib/base/mixed_target.h"
#include "tests/common/kernel_cases.h"

/* Cases of the variants from here on have the targets of mixtures. */
enum { MIXED = 4 };

/* Mixtures: a class alone, both or none count. */
static void mixed_make(struct gt_tensor *t, kernel_sizes d)
{
	*t = test_tensor2(GT_I32, d[0], GT_MIXED_TARGET_WORDS);
	test_random_int(t, 112, 0, d[1]);
	for (int64_t r = 0; r < d[0]; r++) {
		float weight = (float)(r % 10 + 1) / 12;
		int32_t bits;

		memcpy(&bits, &weight, sizeof(bits));
		test_put(t, r * GT_MIXED_TARGET_WORDS + 2, bits);
		for (int k = 0; k < 2; k++)
			if (r % 7 == k + 1 || r % 7 == 5)
				test_put(t, r * GT_MIXED_TARGET_WORDS + k, -100);
	}
}

static void targets_make(struct gt_tensor *t, kernel_sizes d)
{
	if (d[VARIANT] >= MIXED) {
		mixed_make(t, d);
		return;
	}
	*t = test_tensor1(GT_I32, d[0]);
	test_random_int(t, 112, 0, d[1]);
	for (int64_t i = 1; i < d[0]; i += 3)
		test_put(t, i, -100);
}

static void scalar(struct gt_tensor *t, enum gt_dtype f, double value)
{
	*t = test_tensor(f, 0, NULL);
	test_put(t, 0, value);
}

static void cross_entropy_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 3;
	c->outputs = 2;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[0], 111, -5, 5);
	targets_make(&c->in[1], d);
	scalar(&c->in[2], f, 0.125);
	scalar(&c->out[0], f, 0);
	c->out[1] = test_tensor1(f, d[0]);
}

/* The weight of class j in row r's target; of j = -1, the sum of all. */
static double weight_of(const struct gt_tensor *t, int64_t r, int64_t j)
{
	double first, sum = 0;
	float weight;
	int32_t bits;

	if (t->ndim == 1)
		return test_get(t, r) >= 0 && (j < 0 || (int64_t)test_get(t, r) == j);
	bits = (int32_t)test_get(t, r * GT_MIXED_TARGET_WORDS + 2);
	memcpy(&weight, &bits, sizeof(weight));
	first = (double)weight;
	for (int k = 0; k < 2; k++) {
		int64_t class = (int64_t)test_get(t, r * GT_MIXED_TARGET_WORDS + k);

		if (class >= 0 && (j < 0 || class == j))
			sum += k ? 1 - first : first;
	}
	return sum;
}

static double lse_of(const struct gt_tensor *x, int64_t r)
{
	int64_t n = gt_tensor_last(x);
	double sum = 0;

	for (int64_t j = 0; j < n; j++)
		sum += exp(test_get(x, r * n + j));
	return log(sum);
}

static void cross_entropy_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]);
	double loss = 0;

	EACH(r, c->out[1])
	{
		double lse = lse_of(&c->in[0], r);

		test_put(&c->out[1], r, lse);
		for (int64_t j = 0; j < n; j++)
			if (weight_of(&c->in[1], r, j) > 0)
				loss += 0.125 * weight_of(&c->in[1], r, j) *
				        (lse - test_get(&c->in[0], r * n + j));
	}
	test_put(&c->out[0], 0, loss);
}

/* Whether a variant is of a shard, see below. */
static bool is_shard(kernel_sizes d)
{
	return d[VARIANT] % MIXED == 1;
}

static void cross_entropy_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 5;
	c->outputs = 1;
	scalar(&c->in[0], f, 2);
	c->in[1] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[1], 111, -5, 5);
	if (is_shard(d)) {
		c->attrs.loss.first = 1;
		c->attrs.loss.whole = d[1] + 3;
	}
	targets_make(
	    &c->in[2], (kernel_sizes){ d[0], d[1] + (is_shard(d) ? 3 : 0), 0, 0, d[VARIANT] });
	c->in[3] = test_tensor1(f, d[0]);
	for (int64_t r = 0; r < d[0]; r++)
		test_put(&c->in[3], r, (double)(float)lse_of(&c->in[1], r));
	scalar(&c->in[4], f, 0.125);
	c->out[0] = test_tensor2(f, d[0], d[1]);
}

static void cross_entropy_grad_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[1]);

	EACH(i, c->out[0])
	{
		double all = weight_of(&c->in[2], i / n, -1);
		double own = weight_of(&c->in[2], i / n, i % n + c->attrs.loss.first);
		double p = exp(test_get(&c->in[1], i) - test_get(&c->in[3], i / n));

		test_put(&c->out[0], i, all > 0 ? 2 * 0.125 * (all * p - own) : 0);
	}
}

static void classify_stats_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random_int(&c->in[0], 113, -8, 8); /* many equals */
	targets_make(&c->in[1], d);
	c->out[0] = test_tensor1(GT_F64, 4);
}

static void classify_stats_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]);
	double sum[4] = { 0 };

	EACH(r, c->in[1])
	{
		int64_t t = (int64_t)test_get(&c->in[1], r), before = 0;

		if (t < 0)
			continue;
		for (int64_t j = 0; j < n; j++) {
			double v = test_get(&c->in[0], r * n + j),
			       own = test_get(&c->in[0], r * n + t);

			before += v > own || (v == own && j < t);
		}
		sum[0] += lse_of(&c->in[0], r) - test_get(&c->in[0], r * n + t);
		sum[1]++;
		sum[2] += before < 1;
		sum[3] += before < 5;
	}
	for (int i = 0; i < 4; i++)
		test_put(&c->out[0], i, sum[i]);
}

/* ---- of ranks that share classes: class 1 is the first one here, two follow the last ---- */

static void shard_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d, int64_t low)
{
	c->attrs.loss.first = 1;
	c->attrs.loss.whole = d[1] + 3;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random_int(&c->in[0], 113, low, 8); /* many equals */
	targets_make(&c->in[1], (kernel_sizes){ d[0], d[1] + 3, 0, 0, d[VARIANT] });
}

static void log_sum_exp_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = c->outputs = 1;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[0], 111, -5, 5);
	c->out[0] = test_tensor1(f, d[0]);
}

static void log_sum_exp_naive(struct gt_call *c)
{
	EACH(r, c->out[0])
	test_put(&c->out[0], r, lse_of(&c->in[0], r));
}

static void exp_difference_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	for (int i = 0; i < 2; i++) {
		c->in[i] = test_tensor1(f, d[0] * d[1]);
		test_random(&c->in[i], (uint32_t)(121 + i), -3, 3);
	}
	c->out[0] = test_tensor1(GT_F64, d[0] * d[1]);
}

static void exp_difference_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, exp(test_get(&c->in[0], i) - test_get(&c->in[1], i)));
}

static void add_log_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	c->in[0] = test_tensor1(f, d[0] * d[1]);
	test_random(&c->in[0], 121, -3, 3);
	c->in[1] = test_tensor1(GT_F64, d[0] * d[1]);
	test_random(&c->in[1], 122, 0.5, 4);
	c->out[0] = test_tensor1(f, d[0] * d[1]);
}

static void add_log_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[0], i) + log(test_get(&c->in[1], i)));
}

static void pick_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	shard_make(c, f, d, 1);
	c->out[0] = test_tensor1(f, d[0]);
}

static void pick_naive(struct gt_call *c)
{
	EACH(r, c->out[0])
	{
		int64_t n = gt_tensor_last(&c->in[0]);
		double sum = 0;

		for (int64_t j = 0; j < n; j++)
			sum += weight_of(&c->in[1], r, j + c->attrs.loss.first) *
			       test_get(&c->in[0], r * n + j);
		test_put(&c->out[0], r, sum);
	}
}

static void count_before_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 3;
	c->outputs = 1;
	shard_make(c, f, d, -8);
	c->in[2] = test_tensor1(f, d[0]);
	test_random_int(&c->in[2], 114, -8, 8);
	c->out[0] = test_tensor1(GT_F64, d[0]);
}

static void count_before_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]);

	EACH(r, c->out[0])
	{
		double own = test_get(&c->in[2], r), target = test_get(&c->in[1], r);
		int64_t before = 0;

		for (int64_t j = 0; j < n && target >= 0; j++) {
			double v = test_get(&c->in[0], r * n + j);

			before +=
			    v > own || (v == own && (double)(j + c->attrs.loss.first) < target);
		}
		test_put(&c->out[0], r, (double)before);
	}
}

static void cross_entropy_sharded_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 5;
	c->outputs = 1;
	shard_make(c, f, d, 1);
	for (int i = 2; i < 4; i++) {
		c->in[i] = test_tensor1(f, d[0]);
		test_random(&c->in[i], (uint32_t)(121 + i), -3, 3);
	}
	scalar(&c->in[4], f, 0.125);
	scalar(&c->out[0], f, 0);
}

static void cross_entropy_sharded_naive(struct gt_call *c)
{
	double loss = 0;

	EACH(r, c->in[2])
	if (weight_of(&c->in[1], r, -1) > 0)
		loss += 0.125 * (weight_of(&c->in[1], r, -1) * test_get(&c->in[2], r) -
		                    test_get(&c->in[3], r));
	test_put(&c->out[0], 0, loss);
}

static void classify_stats_sharded_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 4;
	c->outputs = 1;
	for (int i = 0; i < 2; i++) {
		c->in[i] = test_tensor1(f, d[0]);
		test_random(&c->in[i], (uint32_t)(121 + i), -3, 3);
	}
	c->in[2] = test_tensor1(GT_F64, d[0]);
	test_random_int(&c->in[2], 125, 0, 8);
	targets_make(&c->in[3], d);
	c->out[0] = test_tensor1(GT_F64, 4);
}

static void classify_stats_sharded_naive(struct gt_call *c)
{
	double sum[4] = { 0 };

	EACH(r, c->in[3])
	{
		if (test_get(&c->in[3], r) < 0)
			continue;
		sum[0] += test_get(&c->in[0], r) - test_get(&c->in[1], r);
		sum[1]++;
		sum[2] += test_get(&c->in[2], r) < 1;
		sum[3] += test_get(&c->in[2], r) < 5;
	}
	for (int i = 0; i < 4; i++)
		test_put(&c->out[0], i, sum[i]);
}

static const struct kernel_case loss_cases[] = {
	{ "cross_entropy", cross_entropy_make, cross_entropy_naive, 1e-6, 0, 0, true },
	{ "cross_entropy_grad", cross_entropy_grad_make, cross_entropy_grad_naive, 1e-6, 0, 2,
	    false },
	{ "cross_entropy_grad", cross_entropy_grad_make, cross_entropy_grad_naive, 1e-6, 1, 2,
	    false },
	{ "cross_entropy", cross_entropy_make, cross_entropy_naive, 1e-6, MIXED, 0, true },
	{ "cross_entropy_grad", cross_entropy_grad_make, cross_entropy_grad_naive, 1e-6, MIXED, 2,
	    false },
	{ "cross_entropy_grad", cross_entropy_grad_make, cross_entropy_grad_naive, 1e-6, MIXED + 1,
	    2, false },
	{ "classify_stats", classify_stats_make, classify_stats_naive, 1e-6, 0, 0, true },
	{ "log_sum_exp", log_sum_exp_make, log_sum_exp_naive, 1e-6, 0, 0, true },
	{ "exp_difference", exp_difference_make, exp_difference_naive, 1e-11, 0, 0, true },
	{ "add_log", add_log_make, add_log_naive, 1e-6, 0, 1, true },
	{ "pick", pick_make, pick_naive, 0, 0, 0, false },
	{ "pick", pick_make, pick_naive, 1e-6, MIXED, 0, false },
	{ "count_before", count_before_make, count_before_naive, 0, 0, 0, false },
	{ "cross_entropy_sharded", cross_entropy_sharded_make, cross_entropy_sharded_naive, 1e-6, 0,
	    0, false },
	{ "cross_entropy_sharded", cross_entropy_sharded_make, cross_entropy_sharded_naive, 1e-6,
	    MIXED, 0, false },
	{ "classify_stats_sharded", classify_stats_sharded_make, classify_stats_sharded_naive, 1e-6,
	    0, 0, false },
};

static void test_loss(void **state)
{
	(void)state;
	kernel_check(loss_cases, COUNT(loss_cases), KERNEL_ROWS);
	kernel_check(loss_cases, COUNT(loss_cases), KERNEL_LONG_ROWS);
}

static void test_types_of_16_bits(void **state)
{
	(void)state;
	kernel_check_half(loss_cases, COUNT(loss_cases), KERNEL_ROWS);
	kernel_check_half(loss_cases, COUNT(loss_cases), KERNEL_LONG_ROWS);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(loss_cases, COUNT(loss_cases), NULL);
}

/* Rows of 1030 classes, a thread's part and more, and of 3. */
static void test_infinite_logits(void **state)
{
	static const struct {
		double others, last, lse;
	} rows[] = { { -INFINITY, -INFINITY, -INFINITY }, { -INFINITY, 3, 3 },
		{ -INFINITY, NAN, NAN }, { -INFINITY, INFINITY, NAN }, { NAN, 3, NAN } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 4 * sets; k++) {
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;
		enum gt_dtype f = k & 1 ? GT_F32 : GT_F64;
		int64_t n = k & 2 ? 1030 : 3;

		log_sum_exp_make(&c, f, (kernel_sizes){ COUNT(rows), n });
		EACH(i, c.in[0])
		test_put(&c.in[0], i, i % n == n - 1 ? rows[i / n].last : rows[i / n].others);
		assert_int_equal(test_run(set[k / 4].set, "log_sum_exp", f, &c, &err), 0);
		EACH(r, c.out[0])
		if (isnan(rows[r].lse) ? !isnan(test_get(&c.out[0], r))
		                       : test_get(&c.out[0], r) != rows[r].lse)
			fail_msg("%s: row %lld is %g", set[k / 4].name, (long long)r,
			    test_get(&c.out[0], r));
		test_release(&c);
	}
}

/* A row's result depends on the row alone, not on its place among others. */
static void test_place_of_a_row(void **state)
{
	static const int64_t classes[] = { 10, 1023, 1027, 2056 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < sets * (int)COUNT(classes); k++) {
		int64_t n = classes[k % COUNT(classes)];
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		log_sum_exp_make(&c, GT_F32, (kernel_sizes){ 6, n });
		EACH(i, c.in[0])
		test_put(&c.in[0], i, test_get(&c.in[0], i % n));
		assert_int_equal(
		    test_run(set[k / COUNT(classes)].set, "log_sum_exp", GT_F32, &c, &err), 0);
		EACH(r, c.out[0])
		assert_true(test_get(&c.out[0], r) == test_get(&c.out[0], 0));
		test_release(&c);
	}
}

static void test_nan_is_no_hit(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 2 * sets; k++) {
		int64_t n = k % 2 ? 1030 : 17;
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		classify_stats_make(&c, GT_F32, (kernel_sizes){ 1, n });
		test_put(&c.in[0], 3, 100);
		test_put(&c.in[0], n - 1, NAN);
		test_put(&c.in[1], 0, 3);
		assert_int_equal(test_run(set[k / 2].set, "classify_stats", GT_F32, &c, &err), 0);
		assert_true(test_get(&c.out[0], 1) == 1 && test_get(&c.out[0], 2) == 0);
		assert_true(test_get(&c.out[0], 3) == 0);
		test_release(&c);
	}
}

/* Of a row of which a shard has a NaN, no target is a hit: no rank counts it as one. */
static void test_nan_comes_before_all(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 2 * sets; k++) {
		int64_t n = k % 2 ? 1030 : 17;
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		count_before_make(&c, GT_F32, (kernel_sizes){ 2, n });
		test_put(&c.in[0], n - 1, NAN);
		test_put(&c.in[1], 0, 0);
		assert_int_equal(test_run(set[k / 2].set, "count_before", GT_F32, &c, &err), 0);
		assert_true(test_get(&c.out[0], 0) == INFINITY);
		assert_true(test_get(&c.out[0], 1) == 0);
		test_release(&c);
	}
}

/* A masked target of a later shard comes behind all classes of this one, and no more. */
static void test_all_come_before(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 2 * sets; k++) {
		int64_t n = k % 2 ? 1030 : 17;
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		count_before_make(&c, GT_F32, (kernel_sizes){ 1, n });
		test_put(&c.in[1], 0, (double)n + 2);
		test_put(&c.in[2], 0, -INFINITY);
		assert_int_equal(test_run(set[k / 2].set, "count_before", GT_F32, &c, &err), 0);
		assert_true(test_get(&c.out[0], 0) == (double)n);
		test_release(&c);
	}
}

/* The words for a target that is no class; a device says which one it is before. */
static void check_refused(
    const struct test_set *set, const char *op, struct gt_call *c, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	size_t before;

	assert_int_equal(test_run(set->set, op, GT_F32, c, &err), GT_EFORMAT);
	before = strlen(err.text) > strlen(text) ? strlen(err.text) - strlen(text) : 0;
	assert_string_equal(err.text + before, text);
	assert_string_equal(err.hint, "the data has more classes or tokens than the model");
	if (!strcmp(set->name, "cuda"))
		assert_int_equal(strncmp(err.text, "cuda:0: ", 8), 0);
	else
		assert_int_equal(before, 0);
}

/* Targets from outside are refused by name, before memory is touched. */
static void test_out_of_range(void **state)
{
	static const struct {
		const char *op;
		void (*make)(struct gt_call *, enum gt_dtype, kernel_sizes);
		int input;
		int64_t at, classes;
		int32_t value;
		int variant;
		const char *text;
	} bad[] = {
		{ "cross_entropy", cross_entropy_make, 1, 2, 5, 5, 0,
		    "cross_entropy: target 5 of row 2 is not one of 5 classes" },
		{ "cross_entropy", cross_entropy_make, 1, 0, 1030, INT32_MAX, 0,
		    "cross_entropy: target 2147483647 of row 0 is not one of 1030 classes" },
		{ "cross_entropy_grad", cross_entropy_grad_make, 2, 0, 5, 99, 0,
		    "cross_entropy: target 99 of row 0 is not one of 5 classes" },
		{ "cross_entropy_grad", cross_entropy_grad_make, 2, 2, 1032, 1032, 0,
		    "cross_entropy: target 1032 of row 2 is not one of 1032 classes" },
		{ "pick", pick_make, 1, 2, 5, 8, 0,
		    "cross_entropy: target 8 of row 2 is not one of 8 classes" },
		{ "cross_entropy", cross_entropy_make, 1, 7, 5, 5, MIXED,
		    "cross_entropy: target 5 of row 2 is not one of 5 classes" },
		{ "cross_entropy_grad", cross_entropy_grad_make, 2, 0, 1030, 1030, MIXED,
		    "cross_entropy: target 1030 of row 0 is not one of 1030 classes" },
		{ "pick", pick_make, 1, 1, 5, 8, MIXED,
		    "cross_entropy: target 8 of row 0 is not one of 8 classes" },
		{ "classify_stats", classify_stats_make, 1, 1, 5, 5, 0,
		    "cross_entropy: target 5 of row 1 is not one of 5 classes" },
		{ "classify_stats", classify_stats_make, 1, 1, 1030, 70000, 0,
		    "cross_entropy: target 70000 of row 1 is not one of 1030 classes" },
	};
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t k = 0; k < COUNT(bad) * (size_t)sets; k++) {
		const struct test_set *s = &set[k / COUNT(bad)];
		size_t i = k % COUNT(bad);
		struct gt_call c = { 0 };

		bad[i].make(&c, GT_F32, (kernel_sizes){ 3, bad[i].classes, 0, 0, bad[i].variant });
		((int32_t *)c.in[bad[i].input].data)[bad[i].at] = bad[i].value;
		check_refused(s, bad[i].op, &c, bad[i].text);
		test_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_types_of_16_bits),
		cmocka_unit_test(test_infinite_logits),
		cmocka_unit_test(test_place_of_a_row),
		cmocka_unit_test(test_nan_is_no_hit),
		cmocka_unit_test(test_nan_comes_before_all),
		cmocka_unit_test(test_all_come_before),
		cmocka_unit_test(test_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
