/* test_ranges.c - the CPU's range kernels (updates, sums, norms) against float64 formulas. */
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

/* Within 1e-6 of want, or of `near`: the size of what it was added up from. */
static void close_to(const char *what, float got, double want, double near)
{
	if (!(fabs((double)got - want) <= 1e-6 * fmax(near, fabs(want))))
		fail_msg("%s: %.9g, not %.9g", what, (double)got, want);
}

static const struct gt_update_options sgd_options[] = {
	{ .momentum = 0 },
	{ .weight_decay = 0.01f },
	{ .momentum = 0.9f, .weight_decay = 0.01f },
	{ .momentum = 0.9f, .dampening = 0.25f },
	{ .momentum = 0.9f, .nesterov = 1, .weight_decay = 0.01f },
};

/* One element through STEPS steps of torch.optim.SGD. */
static double sgd_element(
    double p, double g, const struct gt_update_options *o, double lr, double factor)
{
	double buf = 0;

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

static void sgd_case(const struct gt_range_kernels *k, const struct gt_update_options *o, int64_t n)
{
	struct gt_step_scalars s = { .lr = 0.1f, .grad_factor = 0.5f };
	struct flat f, start;

	flat_make(&f, n);
	flat_make(&start, n);
	for (int64_t i = 0; i < n; i++)
		f.m[i] = NAN; /* the first step must not read the buffer */
	for (int t = 0; t < STEPS; t++) {
		s.first_step = t == 0;
		k->sgd(f.p, f.g, o->momentum != 0 ? f.m : NULL, n, o, &s);
	}
	for (int64_t i = 0; i < n; i++)
		close_to("sgd", f.p[i],
		    sgd_element((double)start.p[i], (double)f.g[i], o, (double)s.lr, 0.5), 0.5);
	flat_free(&f);
	flat_free(&start);
}

static const struct gt_update_options adam_options[] = {
	{ .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f },
	{ .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6f, .weight_decay = 0.1f },
	{ .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f, .weight_decay = 0.1f, .decoupled = 1 },
};

/* One element through STEPS steps of torch.optim.Adam or AdamW. */
static double adam_element(
    double p, double grad, const struct gt_update_options *o, double lr, double factor)
{
	double m = 0, v = 0, decay = (double)o->weight_decay;

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

static void adam_case(
    const struct gt_range_kernels *k, const struct gt_update_options *o, int64_t n)
{
	struct gt_step_scalars s = { .lr = 0.01f, .grad_factor = 0.5f };
	struct flat f, start;

	flat_make(&f, n);
	flat_make(&start, n);
	for (int t = 1; t <= STEPS; t++) {
		s.bias1 = (float)(1 - pow(o->beta1, t));
		s.bias2_sqrt = (float)sqrt(1 - pow(o->beta2, t));
		k->adam(f.p, f.g, f.m, f.v, n, o, &s);
	}
	for (int64_t i = 0; i < n; i++)
		close_to("adam", f.p[i],
		    adam_element((double)start.p[i], (double)f.g[i], o, (double)s.lr, 0.5), 0.1);
	flat_free(&f);
	flat_free(&start);
}

static void test_sgd(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t o = 0; o < COUNT(sgd_options); o++)
			for (size_t n = 0; n < COUNT(counts); n++)
				sgd_case(set[i].set->ranges, &sgd_options[o], counts[n]);
}

static void test_adam(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t o = 0; o < COUNT(adam_options); o++)
			for (size_t n = 0; n < COUNT(counts); n++)
				adam_case(set[i].set->ranges, &adam_options[o], counts[n]);
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
			struct gt_step_scalars s = { .clip = 0.75f };
			double sum = 0, factor;

			for (int64_t e = 0; e < counts[k]; e++)
				sum += (double)f.g[e] * (double)f.g[e];
			factor = 0.75 / (sqrt(sum) + 1e-6);
			set[i].set->ranges->squares(f.g, counts[k], &s);
			set[i].set->ranges->clip(&s);
			close_to("norm", s.grad_norm, sqrt(sum), 0);
			close_to("factor", s.grad_factor, factor < 1 ? factor : 1, 0);
			s.clip = 0;
			set[i].set->ranges->clip(&s);
			assert_true(s.grad_factor == 1.0f);
		}
	f.g[77] = NAN;
	for (int i = 0; i < sets; i++) {
		struct gt_step_scalars s = { .clip = 0.75f };

		set[i].set->ranges->squares(f.g, MAX, &s);
		set[i].set->ranges->clip(&s);
		assert_true(isnan(s.grad_norm) && isnan(s.grad_factor));
	}
	flat_free(&f);
}

static void test_fill(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);
	float x[66];

	(void)state;
	for (int i = 0; i < sets; i++) {
		x[65] = 7;
		set[i].set->ranges->fill(x, 65, 2.5f);
		for (int e = 0; e < 65; e++)
			assert_true(x[e] == 2.5f);
		assert_true(x[65] == 7);
		set[i].set->ranges->add(x, x, 65);
		for (int e = 0; e < 65; e++)
			assert_true(x[e] == 5.0f);
		assert_true(x[65] == 7);
	}
}

/* The same bits with one thread and with two. */
static void test_threads(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++) {
		const struct gt_range_kernels *k = set[i].set->ranges;
		struct gt_step_scalars s[2];
		struct flat f[2];

		for (int t = 0; t < 2; t++) {
			omp_set_num_threads(t + 1);
			s[t] = (struct gt_step_scalars){
				.lr = 0.1f, .clip = 0.5f, .bias1 = 0.1f, .bias2_sqrt = 0.03f
			};
			flat_make(&f[t], MAX);
			k->squares(f[t].g, MAX, &s[t]);
			k->clip(&s[t]);
			k->sgd(f[t].p, f[t].g, f[t].m, MAX, &sgd_options[4], &s[t]);
			k->adam(f[t].p, f[t].g, f[t].m, f[t].v, MAX, &adam_options[2], &s[t]);
		}
		assert_true(s[0].squares == s[1].squares);
		assert_true(s[0].grad_norm == s[1].grad_norm);
		assert_true(s[0].grad_factor == s[1].grad_factor);
		assert_memory_equal(f[0].p, f[1].p, MAX * sizeof(float));
		assert_memory_equal(f[0].m, f[1].m, MAX * sizeof(float));
		assert_memory_equal(f[0].v, f[1].v, MAX * sizeof(float));
		flat_free(&f[0]);
		flat_free(&f[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sgd),
		cmocka_unit_test(test_adam),
		cmocka_unit_test(test_clip),
		cmocka_unit_test(test_fill),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
