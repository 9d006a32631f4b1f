/* test_ranges.c - the CPU's range kernels (updates, sums, norms) against float64 formulas. */
#include <float.h>

#include "lib/base/half.h"
#include "tests/common/calls.h"

static const int64_t counts[] = { 1, 3, 17, 65, 1000, 100003 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { MAX = 100003, STEPS = 3 };

/* Parameters, gradients, two buffers of state. */
struct flat {
	float *p, *g, *m, *v;
};

/* Parameters in [-0.5, 0.5); gradients in [0.5, 1.5), so that weight decay cancels no digits that
 * Adam would blow up. */
static void flat_make(struct flat *f, int64_t n)
{
	size_t bytes = (size_t)n * sizeof(float);

	f->p = test_alloc(bytes);
	f->g = test_alloc(bytes);
	f->m = test_alloc(bytes);
	f->v = test_alloc(bytes);
	for (int64_t e = 0; e < n; e++) {
		uint64_t bits = gt_philox_u64(1, (uint64_t)e, 0, 0);

		f->p[e] = gt_philox_float((uint32_t)bits) - 0.5f;
		f->g[e] = gt_philox_float((uint32_t)(bits >> 32)) + 0.5f;
		f->m[e] = f->v[e] = 0;
	}
}

static void flat_free(struct flat *f)
{
	free(f->p);
	free(f->g);
	free(f->m);
	free(f->v);
}

/* Update f as one range, by SGD or Adam. */
static void update(const struct gt_step_kernels *k, enum gt_update_kind kind, const struct flat *f,
    int64_t n, const struct gt_update_options *o, const struct gt_step_scalars *s)
{
	float *m = o->momentum != 0 || o->beta1 > 0 ? f->m : NULL;
	const struct gt_update_range range = { f->p, f->g, { m, f->v }, n, o };
	const struct gt_update u = { .ranges = &range, .n = 1 };

	assert_int_equal(k->updates[kind]->run(NULL, &u, s, GT_ERR_IGNORED), 0);
}

/* Within 1e-6 of want, or of `near`: the size of its summands. */
static void close_to(const char *what, float got, double want, double near)
{
	if (!(fabs((double)got - want) <= 1e-6 * fmax(near, fabs(want))))
		fail_msg("%s: %.9g, not %.9g", what, (double)got, want);
}

/* The types of working copies; GT_F32: none. */
static const enum gt_dtype copy_types[] = { GT_F32, GT_BF16, GT_F16 };

/* The options with a working copy, and one element behind it. */
static struct gt_update_options with_copy(
    const struct gt_update_options *o, enum gt_dtype type, int64_t n)
{
	struct gt_update_options with = *o;

	if (type == GT_F32)
		return with;
	with.copy_type = type;
	with.copy = test_alloc((size_t)(n + 1) * sizeof(*with.copy));
	memset(with.copy, 0x5a, (size_t)(n + 1) * sizeof(*with.copy));
	return with;
}

/* The copy has all parameters, rounded, and nothing else is written. */
static void check_copy(const struct gt_update_options *o, const float *p, int64_t n)
{
	for (int64_t i = 0; o->copy && i < n; i++) {
		uint16_t want =
		    o->copy_type == GT_F16 ? gt_f16_of_float(p[i]) : gt_bf16_of_float(p[i]);

		if (o->copy[i] != want)
			fail_msg(
			    "copy of element %lld: %04x, not %04x", (long long)i, o->copy[i], want);
	}
	if (o->copy && o->copy[n] != 0x5a5a)
		fail_msg("a copy of %lld elements is written beyond its end", (long long)n);
}

static const struct gt_update_options sgd_options[] = {
	{ .lr_scale = 1 },
	{ .lr_scale = 0.3f, .weight_decay = 0.01f },
	{ .lr_scale = 1, .momentum = 0.9f, .weight_decay = 0.01f },
	{ .lr_scale = 0.3f, .momentum = 0.9f, .dampening = 0.25f },
	{ .lr_scale = 1, .momentum = 0.9f, .nesterov = 1, .weight_decay = 0.01f },
};

/* One element through STEPS steps of torch.optim.SGD. */
static double sgd_element(
    double p, double g, const struct gt_update_options *o, double lr, double factor)
{
	double buf = 0;

	lr *= (double)o->lr_scale;
	for (int t = 0; t < STEPS; t++) {
		double d = g * factor + (double)o->weight_decay * p;

		if (o->momentum != 0) {
			buf = t ? (double)o->momentum * buf + (1 - (double)o->dampening) * d : d;
			d = o->nesterov ? d + (double)o->momentum * buf : buf;
		}
		p -= lr * d;
	}
	return p;
}

static void sgd_case(const struct gt_step_kernels *k, const struct gt_update_options *options,
    enum gt_dtype type, int64_t n)
{
	const struct gt_update_options with = with_copy(options, type, n), *o = &with;
	struct gt_step_scalars s = { .block = { .lr = 0.1f }, .result = { .grad_factor = 0.5f } };
	struct flat f, start;

	flat_make(&f, n);
	flat_make(&start, n);
	for (int64_t i = 0; i < n; i++)
		f.m[i] = NAN; /* the first step must not read the buffer */
	for (int t = 0; t < STEPS; t++) {
		s.result.steps = t + 1;
		update(k, GT_UPDATE_SGD, &f, n, o, &s);
	}
	for (int64_t i = 0; i < n; i++)
		close_to("sgd", f.p[i],
		    sgd_element((double)start.p[i], (double)f.g[i], o, (double)s.block.lr, 0.5),
		    0.5);
	check_copy(o, f.p, n);
	free(o->copy);
	flat_free(&f);
	flat_free(&start);
}

static const struct gt_update_options adam_options[] = {
	{ .lr_scale = 1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f },
	{ .lr_scale = 1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6f, .weight_decay = 0.1f },
	{ .lr_scale = 0.3f,
	    .beta1 = 0.9,
	    .beta2 = 0.999,
	    .eps = 1e-8f,
	    .weight_decay = 0.1f,
	    .decoupled = 1 },
};

/* One element through STEPS steps of torch.optim.Adam or AdamW. */
static double adam_element(
    double p, double grad, const struct gt_update_options *o, double lr, double factor)
{
	double m = 0, v = 0, decay = (double)o->weight_decay;

	lr *= (double)o->lr_scale;
	for (int t = 1; t <= STEPS; t++) {
		double g = grad * factor + (o->decoupled ? 0 : decay * p);

		if (o->decoupled)
			p *= 1 - lr * decay;
		m = o->beta1 * m + (1 - o->beta1) * g;
		v = o->beta2 * v + (1 - o->beta2) * g * g;
		p -= lr / (1 - pow(o->beta1, t)) * m /
		     (sqrt(v) / sqrt(1 - pow(o->beta2, t)) + (double)o->eps);
	}
	return p;
}

static void adam_case(const struct gt_step_kernels *k, const struct gt_update_options *options,
    enum gt_dtype type, int64_t n)
{
	const struct gt_update_options with = with_copy(options, type, n), *o = &with;
	struct gt_step_scalars s = { .block = { .lr = 0.01f }, .result = { .grad_factor = 0.5f } };
	struct flat f, start;

	flat_make(&f, n);
	flat_make(&start, n);
	for (int t = 1; t <= STEPS; t++) {
		s.result.bias1 = (float)(1 - pow(o->beta1, t));
		s.result.bias2_sqrt = (float)sqrt(1 - pow(o->beta2, t));
		update(k, GT_UPDATE_ADAM, &f, n, o, &s);
	}
	for (int64_t i = 0; i < n; i++)
		close_to("adam", f.p[i],
		    adam_element((double)start.p[i], (double)f.g[i], o, (double)s.block.lr, 0.5),
		    0.1);
	check_copy(o, f.p, n);
	free(o->copy);
	flat_free(&f);
	flat_free(&start);
}

/* One element through STEPS steps of Adan; its gradient is grad, -grad / 2, grad / 4, ... */
static double adan_element(
    double p, double grad, const struct gt_update_options *o, double lr, double factor)
{
	const double beta1 = GT_ADAN_BETA1, beta2 = GT_ADAN_BETA2, beta3 = GT_ADAN_BETA3;
	double m = 0, v = 0, n = 0, before = 0;

	lr *= (double)o->lr_scale;
	for (int t = 1; t <= STEPS; t++, grad /= -2) {
		double g = grad * factor, diff = t > 1 ? g - before : 0, ahead = g + beta2 * diff;

		m = beta1 * m + (1 - beta1) * g;
		v = beta2 * v + (1 - beta2) * diff;
		n = beta3 * n + (1 - beta3) * ahead * ahead;
		before = g;
		p -= lr * (m / (1 - pow(beta1, t)) + beta2 * v / (1 - pow(beta2, t))) /
		     (sqrt(n / (1 - pow(beta3, t))) + (double)o->eps);
		p /= 1 + lr * (double)o->weight_decay;
	}
	return p;
}

static void adan_case(
    const struct gt_step_kernels *k, float weight_decay, enum gt_dtype type, int64_t n)
{
	const struct gt_update_options options = {
		.lr_scale = 0.3f, .eps = 1e-8f, .weight_decay = weight_decay
	};
	const struct gt_update_options with = with_copy(&options, type, n), *o = &with;
	struct gt_step_scalars s = { .block = { .lr = 0.01f }, .result = { .grad_factor = 0.5f } };
	struct flat f, more, start;
	struct gt_update_range r;
	const struct gt_update u = { .ranges = &r, .n = 1 };

	flat_make(&f, n);
	flat_make(&more, n);
	flat_make(&start, n);
	r = (struct gt_update_range){ f.p, f.g, { f.m, f.v, more.m, more.v }, n, o };
	for (int64_t i = 0; i < n; i++)
		more.v[i] = NAN; /* the first step must not read the gradient before it */
	for (int t = 1; t <= STEPS; t++) {
		s.result.steps = t;
		assert_int_equal(k->updates[GT_UPDATE_ADAN]->run(NULL, &u, &s, GT_ERR_IGNORED), 0);
		for (int64_t i = 0; i < n; i++)
			f.g[i] /= -2;
	}
	for (int64_t i = 0; i < n; i++)
		close_to("adan", f.p[i],
		    adan_element(
		        (double)start.p[i], (double)start.g[i], o, (double)s.block.lr, 0.5),
		    0.1);
	check_copy(o, f.p, n);
	free(o->copy);
	flat_free(&f);
	flat_free(&more);
	flat_free(&start);
}

static void test_adan(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t n = 0; n < COUNT(counts); n++)
			adan_case(set[i].set->steps, n % 2 ? 0.1f : 0,
			    copy_types[n % COUNT(copy_types)], counts[n]);
}

static void test_sgd(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t o = 0; o < COUNT(sgd_options); o++)
			for (size_t n = 0; n < COUNT(counts); n++)
				sgd_case(set[i].set->steps, &sgd_options[o],
				    copy_types[(o + n) % COUNT(copy_types)], counts[n]);
}

static void test_adam(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t o = 0; o < COUNT(adam_options); o++)
			for (size_t n = 0; n < COUNT(counts); n++)
				adam_case(set[i].set->steps, &adam_options[o],
				    copy_types[(o + n) % COUNT(copy_types)], counts[n]);
}

static void test_clip(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);
	struct flat f;

	(void)state;
	flat_make(&f, MAX);
	for (int i = 0; i < sets; i++)
		for (size_t k = 0; k < COUNT(counts); k++) {
			struct gt_step_scalars s = { .block = { .clip = 0.75f } };
			double sum = 0, factor;

			for (int64_t e = 0; e < counts[k]; e++)
				sum += (double)f.g[e] * (double)f.g[e];
			factor = 0.75 / (sqrt(sum) + 1e-6);
			set[i].set->steps->squares(NULL, f.g, counts[k], &s, GT_ERR_IGNORED);
			set[i].set->steps->begin_update(NULL, &s, GT_ERR_IGNORED);
			close_to("norm", s.result.grad_norm, sqrt(sum), 0);
			close_to("factor", s.result.grad_factor, factor < 1 ? factor : 1, 0);
			s.block.clip = 0;
			set[i].set->steps->begin_update(NULL, &s, GT_ERR_IGNORED);
			assert_true(s.result.grad_factor == 1.0f);
		}
	f.g[77] = NAN;
	for (int i = 0; i < sets; i++) {
		struct gt_step_scalars s = { .block = { .clip = 0.75f } };

		set[i].set->steps->squares(NULL, f.g, MAX, &s, GT_ERR_IGNORED);
		set[i].set->steps->begin_update(NULL, &s, GT_ERR_IGNORED);
		assert_true(isnan(s.result.grad_norm) && isnan(s.result.grad_factor));
	}
	flat_free(&f);
}

/* Over all exponents, subnormal numbers too; squares of the largest are beyond float32. */
static void spread(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float size = ldexpf(1.0f + (float)(i % 1021) / 1021, (int)(i * 7 % 277) - 149);

		x[i] = i % 3 ? size : -size;
	}
}

/* The digits of the sum of n squares in parts of `part` elements, from the last to the first. */
static struct gt_step_scalars exact_in_parts(
    const struct gt_step_kernels *k, const float *x, int64_t n, int64_t part)
{
	struct gt_step_scalars sum = { .block = { .exact = true } };

	for (int64_t end = n; end > 0; end -= part) {
		struct gt_step_scalars s = { .block = { .exact = true } };
		int64_t count = end < part ? end : part;

		k->squares(NULL, x + end - count, count, &s, GT_ERR_IGNORED);
		for (int i = 0; i < GT_SQUARES; i++)
			sum.result.squares[i] += s.result.squares[i];
	}
	k->begin_update(NULL, &sum, GT_ERR_IGNORED);
	return sum;
}

/* By whatever parts, and to the last digit of a float. */
static void test_exact_squares(void **state)
{
	static const int64_t sizes[] = { 1, 2, 9, 300, 65537, 200000 };
	static const int64_t parts[] = { 1, 7, 4096, 65536, 70001, 200000 };
	enum { N = 200000 };
	struct test_set set[3];
	int sets = test_sets(set);
	float *x = test_alloc(N * sizeof(*x));

	(void)state;
	spread(x, N);
	for (size_t n = 0; n < COUNT(sizes); n++) {
		long double want = 0;

		for (int64_t i = 0; i < sizes[n]; i++)
			want += (long double)x[i] * x[i];
		for (int i = 0; i < sets; i++) {
			for (size_t k = 0; k < COUNT(parts); k++) {
				struct gt_step_scalars s =
				    exact_in_parts(set[i].set->steps, x, sizes[n], parts[k]);

				assert_true(s.result.grad_norm == (float)sqrtl(want));
			}
		}
	}
	free(x);
}

/* A small summand is still there when a large one is subtracted: in float64 it would be gone. */
static void test_exact_difference(void **state)
{
	enum { N = 10000, LARGE = 777 };
	struct test_set set[3];
	int sets = test_sets(set);
	float *x = test_alloc(N * sizeof(*x));

	(void)state;
	for (int64_t i = 0; i < N; i++)
		x[i] = (i < LARGE ? 0x1p60f : 0x1p-60f) / (float)(i + 1);
	for (int i = 0; i < sets; i++) {
		const struct gt_step_kernels *k = set[i].set->steps;
		struct gt_step_scalars large = exact_in_parts(k, x, LARGE, 10);
		struct gt_step_scalars small = exact_in_parts(k, x + LARGE, N - LARGE, 4000);
		struct gt_step_scalars all = { .block = { .exact = true } };

		k->squares(NULL, x, N, &all, GT_ERR_IGNORED);
		for (int d = 0; d < GT_SQUARES; d++)
			all.result.squares[d] -= large.result.squares[d];
		k->begin_update(NULL, &all, GT_ERR_IGNORED);
		assert_true(
		    small.result.grad_norm > 0 && all.result.grad_norm == small.result.grad_norm);
	}
	free(x);
}

/* As many of one exponent as are added up in integers, and the largest there are. */
static void test_exact_extremes(void **state)
{
	enum { N = 2 * 65536 };
	const float values[] = { nextafterf(2, 0), FLT_MAX, FLT_MIN, nextafterf(0, 1) };
	struct test_set set[3];
	int sets = test_sets(set);
	float *x = test_alloc(N * sizeof(*x));

	(void)state;
	for (size_t v = 0; v < COUNT(values); v++) {
		for (int64_t i = 0; i < N; i++)
			x[i] = values[v];
		for (int i = 0; i < sets; i++) {
			struct gt_step_scalars s = { .block = { .exact = true } };
			double want = sqrt(N) * (double)values[v];

			set[i].set->steps->squares(NULL, x, N, &s, GT_ERR_IGNORED);
			set[i].set->steps->begin_update(NULL, &s, GT_ERR_IGNORED);
			assert_true(want > FLT_MAX ? isinf(s.result.grad_norm)
			                           : s.result.grad_norm == (float)want);
		}
	}
	free(x);
}

static void test_exact_special(void **state)
{
	static const struct {
		float x;
		bool nan;
	} cases[] = { { INFINITY, false }, { -INFINITY, false }, { NAN, true } };
	struct test_set set[3];
	int sets = test_sets(set);
	float x[9] = { 0 };

	(void)state;
	for (int i = 0; i < sets; i++) {
		struct gt_step_scalars s = exact_in_parts(set[i].set->steps, x, 9, 9);

		assert_true(s.result.grad_norm == 0);
		for (size_t c = 0; c < COUNT(cases); c++) {
			x[5] = cases[c].x;
			s = exact_in_parts(set[i].set->steps, x, 9, 2);
			assert_true(
			    cases[c].nan ? isnan(s.result.grad_norm) : isinf(s.result.grad_norm));
		}
		x[5] = 0;
	}
}

static void test_add(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);
	float x[66];

	(void)state;
	for (int i = 0; i < sets; i++) {
		for (int e = 0; e < 65; e++)
			x[e] = 2.5f;
		x[65] = 7;
		set[i].set->ranges->add(NULL, x, x, 65, GT_ERR_IGNORED);
		for (int e = 0; e < 65; e++)
			assert_true(x[e] == 5.0f);
		assert_true(x[65] == 7);
	}
}

/* ---- numbers that are not finite ---- */

/* By bits, so that no compiler has an opinion on them: first those that are finite. */
enum { FINITE = 6 };
static const uint32_t bits32[] = { 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
	0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff };
static const uint64_t bits64[] = { 0x8000000000000000, 1, 0x800fffffffffffff, 0x0010000000000000,
	0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
	0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, 0xffffffffffffffff };

static void set_bits(void *x, enum gt_dtype dtype, int64_t i, size_t which)
{
	if (dtype == GT_F64)
		memcpy((double *)x + i, &bits64[which], sizeof(double));
	else
		memcpy((float *)x + i, &bits32[which], sizeof(float));
}

static int64_t first_nonfinite(
    const struct gt_range_kernels *k, const void *x, int64_t n, enum gt_dtype dtype)
{
	int64_t first = -2;

	assert_int_equal(k->find_nonfinite(NULL, &first, x, n, dtype, GT_ERR_IGNORED), 0);
	return first;
}

/* One at each place that counts, and another one behind it. */
static void nonfinite_case(
    const struct gt_range_kernels *k, void *x, int64_t n, enum gt_dtype dtype, size_t which)
{
	const int64_t places[] = { 0, n / 3, n / 2 + 1 < n ? n / 2 + 1 : n - 1, n - 1 };

	for (size_t p = 0; p < COUNT(places); p++) {
		int64_t want = which < FINITE ? -1 : places[p];

		memset(x, 0, (size_t)n * gt_dtype_size(dtype));
		set_bits(x, dtype, n - 1, which);
		set_bits(x, dtype, places[p], which);
		for (int threads = 1; threads <= 2; threads++) {
			omp_set_num_threads(threads);
			assert_int_equal(first_nonfinite(k, x, n, dtype), want);
		}
		if (places[p] < n - 1)
			assert_int_equal(first_nonfinite(k, x, places[p], dtype), -1);
	}
}

static void test_find_nonfinite(void **state)
{
	static const enum gt_dtype dtypes[] = { GT_F32, GT_F64 };
	struct test_set set[3];
	int sets = test_sets(set);
	void *x = test_alloc(MAX * sizeof(double));

	(void)state;
	for (int i = 0; i < sets; i++) {
		const struct gt_range_kernels *k = set[i].set->ranges;

		for (size_t t = 0; t < COUNT(dtypes); t++) {
			assert_int_equal(first_nonfinite(k, x, 0, dtypes[t]), -1);
			for (size_t n = 0; n < COUNT(counts); n++)
				for (size_t w = 0; w < COUNT(bits32); w++)
					nonfinite_case(k, x, counts[n], dtypes[t], w);
		}
		memset(x, 0xff, 8 * sizeof(int64_t));
		assert_int_equal(first_nonfinite(k, x, 8, GT_I64), -1);
	}
	free(x);
}

/* The same bits with one thread and with two. */
static void threads_case(bool exact)
{
	struct test_set set[3];
	int sets = test_sets(set);

	for (int i = 0; i < sets; i++) {
		const struct gt_step_kernels *k = set[i].set->steps;
		struct gt_step_scalars s[2];
		struct flat f[2];

		for (int t = 0; t < 2; t++) {
			omp_set_num_threads(t + 1);
			s[t] = (struct gt_step_scalars){ .block = { .lr = 0.1f,
				                             .clip = 0.5f,
				                             .beta1 = 0.9,
				                             .beta2 = 0.999,
				                             .exact = exact } };
			flat_make(&f[t], MAX);
			k->squares(NULL, f[t].g, MAX, &s[t], GT_ERR_IGNORED);
			k->begin_update(NULL, &s[t], GT_ERR_IGNORED);
			update(k, GT_UPDATE_SGD, &f[t], MAX, &sgd_options[4], &s[t]);
			update(k, GT_UPDATE_ADAM, &f[t], MAX, &adam_options[2], &s[t]);
		}
		assert_memory_equal(
		    s[0].result.squares, s[1].result.squares, sizeof(s[0].result.squares));
		assert_true(s[0].result.grad_norm == s[1].result.grad_norm);
		assert_true(s[0].result.grad_factor == s[1].result.grad_factor);
		assert_memory_equal(f[0].p, f[1].p, MAX * sizeof(float));
		assert_memory_equal(f[0].m, f[1].m, MAX * sizeof(float));
		assert_memory_equal(f[0].v, f[1].v, MAX * sizeof(float));
		flat_free(&f[0]);
		flat_free(&f[1]);
	}
}

static void test_threads(void **state)
{
	(void)state;
	threads_case(false);
	threads_case(true);
}

/* At 0 and 1 it is exact; otherwise within a rounding of the larger operand. */
static void test_lerp(void **state)
{
	static const float weights[] = { 0, 0.25f, 0.001f, 0.5f, 0.9f, 1 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t w = 0; w < COUNT(weights); w++)
			for (size_t n = 0; n < COUNT(counts); n++) {
				double weight = (double)weights[w];
				struct flat f, start;

				flat_make(&f, counts[n]);
				flat_make(&start, counts[n]);
				set[i].set->ranges->lerp(
				    NULL, f.p, f.g, counts[n], weights[w], GT_ERR_IGNORED);
				for (int64_t e = 0; e < counts[n]; e++) {
					double from = (double)start.p[e], to = (double)f.g[e];

					close_to("lerp", f.p[e], from + weight * (to - from), 0.1);
					if (weight == 0 || weight == 1)
						assert_true(
						    (double)f.p[e] == (weight == 0 ? from : to));
				}
				flat_free(&f);
				flat_free(&start);
			}
}

static void test_swap(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t n = 0; n < COUNT(counts); n++) {
			size_t bytes = (size_t)counts[n] * sizeof(float);
			struct flat f, start;

			flat_make(&f, counts[n]);
			flat_make(&start, counts[n]);
			set[i].set->ranges->swap(NULL, f.p, f.g, counts[n], GT_ERR_IGNORED);
			assert_memory_equal(f.p, start.g, bytes);
			assert_memory_equal(f.g, start.p, bytes);
			flat_free(&f);
			flat_free(&start);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sgd),
		cmocka_unit_test(test_adam),
		cmocka_unit_test(test_adan),
		cmocka_unit_test(test_lerp),
		cmocka_unit_test(test_swap),
		cmocka_unit_test(test_clip),
		cmocka_unit_test(test_exact_squares),
		cmocka_unit_test(test_exact_difference),
		cmocka_unit_test(test_exact_extremes),
		cmocka_unit_test(test_exact_special),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_find_nonfinite),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
