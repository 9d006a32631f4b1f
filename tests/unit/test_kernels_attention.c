/* test_kernels_attention.c - attention and its gradient against naive loops in float64. */
#include "tests/common/calls.h"
#include "tests/common/device.h"

/* Uniform in [-1, 1). */
static void fill(struct gt_tensor *t, uint32_t seed)
{
	test_random(t, seed, -1, 1);
}

struct attention_case {
	int64_t b, t, heads, d;
	double p;
	int64_t kv_heads; /* 0: as many as heads */
	bool full;
	int64_t document; /* documents have so many tokens, 1, and so many, in turn; 0: none */
};

static int64_t group_of(const struct attention_case *c)
{
	return c->kv_heads ? c->heads / c->kv_heads : 1;
}

/* Columns of all heads' queries, keys and values. */
static int64_t columns(const struct attention_case *c)
{
	return (c->heads + 2 * c->heads / group_of(c)) * c->d;
}

static const struct attention_case attention_cases[] = { { 2, 1, 1, 8, 0, 0, false, 0 },
	{ 1, 2, 3, 33, 0.3, 0, false, 0 }, { 2, 63, 2, 32, 0, 0, false, 0 },
	{ 1, 64, 2, 64, 0.2, 0, false, 0 }, { 1, 65, 1, 64, 0, 0, false, 0 },
	{ 1, 130, 2, 33, 0.1, 0, false, 0 }, { 3, 17, 1, 3, 0.5, 0, false, 0 },
	{ 1, 65, 2, 8, 0.2, 0, false, 0 }, { 1, 130, 1, 64, 0, 0, false, 0 },
	{ 1, 40, 1, 128, 0, 0, false, 0 }, { 2, 1, 1, 8, 0, 0, true, 0 },
	{ 1, 65, 2, 33, 0.2, 0, true, 0 }, { 2, 63, 1, 64, 0, 0, true, 0 },
	{ 1, 130, 2, 8, 0.1, 0, true, 0 }, { 2, 33, 6, 16, 0.2, 2, false, 0 },
	{ 1, 70, 4, 40, 0, 1, true, 0 }, { 1, 200, 2, 64, 0, 1, false, 0 },
	{ 1, 150, 2, 128, 0.1, 1, false, 0 }, { 1, 70, 1, 96, 0, 0, true, 0 },
	{ 1, 200, 2, 64, 0, 0, true, 0 }, { 1, 70, 2, 72, 0.2, 0, false, 0 },
	{ 1, 130, 4, 104, 0.1, 2, true, 0 }, { 2, 63, 2, 32, 0, 0, false, 10 },
	{ 1, 200, 4, 16, 0.1, 2, false, 77 }, { 1, 150, 2, 33, 0, 1, false, 40 },
	{ 1, 130, 1, 64, 0, 0, false, 3 }, { 1, 65, 1, 8, 0.2, 0, false, 200 } };

/* The place of token t in its document. */
static int64_t place_of(const struct attention_case *c, int64_t t)
{
	if (!c->document)
		return t;
	t %= c->document + 1;
	return t < c->document ? t : 0;
}

static struct gt_tensor rng_tensor(void)
{
	struct gt_tensor t = test_tensor1(GT_I64, GT_RNG_FIELDS);
	static const int64_t fields[] = { 12345, 7, 3, 2 };

	memcpy(t.data, fields, sizeof(fields));
	return t;
}

static struct gt_call attention_call(enum gt_dtype dtype, const struct attention_case *c)
{
	struct gt_call call = { .inputs = 3, .outputs = 2 };

	call.attrs.attention.heads = (int)c->heads;
	call.attrs.attention.p = c->p;
	call.attrs.attention.stream = 9;
	call.attrs.attention.kv_heads = (int)c->kv_heads;
	call.attrs.attention.full = c->full;
	call.in[0] = test_tensor3(dtype, c->b, c->t, columns(c));
	call.in[1] = rng_tensor();
	call.in[1].present = c->p > 0;
	call.in[2] = test_tensor2(GT_I32, c->b, c->t);
	call.in[2].present = c->document > 0;
	for (int64_t i = 0; i < c->b * c->t; i++)
		test_put(&call.in[2], i, (double)place_of(c, i % c->t));
	call.out[0] = test_tensor3(dtype, c->b, c->t, c->heads * c->d);
	call.out[1] = test_tensor3(gt_dtype_wide(dtype), c->b, c->heads, c->t);
	fill(&call.in[0], 1);
	for (int64_t i = 0; i < gt_tensor_elements(&call.in[0]); i++)
		test_put(&call.in[0], i, 2 * test_get(&call.in[0], i));
	return call;
}

/* The gradient's call for a forward one that has run, in the same memory. */
static struct gt_call attention_grad_call(const struct gt_call *forward)
{
	const struct gt_tensor *y = &forward->out[0], *qkv = &forward->in[0];
	struct gt_call call = { .attrs = forward->attrs, .inputs = 6, .outputs = 1 };

	call.in[0] = test_tensor3(y->dtype, y->shape[0], y->shape[1], y->shape[2]);
	fill(&call.in[0], 2);
	call.in[1] = *qkv;
	call.in[2] = *y;
	call.in[3] = forward->out[1];
	call.in[4] = forward->in[1];
	call.in[5] = forward->in[2];
	call.out[0] = test_tensor3(qkv->dtype, qkv->shape[0], qkv->shape[1], qkv->shape[2]);
	return call;
}

/* The factor of dropout for probability (b, head, i, j), by the op's definition. */
static double drop_factor(const struct gt_call *call, const struct attention_case *c, int64_t b,
    int64_t head, int64_t i, int64_t j)
{
	const int64_t *f = call->in[1].data;
	uint64_t e =
	    (uint64_t)((f[GT_RNG_FIRST] + b * f[GT_RNG_STRIDE]) * (c->heads * c->t * c->t) +
	               (head * c->t + i) * c->t + j);
	const uint32_t counter[4] = { (uint32_t)(e / 4), (uint32_t)(e / 4 >> 32),
		call->attrs.attention.stream, (uint32_t)f[GT_RNG_STEP] };
	uint32_t out[4];

	if (c->p == 0)
		return 1;
	gt_philox((uint64_t)f[GT_RNG_SEED], counter, out);
	return gt_philox_float(out[e % 4]) < c->p ? 0 : 1 / (1 - c->p);
}

static void attention_naive(const struct gt_call *call, const struct attention_case *c,
    struct gt_tensor *y, struct gt_tensor *lse)
{
	int64_t C = c->heads * c->d, W = columns(c);
	double score[256];

	for (int64_t n = 0; n < c->b * c->heads * c->t; n++) {
		int64_t i = n % c->t, head = n / c->t % c->heads, b = n / c->t / c->heads;
		int64_t q = (b * c->t + i) * W + head * c->d, seen = c->full ? c->t : i + 1;
		int64_t key = C + head / group_of(c) * c->d;
		int64_t value = key + (W - C) / 2;
		int64_t first = c->document ? i - place_of(c, i) : 0;
		double sum = 0;

		for (int64_t j = first; j < seen; j++) {
			int64_t k = (b * c->t + j) * W + key;

			score[j] = 0;
			for (int64_t d = 0; d < c->d; d++)
				score[j] +=
				    test_get(&call->in[0], q + d) * test_get(&call->in[0], k + d);
			score[j] /= sqrt((double)c->d);
			sum += exp(score[j]);
		}
		test_put(lse, n, log(sum));
		for (int64_t d = 0; d < c->d; d++) {
			double out = 0;

			for (int64_t j = first; j < seen; j++)
				out += exp(score[j]) / sum * drop_factor(call, c, b, head, i, j) *
				       test_get(&call->in[0], (b * c->t + j) * W + value + d);
			test_put(y, (b * c->t + i) * C + head * c->d + d, out);
		}
	}
}

/* Forward and gradient of a case by one instruction set; free them with attention_free(). */
static void attention_run(const struct gt_cpu_set *set, enum gt_dtype dtype,
    const struct attention_case *c, struct gt_call *forward, struct gt_call *gradient)
{
	*forward = attention_call(dtype, c);
	test_launch(set, "attention", dtype, forward);
	*gradient = attention_grad_call(forward);
	test_launch(set, "attention_grad", dtype, gradient);
}

static void attention_free(struct gt_call *forward, struct gt_call *gradient)
{
	free(gradient->in[0].data);
	free(gradient->out[0].data);
	test_release(forward);
}

/* Float64 of each set against the naive loops; float32 against float64, forward and gradient. */
static void test_attention(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (size_t n = 0; n < sizeof(attention_cases) / sizeof(attention_cases[0]); n++) {
			const struct attention_case *c = &attention_cases[n];
			struct gt_call f64, g64, f32, g32;
			struct gt_tensor y, lse;

			if (!test_takes_row(2, n))
				continue;
			y = test_tensor3(GT_F64, c->b, c->t, c->heads * c->d);
			lse = test_tensor3(GT_F64, c->b, c->heads, c->t);
			attention_run(set[s].set, GT_F64, c, &f64, &g64);
			attention_run(set[s].set, GT_F32, c, &f32, &g32);
			attention_naive(&f64, c, &y, &lse);
			assert_near(
			    &f64.out[0], &y, 1e-12, "%s f64 y, case %d\n", set[s].name, (int)n);
			assert_near(
			    &f64.out[1], &lse, 1e-12, "%s f64 lse, case %d\n", set[s].name, (int)n);
			assert_near(
			    &f32.out[0], &y, 3e-6, "%s f32 y, case %d\n", set[s].name, (int)n);
			assert_near(
			    &f32.out[1], &lse, 3e-6, "%s f32 lse, case %d\n", set[s].name, (int)n);
			assert_near(&g32.out[0], &g64.out[0], 1e-5, "%s dqkv, case %d\n",
			    set[s].name, (int)n);
			attention_free(&f64, &g64);
			attention_free(&f32, &g32);
			free(y.data);
			free(lse.data);
		}
}

/* Copy the rows of x but for `count` rows from `first` on to `out`. There is one sample. */
static void copy_others(double *out, const struct gt_tensor *x, const struct attention_case *c,
    int64_t first, int64_t count)
{
	int64_t columns = gt_tensor_last(x), n = 0;

	for (int64_t t = 0; t < c->t; t++)
		for (int64_t k = 0; k < columns && (t < first || t >= first + count); k++)
			out[n++] = test_get(x, t * columns + k);
}

/* Other tokens and gradients in one document leave all bits of its neighbours. */
static void test_neighbours(void **state)
{
	const struct attention_case c = { 1, 150, 2, 33, 0.2, 1, false, 37 };
	const int64_t first = 38, count = 37, size = c.t * columns(&c);
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++) {
		double *rows[2][2];
		struct gt_call f, g;

		for (int changed = 0; changed < 2; changed++) {
			f = attention_call(GT_F32, &c);
			for (int64_t i = 0; changed && i < count * columns(&c); i++)
				test_put(&f.in[0], first * columns(&c) + i, 3 * sin((double)i));
			test_launch(set[s].set, "attention", GT_F32, &f);
			g = attention_grad_call(&f);
			for (int64_t i = 0; changed && i < count * c.heads * c.d; i++)
				test_put(&g.in[0], first * c.heads * c.d + i, cos((double)i));
			test_launch(set[s].set, "attention_grad", GT_F32, &g);
			for (int k = 0; k < 2; k++) {
				rows[changed][k] = calloc((size_t)size, sizeof(double));
				assert_non_null(rows[changed][k]);
				copy_others(
				    rows[changed][k], k ? &g.out[0] : &f.out[0], &c, first, count);
			}
			attention_free(&f, &g);
		}
		for (int k = 0; k < 2; k++) {
			assert_memory_equal(rows[0][k], rows[1][k], (size_t)size * sizeof(double));
			free(rows[0][k]);
			free(rows[1][k]);
		}
	}
}

/* The largest of a case's scores, all its terms without signs. */
static double largest_score(const struct gt_call *call, const struct attention_case *c)
{
	int64_t W = columns(c);
	double largest = 0;

	for (int64_t n = 0; n < c->b * c->heads * c->t * c->t; n++) {
		int64_t j = n % c->t, i = n / c->t % c->t, head = n / c->t / c->t % c->heads;
		int64_t b = n / c->t / c->t / c->heads;
		int64_t q = (b * c->t + i) * W + head * c->d;
		int64_t k = (b * c->t + j) * W + c->heads * c->d + head / group_of(c) * c->d;
		double sum = 0;

		for (int64_t d = 0; d < c->d; d++)
			sum += fabs(test_get(&call->in[0], q + d) * test_get(&call->in[0], k + d));
		largest = fmax(largest, sum / sqrt((double)c->d));
	}
	return largest;
}

/*
 * Factors rounded to TF32, by 2^-11 of themselves at most; so a score s is off by e = 2^-10 of the
 * sum of its terms without signs, and log(sum(exp(s))) by e. A probability is off by the factor
 * exp(2 e); it is a factor itself, as are values, all below 2: so y is off by
 * 2 (exp(2 e) - 1 + 2^-10) / (1 - p). 2^-20 is for float32 and products of errors. For the
 * gradient nothing is derived: all cases keep 2^-8 of its largest number. A CPU takes no notice of
 * the mark.
 */
static void check_tf32(const struct test_set *set, const struct attention_case *c)
{
	struct gt_call f64, g64, f32, g32;
	double e, off, off_lse, off_grad;

	attention_run(set->set, GT_F64, c, &f64, &g64);
	f32 = attention_call(GT_F32, c);
	f32.attrs.attention.tf32 = true;
	test_launch(set->set, "attention", GT_F32, &f32);
	g32 = attention_grad_call(&f32);
	test_launch(set->set, "attention_grad", GT_F32, &g32);
	e = 0x1p-10 * largest_score(&f64, c) + 0x1p-20;
	off = off_lse = 0;
	for (int64_t i = 0; i < gt_tensor_elements(&f64.out[0]); i++)
		off = fmax(off, fabs(test_get(&f64.out[0], i) - test_get(&f32.out[0], i)));
	for (int64_t i = 0; i < gt_tensor_elements(&f64.out[1]); i++)
		off_lse = fmax(off_lse, fabs(test_get(&f64.out[1], i) - test_get(&f32.out[1], i)));
	off_grad = test_distance(&g32.out[0], &g64.out[0]);
	if (!(off <= 2 * (exp(2 * e) - 1 + 0x1p-10) / (1 - c->p)) || !(off_lse <= e) ||
	    !(off_grad <= 0x1p-8))
		fail_msg("y is off by %g, lse by %g, dqkv by %g", off, off_lse, off_grad);
	if (off < 1e-4 || off_grad < 1e-4)
		fail_msg("nothing was rounded: y is off by %g, dqkv by %g", off, off_grad);
	attention_free(&f64, &g64);
	attention_free(&f32, &g32);
}

static void test_attention_tf32(void **state)
{
	struct test_set set[3];

	(void)state;
	test_sets(set);
	if (test_device_is_cpu())
		return;
	for (size_t n = 0; n < sizeof(attention_cases) / sizeof(attention_cases[0]); n++)
		if (test_takes_row(2, n + 1))
			check_tf32(&set[0], &attention_cases[n]);
}

/* Copy the elements of a tensor of another type. */
static void copy_elements(struct gt_tensor *to, const struct gt_tensor *from)
{
	for (int64_t i = 0; i < gt_tensor_elements(to); i++)
		test_put(to, i, test_get(from, i));
}

/* A case of 16 bits against float64 with the same inputs. Probabilities, gradients of scores and
 * results are rounded to 16 bits: off[] for y and dqkv, relative to the largest number. */
static void check_16_bits(const struct gt_cpu_set *set, const struct attention_case *c,
    enum gt_dtype dtype, const double off[2])
{
	struct gt_call half, half_grad, f64 = attention_call(GT_F64, c), g64;
	double y, lse, dqkv;

	attention_run(set, dtype, c, &half, &half_grad);
	copy_elements(&f64.in[0], &half.in[0]);
	test_launch(set, "attention", GT_F64, &f64);
	g64 = attention_grad_call(&f64);
	copy_elements(&g64.in[0], &half_grad.in[0]);
	test_launch(set, "attention_grad", GT_F64, &g64);
	y = test_distance(&half.out[0], &f64.out[0]);
	lse = test_distance(&half.out[1], &f64.out[1]);
	dqkv = test_distance(&half_grad.out[0], &g64.out[0]);
	if (!(y <= off[0]) || !(lse <= 1e-5) || !(dqkv <= off[1]))
		fail_msg("%s, %d tokens, heads of %d: y is off by %g, lse by %g, dqkv by %g",
		    gt_dtype_name(dtype), (int)c->t, (int)c->d, y, lse, dqkv);
	attention_free(&half, &half_grad);
	attention_free(&f64, &g64);
}

/* GPUs have their own kernels for 16-bit types, and Hopper GPUs have others for calls without
 * dropout. 330 tokens are more tiles than the latter hold in shared memory. */
static void test_attention_16_bits(void **state)
{
	static const struct attention_case cases[] = { { 1, 330, 1, 64, 0, 0, false, 0 },
		{ 1, 200, 2, 64, 0, 1, true, 0 }, { 2, 65, 1, 64, 0, 0, false, 0 },
		{ 1, 70, 4, 40, 0, 1, true, 0 }, { 1, 130, 1, 128, 0, 0, false, 0 },
		{ 1, 70, 2, 72, 0.2, 0, false, 0 }, { 1, 64, 2, 64, 0.2, 0, false, 0 } };
	static const double bf16[] = { 1e-2, 1e-2 }, f16[] = { 2e-3, 2e-3 };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	if (test_device_is_cpu())
		return;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		if (test_takes_row(2, n))
			check_16_bits(set[0].set, &cases[n], GT_BF16, bf16);
		if (test_takes_row(2, n + 1))
			check_16_bits(set[0].set, &cases[n], GT_F16, f16);
	}
}

/* Sum of dy * y of a forward call. */
static double attention_objective(struct gt_call *call, const struct attention_case *c,
    const struct gt_tensor *dy, struct gt_tensor *y, struct gt_tensor *lse)
{
	double sum = 0;

	attention_naive(call, c, y, lse);
	for (int64_t i = 0; i < gt_tensor_elements(y); i++)
		sum += test_get(y, i) * test_get(dy, i);
	return sum;
}

/* Central differences of the naive forward, dropout included, at some 180 elements of qkv. Step
 * 1e-5: the error of the difference is about 1e-10 of the third derivative and 1e-16 / 1e-5 of
 * rounding. */
static void test_attention_differences(void **state)
{
	static const struct attention_case cases[] = { { 2, 5, 2, 3, 0, 0, false, 0 },
		{ 1, 19, 2, 8, 0.3, 0, false, 0 }, { 1, 41, 1, 4, 0.1, 0, false, 0 },
		{ 1, 19, 2, 8, 0.3, 0, true, 0 }, { 2, 11, 4, 3, 0.2, 2, false, 0 },
		{ 1, 41, 1, 4, 0.1, 0, false, 15 }, { 2, 75, 4, 3, 0, 2, false, 36 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
			const struct attention_case *c = &cases[n];
			struct gt_call f, g;
			struct gt_tensor y = test_tensor3(GT_F64, c->b, c->t, c->heads * c->d);
			struct gt_tensor lse = test_tensor3(GT_F64, c->b, c->heads, c->t);
			int64_t count;

			attention_run(set[s].set, GT_F64, c, &f, &g);
			count = gt_tensor_elements(&f.in[0]);
			for (int64_t e = 0; e < count; e += count / 180 + 1) {
				double x = test_get(&f.in[0], e), up, down;

				test_put(&f.in[0], e, x + 1e-5);
				up = attention_objective(&f, c, &g.in[0], &y, &lse);
				test_put(&f.in[0], e, x - 1e-5);
				down = attention_objective(&f, c, &g.in[0], &y, &lse);
				test_put(&f.in[0], e, x);
				if (!(fabs((up - down) / 2e-5 - test_get(&g.out[0], e)) < 1e-8))
					fail_msg(
					    "%s case %d element %d: %g by differences, %g by the kernel",
					    set[s].name, (int)n, (int)e, (up - down) / 2e-5,
					    test_get(&g.out[0], e));
			}
			attention_free(&f, &g);
			free(y.data);
			free(lse.data);
		}
}

/*
 * The share dropped: with v = 1 and q = 0, y_i is kept / (i + 1) / (1 - p), so that the sum of (i +
 * 1) y_i counts the kept ones.
 */
static void test_attention_dropout_share(void **state)
{
	static const struct attention_case c = { 2, 130, 2, 8, 0.25, 0, false, 0 };
	struct gt_call call = attention_call(GT_F32, &c);
	int64_t C = c.heads * c.d, pairs = c.b * c.heads * c.t * (c.t + 1) / 2;
	double kept = 0, all = (double)pairs;
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (int64_t i = 0; i < gt_tensor_elements(&call.in[0]); i++)
		test_put(&call.in[0], i, i % (3 * C) >= 2 * C);
	test_launch(set[0].set, "attention", GT_F32, &call);
	for (int64_t n = 0; n < c.b * c.t * c.heads; n++)
		kept +=
		    test_get(&call.out[0], n * c.d) * (double)(n / c.heads % c.t + 1) * (1 - c.p);
	/* five standard deviations of a binomial count */
	assert_true(fabs(kept - all * (1 - c.p)) < 5 * sqrt(all * c.p * (1 - c.p)));
	test_release(&call);
}

/* The same bits whatever number of threads. */
static void test_attention_threads(void **state)
{
	static const struct attention_case c = { 3, 65, 3, 32, 0.1, 0, false, 0 };
	struct gt_call f[2], g[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		omp_set_num_threads(i ? 3 : 1);
		attention_run(&gt_cpu_set_base, GT_F32, &c, &f[i], &g[i]);
	}
	assert_memory_equal(f[0].out[0].data, f[1].out[0].data,
	    (size_t)gt_tensor_elements(&f[0].out[0]) * sizeof(float));
	assert_memory_equal(g[0].out[0].data, g[1].out[0].data,
	    (size_t)gt_tensor_elements(&g[0].out[0]) * sizeof(float));
	for (int i = 0; i < 2; i++)
		attention_free(&f[i], &g[i]);
}

/* A NaN in a query must show in its row, and only there. */
static void test_attention_nan(void **state)
{
	static const struct attention_case c = { 1, 20, 1, 8, 0, 0, false, 0 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++) {
		struct gt_call call = attention_call(GT_F32, &c);

		test_put(&call.in[0], 5 * 24, NAN);
		test_launch(set[s].set, "attention", GT_F32, &call);
		for (int64_t i = 0; i < c.t; i++)
			assert_int_equal(isnan(test_get(&call.out[0], i * 8)), i == 5);
		test_release(&call);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_attention_tf32),
		cmocka_unit_test(test_attention_16_bits),
		cmocka_unit_test(test_attention_differences),
		cmocka_unit_test(test_attention_dropout_share),
		cmocka_unit_test(test_attention_threads),
		cmocka_unit_test(test_attention_nan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
