/* test_kernels_rope.c - rotary positions and their gradient against plain loops in float64. */
#include "tests/common/kernel_cases.h"

enum { HEADS = 4, KV_HEADS = 2, BATCH = 2, PAST = 3 };

/* Of rows and columns: as many tokens, and heads of some columns, an even number. */
static int64_t tokens_of(kernel_sizes d)
{
	return (d[0] + BATCH - 1) / BATCH;
}

static int64_t head_of(kernel_sizes d)
{
	return 2 * ((d[1] + 15) / 16);
}

static struct gt_tensor random_heads(enum gt_dtype f, kernel_sizes d, int heads, uint32_t seed)
{
	struct gt_tensor t = test_tensor3(f, BATCH, tokens_of(d), heads * head_of(d));

	test_random(&t, seed, -1, 1);
	return t;
}

static struct gt_rope_angles angles;

/* Variants 2 to 4: angles of their own for all pairs of columns of a head but one. */
static void set_attrs(struct gt_call *c, kernel_sizes d)
{
	c->attrs.rope.heads = HEADS;
	c->attrs.rope.kv_heads = KV_HEADS;
	c->attrs.rope.theta = 100;
	if (d[VARIANT] < 2)
		return;
	angles = (struct gt_rope_angles){ .scale = 1.5, .pairs = head_of(d) / 2 - 1 };
	for (int64_t j = 0; j < angles.pairs; j++)
		angles.frequency[j] = 1 / (1 + (float)j);
	c->attrs.rope.angles = &angles;
}

/* The place of row r of the batch in its document, where there are documents: 0, 1, 2, 0, ... */
static int64_t place_of(int64_t row, int64_t tokens)
{
	return row % tokens % 3;
}

/* Variant 4: the rows of the batch are documents of three tokens. */
static struct gt_tensor places(kernel_sizes d)
{
	struct gt_tensor t = test_tensor2(GT_I32, BATCH, tokens_of(d));

	t.present = d[VARIANT] == 4;
	EACH(i, t)
	test_put(&t, i, (double)place_of(i, tokens_of(d)));
	return t;
}

/* Variants 1 and 3: behind earlier tokens. */
static void rope_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	set_attrs(c, d);
	c->inputs = 5;
	c->outputs = 1;
	c->in[0] = random_heads(f, d, HEADS, 71);
	c->in[1] = random_heads(f, d, KV_HEADS, 72);
	c->in[2] = random_heads(f, d, KV_HEADS, 73);
	c->in[3] = test_tensor1(GT_I32, 1);
	c->in[3].present = d[VARIANT] % 2;
	test_put(&c->in[3], 0, PAST);
	c->in[4] = places(d);
	c->out[0] = random_heads(f, d, HEADS + 2 * KV_HEADS, 74);
}

/* Column j of a row of heads, rotated by the row's position; `sign` -1: back. */
static double rotated(
    const struct gt_call *c, const struct gt_tensor *x, int64_t row, int64_t j, int sign)
{
	const bool back = c->inputs == 2;
	const struct gt_tensor *documents = &c->in[back ? 1 : 4];
	int64_t D = gt_tensor_last(&c->in[0]) / (back ? HEADS + 2 * KV_HEADS : HEADS);
	const struct gt_rope_angles *own_angles = c->attrs.rope.angles;
	int64_t columns = gt_tensor_last(x), half = own_angles ? own_angles->pairs : D / 2;
	int64_t place = half ? j % D % half : 0;
	int64_t past = !back && c->in[3].present ? PAST : 0;
	int64_t t = documents->present ? place_of(row, x->shape[1]) : row % x->shape[1];
	double position = (double)(past + t);
	double frequency =
	    own_angles ? own_angles->frequency[place] : pow(100, -(double)place / (double)half);
	double a = sign * position * frequency, own = test_get(x, row * columns + j), other;
	bool first = j % D < half;

	if (j % D >= 2 * half)
		return own;
	other = test_get(x, row * columns + j + (first ? half : -half));
	return (own_angles ? own_angles->scale : 1) *
	       (own * cos(a) + (first ? -other : other) * sin(a));
}

static void rope_naive(struct gt_call *c)
{
	int64_t q = gt_tensor_last(&c->in[0]), k = gt_tensor_last(&c->in[1]), wide = q + 2 * k;

	EACH(i, c->out[0])
	{
		int64_t row = i / wide, j = i % wide;
		double y = j < q       ? rotated(c, &c->in[0], row, j, 1)
		           : j < q + k ? rotated(c, &c->in[1], row, j - q, 1)
		                       : test_get(&c->in[2], row * k + j - q - k);

		test_put(&c->out[0], i, y);
	}
}

static void rope_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	set_attrs(c, d);
	c->inputs = 2;
	c->outputs = 3;
	c->in[0] = random_heads(f, d, HEADS + 2 * KV_HEADS, 75);
	c->in[1] = places(d);
	for (int i = 0; i < 3; i++)
		c->out[i] = random_heads(f, d, i ? KV_HEADS : HEADS, (uint32_t)(76 + i));
}

static void rope_grad_naive(struct gt_call *c)
{
	int64_t wide = gt_tensor_last(&c->in[0]), before = 0;

	for (int which = 0; which < 3; which++) {
		int64_t columns = gt_tensor_last(&c->out[which]);

		EACH(i, c->out[which])
		{
			int64_t row = i / columns, j = before + i % columns;

			test_put(&c->out[which], i,
			    which < 2 ? rotated(c, &c->in[0], row, j, -1)
			              : test_get(&c->in[0], row * wide + j));
		}
		before += columns;
	}
}

/* Angles reach 154 here; rounded to float32 they are off by up to 8e-6. */
static const struct kernel_case cases[] = {
	{ "rope", rope_make, rope_naive, 2e-5, 0, 0, true },
	{ "rope", rope_make, rope_naive, 2e-5, 1, 0, true },
	{ "rope", rope_make, rope_naive, 3e-5, 2, 0, true },
	{ "rope", rope_make, rope_naive, 3e-5, 3, 0, true },
	{ "rope", rope_make, rope_naive, 2e-5, 4, 0, true },
	{ "rope_grad", rope_grad_make, rope_grad_naive, 2e-5, 0, 0, true },
	{ "rope_grad", rope_grad_make, rope_grad_naive, 3e-5, 2, 0, true },
	{ "rope_grad", rope_grad_make, rope_grad_naive, 2e-5, 4, 0, true },
};

static void test_rope(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rope),
		cmocka_unit_test(test_covered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
