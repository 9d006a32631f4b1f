/* test_muon.c - the CPU's kernel of Muon against its formulas in float64. */
#include "tests/common/calls.h"

enum { SIDE = 64, STEPS = 3 };

/* x = a x + b m, all [n] */
static void combine(double *x, double a, double b, const double *m, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = a * x[i] + b * m[i];
}

/* y [m, n] = a b^T or a b, a [m, k] */
static void multiply(
    double *y, const double *a, const double *b, bool transposed, int64_t m, int64_t n, int64_t k)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			double sum = 0;

			for (int64_t l = 0; l < k; l++)
				sum += a[i * k + l] * (transposed ? b[j * k + l] : b[l * n + j]);
			y[i * n + j] = sum;
		}
}

/* The five iterations, on a matrix as wide as it is high or wider. */
static void orthogonalize(double *x, int64_t rows, int64_t cols)
{
	static double gram[SIDE * SIDE], square[SIDE * SIDE], more[SIDE * SIDE];
	double norm = 0;

	for (int64_t i = 0; i < rows * cols; i++)
		norm += x[i] * x[i];
	for (int64_t i = 0; i < rows * cols; i++)
		x[i] /= fmax(sqrt(norm), 1e-7);
	for (int t = 0; t < 5; t++) {
		multiply(gram, x, x, true, rows, rows, cols);
		multiply(square, gram, gram, false, rows, rows, rows);
		combine(gram, -4.7750, 2.0315, square, rows * rows);
		multiply(more, gram, x, false, rows, cols, rows);
		combine(x, 3.4445, 1, more, rows * cols);
	}
}

/* p [rows, cols] after STEPS steps with the same gradient. */
static void muon_reference(double *p, const float *g, int64_t rows, int64_t cols, double lr,
    const struct gt_update_options *o)
{
	static double buf[SIDE * SIDE], x[SIDE * SIDE];
	bool tall = rows > cols;
	double mu = (double)o->momentum;

	lr *= (double)o->lr_scale;
	memset(buf, 0, sizeof(buf));
	for (int t = 0; t < STEPS; t++) {
		for (int64_t i = 0; i < rows * cols; i++) {
			int64_t at = tall ? i % cols * rows + i / cols : i;
			double d = (double)g[i] * 0.5;

			buf[i] = mu * buf[i] + (1 - mu) * d;
			x[at] = mu * buf[i] + (1 - mu) * d;
		}
		orthogonalize(x, tall ? cols : rows, tall ? rows : cols);
		for (int64_t i = 0; i < rows * cols; i++)
			p[i] =
			    p[i] * (1 - lr * (double)o->weight_decay) -
			    lr * (double)o->step_scale * x[tall ? i % cols * rows + i / cols : i];
	}
}

/* Update the matrix phase by phase, as ranks that hold shards of it do. */
static int run_phases(
    const struct gt_step_kernels *k, struct gt_update u, const struct gt_step_scalars *s)
{
	const struct gt_update_kernel *muon = k->updates[GT_UPDATE_MUON];
	const float *result = u.work + u.rows * u.cols;
	struct gt_err err = GT_ERR_INIT;
	int rc;

	u.phase = GT_UPDATE_AVERAGE;
	rc = muon->run(NULL, &u, s, &err);
	u.phase = GT_UPDATE_ORTHOGONALIZE;
	rc = rc ? rc : muon->run(NULL, &u, s, &err);
	rc = rc ? rc : k->copy_rows(NULL, u.work, u.cols, result, u.cols, u.cols, u.rows, &err);
	u.phase = GT_UPDATE_STEP;
	return rc ? rc : muon->run(NULL, &u, s, &err);
}

/* The largest element of a step is 1, and rounding of a direction is magnified by up to 500. */
static void muon_case(const struct gt_step_kernels *k, int64_t rows, int64_t cols)
{
	const struct gt_update_options o = {
		.lr_scale = 0.5f, .momentum = 0.95f, .weight_decay = 0.1f, .step_scale = 1.5f
	};
	const struct gt_step_scalars s = { .block.lr = 0.1f, .result.grad_factor = 0.5f };
	static double want[SIDE * SIDE];
	float *work = test_alloc((size_t)gt_muon_work(rows, cols) * sizeof(*work));
	struct gt_err err = GT_ERR_INIT;
	float *p = test_alloc((size_t)(rows * cols) * sizeof(*p));
	float *g = test_alloc((size_t)(rows * cols) * sizeof(*g));
	float *buf = test_alloc((size_t)(rows * cols) * sizeof(*buf));
	const struct gt_update_range r = {
		.p = p, .g = g, .states = { buf }, .count = rows * cols, .o = &o
	};
	const struct gt_update u = {
		.ranges = &r, .n = 1, .rows = rows, .cols = cols, .work = work
	};

	for (int64_t i = 0; i < rows * cols; i++) {
		uint64_t bits = gt_philox_u64(1, (uint64_t)i, 0, 0);

		p[i] = gt_philox_float((uint32_t)bits) - 0.5f;
		g[i] = gt_philox_float((uint32_t)(bits >> 32)) - 0.5f;
		buf[i] = 0;
		want[i] = (double)p[i];
	}
	muon_reference(want, g, rows, cols, (double)s.block.lr, &o);
	for (int t = 0; t < STEPS; t++)
		assert_int_equal(t % 2 ? run_phases(k, u, &s)
		                       : k->updates[GT_UPDATE_MUON]->run(NULL, &u, &s, &err),
		    0);
	for (int64_t i = 0; i < rows * cols; i++)
		if (!(fabs((double)p[i] - want[i]) <= 2e-5))
			fail_msg("%lld x %lld: element %lld is %.9g, not %.9g", (long long)rows,
			    (long long)cols, (long long)i, (double)p[i], want[i]);
	free(p);
	free(g);
	free(buf);
	free(work);
}

static void test_muon(void **state)
{
	static const int64_t shapes[][2] = { { 1, 1 }, { 1, 7 }, { 7, 1 }, { 3, 5 }, { 5, 3 },
		{ 17, 4 }, { 16, 16 }, { 64, 48 }, { 30, 64 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		for (size_t n = 0; n < sizeof(shapes) / sizeof(*shapes); n++)
			muon_case(set[i].set->steps, shapes[n][0], shapes[n][1]);
}

/* A gradient of zeros moves nothing, and makes no NaN. */
static void test_muon_zero(void **state)
{
	const struct gt_update_options o = { .lr_scale = 1, .momentum = 0.95f, .step_scale = 1 };
	const struct gt_step_scalars s = { .block.lr = 0.1f, .result.grad_factor = 1 };
	float p[12], g[12] = { 0 }, buf[12] = { 0 }, work[96];
	const struct gt_update_range r = {
		.p = p, .g = g, .states = { buf }, .count = 12, .o = &o
	};
	const struct gt_update u = { .ranges = &r, .n = 1, .rows = 3, .cols = 4, .work = work };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int i = 0; i < 12; i++)
		p[i] = (float)i;
	assert_int_equal(
	    gt_cpu_backend.steps()->updates[GT_UPDATE_MUON]->run(NULL, &u, &s, &err), 0);
	for (int i = 0; i < 12; i++)
		assert_true(p[i] == (float)i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_muon),
		cmocka_unit_test(test_muon_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
