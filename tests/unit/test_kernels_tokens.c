/* test_kernels_tokens.c - embeddings and cached attention against plain loops. */
#include "tests/common/kernel_cases.h"

/* ---- embedding: tokens [B, T] = [d0, d1], rows of d2, a table of d3 rows ---- */

/* Variants: 1 without positions, 2 behind earlier tokens, 3 with places of its own. */
static void embedding_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 5;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[3], d[2]);
	c->in[1] = test_tensor2(GT_I32, d[0], d[1]);
	c->in[2] = test_tensor2(f, d[1] + 2, d[2]);
	test_random(&c->in[0], 101, -1, 1);
	test_random_int(&c->in[1], 102, 0, d[3]);
	test_random(&c->in[2], 103, -1, 1);
	c->in[2].present = d[VARIANT] != 1;
	c->in[3] = test_tensor(GT_I32, 0, NULL);
	c->in[3].present = d[VARIANT] == 2;
	test_put(&c->in[3], 0, 2);
	c->in[4] = test_tensor2(GT_I32, d[0], d[1]);
	c->in[4].present = d[VARIANT] == 3;
	test_random_int(&c->in[4], 104, 0, d[1] + 2);
	c->out[0] = test_tensor3(f, d[0], d[1], d[2]);
}

static void embedding_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]), length = gt_tensor_last(&c->in[1]);
	int64_t past = c->in[3].present ? (int64_t)test_get(&c->in[3], 0) : 0;

	EACH(i, c->out[0])
	{
		int64_t id = (int64_t)test_get(&c->in[1], i / n);
		int64_t place =
		    c->in[4].present ? (int64_t)test_get(&c->in[4], i / n) : past + i / n % length;
		double position = c->in[2].present ? test_get(&c->in[2], place * n + i % n) : 0;

		test_put(&c->out[0], i, test_get(&c->in[0], id * n + i % n) + position);
	}
}

static void embedding_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 3;
	c->outputs = 1;
	c->attrs.embedding.rows = d[3];
	c->in[0] = test_tensor3(f, d[0], d[1], d[2]);
	c->in[1] = test_tensor2(GT_I32, d[0], d[1]);
	c->in[2] = test_tensor2(f, d[3], d[2]);
	test_random(&c->in[0], 101, -1, 1);
	test_random_int(&c->in[1], 102, 0, d[3]);
	test_random(&c->in[2], 103, -1, 1);
	c->in[2].present = d[VARIANT] == 0;
	c->out[0] = test_tensor2(f, d[3], d[2]);
}

static void embedding_grad_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->out[0]);

	EACH(i, c->out[0])
	test_put(&c->out[0], i, c->in[2].present ? test_get(&c->in[2], i) : 0);
	EACH(i, c->in[0])
	{
		int64_t to = (int64_t)test_get(&c->in[1], i / n) * n + i % n;

		test_put(&c->out[0], to, test_get(&c->out[0], to) + test_get(&c->in[0], i));
	}
}

static void position_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 1;
	c->outputs = 1;
	c->attrs.embedding.rows = d[1] + 2;
	c->in[0] = test_tensor3(f, d[0], d[1], d[2]);
	test_random(&c->in[0], 101, -1, 1);
	c->out[0] = test_tensor2(f, d[1] + 2, d[2]);
}

static void position_grad_naive(struct gt_call *c)
{
	int64_t period = gt_tensor_elements(&c->in[0]) / c->in[0].shape[0];

	EACH(i, c->out[0])
	test_put(&c->out[0], i, 0);
	EACH(i, c->in[0])
	test_put(&c->out[0], i % period, test_get(&c->out[0], i % period) + test_get(&c->in[0], i));
}

/* ---- attention_cached: [B, T] = [d0, d1], two heads of d2; the variant is `past`, plus
 * BOUNDED for a window of 3 tokens and a cap of 0.5 ---- */

enum { HEADS = 2, BOUNDED = 100 };

static int64_t past_of(kernel_sizes d)
{
	return d[VARIANT] % BOUNDED;
}

static void attention_cached_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	int64_t capacity = d[1] + past_of(d) + (d[3] > 7 ? 0 : 3);

	c->inputs = 4;
	c->outputs = 1;
	c->attrs.attention.heads = HEADS;
	c->attrs.attention.window = d[VARIANT] >= BOUNDED ? 3 : 0;
	c->attrs.attention.cap = d[VARIANT] >= BOUNDED ? 0.5 : 0;
	c->in[0] = test_tensor3(f, d[0], d[1], 3 * HEADS * d[2]);
	c->in[1] = test_tensor(GT_I32, 0, NULL);
	c->in[2] = test_tensor4(f, d[0], HEADS, capacity, d[2]);
	c->in[3] = test_tensor4(f, d[0], HEADS, capacity, d[2]);
	c->in[2].layout = c->in[3].layout = GT_PLAIN;
	test_random(&c->in[0], 121, -1, 1);
	test_put(&c->in[1], 0, (double)past_of(d));
	test_random(&c->in[2], 122, -1, 1);
	test_random(&c->in[3], 123, -1, 1);
	c->out[0] = test_tensor3(f, d[0], d[1], HEADS * d[2]);
}

/* One token: row [3 C] of one head into y [D], with its own key and value at position `at`. */
static void attend_naive(struct gt_call *c, int64_t row, int64_t head, int64_t cache, int64_t at)
{
	int64_t D = c->in[2].shape[3], C = HEADS * D, q = row * 3 * C + head * D;
	const double cap = c->attrs.attention.cap;
	const int64_t window = c->attrs.attention.window;
	double y[256] = { 0 }, sum = 0;

	for (int64_t d = 0; d < D; d++) {
		test_put(&c->in[2], cache + at * D + d, test_get(&c->in[0], q + C + d));
		test_put(&c->in[3], cache + at * D + d, test_get(&c->in[0], q + 2 * C + d));
	}
	for (int64_t j = window && at >= window ? at - window + 1 : 0; j <= at; j++) {
		double score = 0;

		for (int64_t d = 0; d < D; d++)
			score += test_get(&c->in[0], q + d) *
			         test_get(&c->in[2], cache + j * D + d) / sqrt((double)D);
		score = cap > 0 ? cap * tanh(score / cap) : score;
		sum += exp(score);
		for (int64_t d = 0; d < D; d++)
			y[d] += exp(score) * test_get(&c->in[3], cache + j * D + d);
	}
	for (int64_t d = 0; d < D; d++)
		test_put(&c->out[0], row * C + head * D + d, y[d] / sum);
}

static void attention_cached_naive(struct gt_call *c)
{
	int64_t T = c->in[0].shape[1], past = (int64_t)test_get(&c->in[1], 0);
	int64_t size = c->in[2].shape[2] * c->in[2].shape[3];

	for (int64_t i = 0; i < c->in[0].shape[0] * T * HEADS; i++) {
		int64_t head = i / T % HEADS, b = i / T / HEADS, t = i % T;

		attend_naive(c, b * T + t, head, (b * HEADS + head) * size, past + t);
	}
}

static const struct kernel_case token_cases[] = {
	{ "embedding", embedding_make, embedding_naive, 1e-6, 0, 0, false },
	{ "embedding", embedding_make, embedding_naive, 1e-6, 1, 0, false },
	{ "embedding", embedding_make, embedding_naive, 1e-6, 2, 0, false },
	{ "embedding", embedding_make, embedding_naive, 1e-6, 3, 0, false },
	{ "embedding_grad", embedding_grad_make, embedding_grad_naive, 2e-6, 0, 3, false },
	{ "embedding_grad", embedding_grad_make, embedding_grad_naive, 2e-6, 1, 0, false },
	{ "position_grad", position_grad_make, position_grad_naive, 1e-6, 0, 0, false },
};

static const struct kernel_case attention_cases[] = {
	{ "attention_cached", attention_cached_make, attention_cached_naive, 2e-6, 0, 0, true },
	{ "attention_cached", attention_cached_make, attention_cached_naive, 2e-6, 1, 0, false },
	{ "attention_cached", attention_cached_make, attention_cached_naive, 2e-6, 38, 0, false },
	{ "attention_cached", attention_cached_make, attention_cached_naive, 2e-6, 100, 0, false },
	{ "attention_cached", attention_cached_make, attention_cached_naive, 2e-6, 138, 0, false },
};

static void test_embedding(void **state)
{
	(void)state;
	kernel_check(token_cases, COUNT(token_cases), KERNEL_TOKENS);
}

static void test_attention_cached(void **state)
{
	(void)state;
	kernel_check(attention_cases, COUNT(attention_cases), KERNEL_TOKENS);
}

static void test_tables_are_covered(void **state)
{
	(void)state;
	kernel_check_covered(token_cases, COUNT(token_cases), NULL);
	kernel_check_covered(attention_cases, COUNT(attention_cases), NULL);
}

/* Ids from outside are refused by name, before memory is touched. */
static void test_out_of_range(void **state)
{
	static const struct {
		const char *op;
		void (*make)(struct gt_call *, enum gt_dtype, kernel_sizes);
		int input;
		int64_t at;
		int32_t value;
		const char *text;
	} bad[] = {
		{ "embedding", embedding_make, 1, 7, 7,
		    "embedding: id 7 at [1, 2] is outside the table of 7 rows" },
		{ "embedding", embedding_make, 1, 0, -1,
		    "embedding: id -1 at [0, 0] is outside the table of 7 rows" },
		{ "embedding", embedding_make, 3, 0, 3,
		    "embedding: 5 tokens behind 3 others are more than 7 positions" },
		{ "embedding", embedding_make, 3, 0, -1,
		    "embedding: 5 tokens behind -1 others are more than 7 positions" },
		{ "attention_cached", attention_cached_make, 1, 0, 6,
		    "attention: 5 tokens behind 6 others do not fit into a cache of 10" },
		{ "attention_cached", attention_cached_make, 1, 0, -1,
		    "attention: 5 tokens behind -1 others do not fit into a cache of 10" },
		{ "embedding_grad", embedding_grad_make, 1, 14, INT32_MAX,
		    "embedding: id 2147483647 at [2, 4] is outside the table of 7 rows" },
	};
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t i = 0; i < COUNT(bad) * (size_t)sets; i++) {
		const struct test_set *s = &set[i / COUNT(bad)];
		struct gt_call c = { 0 };
		size_t k = i % COUNT(bad);

		bad[k].make(&c, GT_F32, (kernel_sizes){ 3, 5, 17, 7, 2 });
		((int32_t *)c.in[bad[k].input].data)[bad[k].at] = bad[k].value;
		if (!test_lacks(s, bad[k].op, GT_F32, &c))
			test_refuses(s, bad[k].op, GT_F32, &c, bad[k].text);
		test_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_embedding),
		cmocka_unit_test(test_attention_cached),
		cmocka_unit_test(test_tables_are_covered),
		cmocka_unit_test(test_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
