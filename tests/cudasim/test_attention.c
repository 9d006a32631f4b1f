/* test_attention.c - attention of simulated GPUs in all types, beside the CPU's in float64. */
#include "tests/common/calls.h"
#include "tests/common/device.h"
#include "tests/cudasim/cudasim.h"

enum { ORDERS = 2 };
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint64_t orders[ORDERS] = { 2, 77 };

/* `all` heads in the whole layer of which these are those from `first` on; 0: these are all. */
struct attention_case {
	int64_t b, t, heads, d;
	double p;
	int all, first;
	int kv_heads; /* 0: as many as heads */
	bool full;
	int document; /* documents have so many tokens, 1, and so many, in turn; 0: none */
};

/* One element; tiles of 16, 32 and 64 and blocks of 32 and 64 that are full, one more and one less;
 * heads of more than one chunk, of odd sizes, and at a multiple of 8 that is none of 16. */
static const struct attention_case cases[] = { { 1, 1, 1, 1, 0, 0, 0, 0, false, 0 },
	{ 2, 33, 2, 24, 0.2, 0, 0, 0, false, 0 }, { 1, 65, 1, 8, 0, 0, 0, 0, false, 0 },
	{ 1, 129, 2, 16, 0.1, 5, 2, 0, false, 0 }, { 1, 64, 1, 72, 0, 0, 0, 0, false, 0 },
	{ 1, 70, 1, 128, 0, 0, 0, 0, false, 0 }, { 2, 35, 1, 131, 0.3, 0, 0, 0, false, 0 },
	{ 1, 40, 1, 256, 0, 0, 0, 0, false, 0 }, { 2, 33, 2, 24, 0.2, 0, 0, 0, true, 0 },
	{ 1, 129, 1, 16, 0, 0, 0, 0, true, 0 }, { 1, 65, 4, 8, 0.1, 0, 0, 2, false, 0 },
	{ 2, 35, 3, 131, 0, 0, 0, 1, false, 0 }, { 2, 97, 2, 24, 0.2, 0, 0, 1, false, 30 },
	{ 1, 129, 1, 72, 0, 0, 0, 0, false, 70 }, { 1, 65, 1, 8, 0, 0, 0, 0, false, 2 } };

/* Columns of all heads' queries, keys and values. */
static int64_t columns(const struct attention_case *c)
{
	return (c->heads + 2 * (c->kv_heads ? c->kv_heads : c->heads)) * c->d;
}

struct type {
	enum gt_dtype dtype;
	double tolerance, gradient; /* of the largest number */
};

/* In 16 bits probabilities and their gradients are rounded before they are multiplied: 2^-9 and
 * 2^-12, and results once more. The gradient takes the rounded y, too. */
static const struct type types[] = { { GT_F64, 1e-13, 1e-12 }, { GT_F32, 2e-6, 1e-5 },
	{ GT_BF16, 6e-3, 1.2e-2 }, { GT_F16, 8e-4, 1.5e-3 } };

static size_t bytes_of(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype);
}

/* The numbers of x in another type; those of 16 bits are themselves in float64. */
static struct gt_tensor in_type(enum gt_dtype dtype, const struct gt_tensor *x)
{
	struct gt_tensor t = test_tensor(dtype, x->ndim, x->shape);

	t.layout = x->layout;
	for (int64_t i = 0; i < gt_tensor_elements(x); i++)
		test_put(&t, i, test_get(x, i));
	return t;
}

static struct gt_tensor rng_tensor(bool present)
{
	static const int64_t fields[] = { 99, 3, ((int64_t)1 << 40) + 5, 3 };
	struct gt_tensor t = test_tensor1(GT_I64, GT_RNG_FIELDS);

	memcpy(t.data, fields, sizeof(fields));
	t.present = present;
	return t;
}

/* ---- attention and its gradient ---- */

/* With outputs that are NaN; qkv as given, which becomes the call's. */
static struct gt_call forward_call(const struct attention_case *c, const struct gt_tensor *qkv)
{
	struct gt_call call = { .inputs = 3, .outputs = 2 };

	call.attrs.attention.heads = (int)c->heads;
	call.attrs.attention.p = c->p;
	call.attrs.attention.stream = 4;
	call.attrs.attention.all_heads = c->all;
	call.attrs.attention.first_head = c->first;
	call.attrs.attention.kv_heads = c->kv_heads;
	call.attrs.attention.full = c->full;
	call.in[0] = *qkv;
	call.in[1] = rng_tensor(c->p > 0);
	call.in[2] = test_tensor2(GT_I32, c->b, c->t);
	call.in[2].present = c->document;
	for (int64_t i = 0; c->document && i < c->b * c->t; i++)
		test_put(&call.in[2], i, (double)(i % c->t % (c->document + 1) % c->document));
	call.out[0] = test_tensor3(qkv->dtype, c->b, c->t, c->heads * c->d);
	call.out[1] = test_tensor3(qkv->dtype == GT_F64 ? GT_F64 : GT_F32, c->b, c->heads, c->t);
	return call;
}

/* In the memory of a forward call that has run. */
static struct gt_call grad_call(const struct gt_call *f, const struct gt_tensor *dy)
{
	struct gt_call call = { .attrs = f->attrs, .inputs = 6, .outputs = 1 };

	call.in[0] = *dy;
	call.in[1] = f->in[0];
	call.in[2] = f->out[0];
	call.in[3] = f->out[1];
	call.in[4] = f->in[1];
	call.in[5] = f->in[2];
	call.out[0] = test_tensor(f->in[0].dtype, 3, f->in[0].shape);
	return call;
}

struct both {
	struct gt_call forward, gradient;
};

static struct both run_both(const struct gt_cpu_set *set, const struct attention_case *c,
    const struct gt_tensor *qkv, const struct gt_tensor *dy)
{
	struct both r = { .forward = forward_call(c, qkv) };

	test_launch(set, "attention", qkv->dtype, &r.forward);
	r.gradient = grad_call(&r.forward, dy);
	test_launch(set, "attention_grad", qkv->dtype, &r.gradient);
	return r;
}

static void free_both(struct both *r)
{
	free(r->gradient.in[0].data);
	free(r->gradient.out[0].data);
	test_release(&r->forward);
}

static void assert_same(const struct both *a, const struct both *b)
{
	const struct gt_tensor *x[] = { &a->forward.out[0], &a->forward.out[1],
		&a->gradient.out[0] };
	const struct gt_tensor *y[] = { &b->forward.out[0], &b->forward.out[1],
		&b->gradient.out[0] };

	for (size_t i = 0; i < COUNT(x); i++)
		assert_memory_equal(x[i]->data, y[i]->data, bytes_of(x[i]));
}

static void compare(const struct both *far, const struct both *near, const struct type *t, int n)
{
	assert_near(&far->forward.out[0], &near->forward.out[0], t->tolerance, "%s y, case %d\n",
	    gt_dtype_name(t->dtype), n);
	assert_near(&far->forward.out[1], &near->forward.out[1], t->dtype == GT_F64 ? 1e-13 : 2e-6,
	    "%s lse, case %d\n", gt_dtype_name(t->dtype), n);
	assert_near(&far->gradient.out[0], &near->gradient.out[0], t->gradient,
	    "%s dqkv, case %d\n", gt_dtype_name(t->dtype), n);
}

/* A case in one type: the same bits in every order of threads, and the CPU's results. */
static void check(
    const struct gt_cpu_set *set, const struct attention_case *c, int n, const struct type *t)
{
	struct gt_tensor qkv = test_tensor3(t->dtype, c->b, c->t, columns(c));
	struct gt_tensor dy = test_tensor3(t->dtype, c->b, c->t, c->heads * c->d);
	struct gt_tensor qkv64, dy64;
	struct both far[ORDERS], near;

	test_random(&qkv, 1, -2, 2);
	test_random(&dy, 2, -1, 1);
	qkv64 = in_type(GT_F64, &qkv);
	dy64 = in_type(GT_F64, &dy);
	near = run_both(&gt_cpu_set_base, c, &qkv64, &dy64);
	for (int i = 0; i < ORDERS; i++) {
		struct gt_tensor copies[] = { in_type(t->dtype, &qkv), in_type(t->dtype, &dy) };

		cudasim_seed(orders[i]);
		far[i] = run_both(set, c, &copies[0], &copies[1]);
		assert_same(&far[i], &far[0]);
	}
	compare(&far[0], &near, t, n);
	for (int i = 0; i < ORDERS; i++)
		free_both(&far[i]);
	free_both(&near);
	free(qkv.data);
	free(dy.data);
}

static void test_types(void **state)
{
	struct test_set set[3];

	(void)state;
	assert_int_equal(test_sets(set), 1);
	for (size_t n = 0; n < COUNT(cases); n++)
		for (size_t t = 0; t < COUNT(types); t++)
			if (test_takes_row(2, n + t))
				check(set[0].set, &cases[n], (int)n, &types[t]);
}

/* GPUs of compute capability 9.0 have their own kernels for 16-bit types without dropout, and other
 * GPUs of capability 8.0 and later have a different set. Both types are those of one template, so
 * each case has one on each GPU. Cases: more tiles of 64 rows than the four
 * in shared memory; the same with heads that share keys; blocks where the second of two warpgroups
 * has no rows. */
static void test_16_bits(void **state)
{
	static const struct attention_case half_cases[] = { { 1, 330, 1, 64, 0, 0, 0, 0, false, 0 },
		{ 1, 200, 2, 40, 0, 0, 0, 1, true, 0 }, { 2, 150, 4, 64, 0, 0, 0, 2, false, 0 },
		{ 1, 193, 1, 128, 0, 0, 0, 0, false, 0 }, { 1, 64, 1, 64, 0, 0, 0, 0, true, 0 } };
	static const char *const majors[] = { "9", "8" };
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (size_t n = 0; n < COUNT(half_cases); n++)
		for (size_t m = 0; m < COUNT(majors); m++) {
			const struct type *t = &types[COUNT(types) - 2 + (n + m) % 2];

			if (!test_takes_row(2, n + m))
				continue;
			assert_int_equal(gt_dtype_size(t->dtype), 2);
			setenv("CUDASIM_MAJOR", majors[m], 1);
			check(set[0].set, &half_cases[n], (int)n, t);
		}
	unsetenv("CUDASIM_MAJOR");
}

/* ---- attention over caches ---- */

struct cached_case {
	int64_t b, t, heads, d, past, capacity;
	int64_t kv_heads, window;
	double cap;
};

static const struct cached_case cached_cases[] = { { 1, 1, 1, 1, 0, 1, 1, 0, 0 },
	{ 2, 1, 2, 33, 40, 41, 2, 0, 0 }, { 1, 5, 2, 64, 3, 20, 2, 0, 0 },
	{ 1, 34, 1, 16, 0, 40, 1, 0, 0 }, { 1, 2, 1, 300, 70, 75, 1, 0, 0 },
	{ 2, 3, 6, 20, 9, 13, 2, 0, 0 }, { 1, 2, 2, 64, 70, 75, 1, 5, 0 },
	{ 2, 34, 2, 16, 3, 40, 2, 9, 2 } };

static struct gt_call cached_call(enum gt_dtype dtype, const struct cached_case *c)
{
	struct gt_call call = { .inputs = 4, .outputs = 1, .writes = 1u << 2 | 1u << 3 };

	call.attrs.attention.heads = (int)c->heads;
	call.attrs.attention.kv_heads = (int)c->kv_heads;
	call.attrs.attention.window = (int)c->window;
	call.attrs.attention.cap = c->cap;
	call.in[0] = test_tensor3(dtype, c->b, c->t, (c->heads + 2 * c->kv_heads) * c->d);
	call.in[1] = test_tensor(GT_I32, 0, NULL);
	call.in[2] = test_tensor4(dtype, c->b, c->kv_heads, c->capacity, c->d);
	call.in[3] = test_tensor4(dtype, c->b, c->kv_heads, c->capacity, c->d);
	call.in[2].layout = call.in[3].layout = GT_PLAIN;
	call.out[0] = test_tensor3(dtype, c->b, c->t, c->heads * c->d);
	test_random(&call.in[0], 3, -2, 2);
	test_random(&call.in[2], 4, -2, 2);
	test_random(&call.in[3], 5, -2, 2);
	test_put(&call.in[1], 0, (double)c->past);
	return call;
}

static void check_cached(const struct gt_cpu_set *set, int n, const struct type *t)
{
	struct gt_call far[ORDERS], near = cached_call(GT_F64, &cached_cases[n]);
	struct gt_tensor in64;

	for (int i = 0; i < ORDERS; i++)
		far[i] = cached_call(t->dtype, &cached_cases[n]);
	for (int i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		in64 = in_type(GT_F64, &far[0].in[i]);
		memcpy(near.in[i].data, in64.data, bytes_of(&in64));
		free(in64.data);
	}
	assert_int_equal(test_run(&gt_cpu_set_base, "attention_cached", GT_F64, &near, NULL), 0);
	for (int i = 0; i < ORDERS; i++) {
		cudasim_seed(orders[i]);
		test_launch(set, "attention_cached", t->dtype, &far[i]);
		assert_memory_equal(
		    far[i].out[0].data, far[0].out[0].data, bytes_of(&far[0].out[0]));
		for (int k = 2; k < 4; k++)
			assert_true(test_distance(&far[i].in[k], &near.in[k]) == 0);
	}
	assert_near(&far[0].out[0], &near.out[0], t->tolerance, "%s cached, case %d\n",
	    gt_dtype_name(t->dtype), n);
	for (int i = 0; i < ORDERS; i++)
		test_release(&far[i]);
	test_release(&near);
}

static void test_cached(void **state)
{
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (size_t n = 0; n < COUNT(cached_cases); n++)
		for (size_t t = 0; t < COUNT(types); t++)
			check_cached(set[0].set, (int)n, &types[t]);
}

/* Tokens that do not fit are a fault; they give NaN, and no cache changes. */
static void test_cache_full(void **state)
{
	static const struct cached_case wrong[] = { { 1, 2, 1, 8, 19, 20, 1, 0, 0 },
		{ 1, 2, 1, 8, -1, 20, 1, 0, 0 } };
	static const char *const texts[] = {
		"attention: 2 tokens behind 19 others do not fit into a cache of 20",
		"attention: 2 tokens behind -1 others do not fit into a cache of 20",
	};
	struct test_set set[3];

	(void)state;
	test_sets(set);
	for (size_t n = 0; n < COUNT(wrong); n++) {
		struct gt_call call = cached_call(GT_F32, &wrong[n]);
		struct gt_call before = cached_call(GT_F32, &wrong[n]);

		memset(call.out[0].data, 0, bytes_of(&call.out[0]));
		test_refuses(&set[0], "attention_cached", GT_F32, &call, texts[n]);
		for (int64_t i = 0; i < gt_tensor_elements(&call.out[0]); i++)
			assert_true(isnan(test_get(&call.out[0], i)));
		for (int k = 2; k < 4; k++)
			assert_memory_equal(
			    call.in[k].data, before.in[k].data, bytes_of(&call.in[k]));
		test_release(&call);
		test_release(&before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_16_bits),
		cmocka_unit_test(test_cached),
		cmocka_unit_test(test_cache_full),
	};

	setenv("GTRAIN_TEST_BACKEND", "cuda", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
