/* test_kernels_recurrent.c - layers of LSTM and GRU and their gradients against plain loops. */
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

enum { STEPS = 3, REVERSE = 1, FULL = 2 /* with a bias, initial states and all gradients */ };

static int64_t samples_of(kernel_sizes d)
{
	return (d[0] + 3) / 4;
}

static int64_t hidden_of(kernel_sizes d)
{
	return (d[1] + 7) / 8;
}

/* ---- tensors ---- */

static void draw(struct gt_tensor *t, struct gt_tensor made, uint32_t seed, double low, double high)
{
	*t = made;
	test_random(t, seed, low, high);
}

/* Rows of all steps, `width` times the hidden features. */
static void draw_steps(struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, int64_t width,
    uint32_t seed, double low, double high)
{
	draw(t, test_tensor3(f, samples_of(d), STEPS, width * hidden_of(d)), seed, low, high);
}

static void draw_state(struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, uint32_t seed)
{
	draw(t, test_tensor2(f, samples_of(d), hidden_of(d)), seed, -1, 1);
}

/* Sums of so many products stay near 1. */
static void draw_weight(
    struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, int64_t gates, uint32_t seed)
{
	int64_t hidden = hidden_of(d);
	double bound = 1 / sqrt((double)hidden);

	draw(t, test_tensor2(f, gates * hidden, hidden), seed, -bound, bound);
}

static void forward_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d, int64_t gates)
{
	c->inputs = gates == 4 ? 5 : 4;
	c->outputs = 3;
	c->attrs.recurrent.reverse = d[VARIANT] & REVERSE;
	draw_steps(&c->in[0], f, d, gates, 81, -2, 2);
	draw_weight(&c->in[1], f, d, gates, 82);
	draw(&c->in[2], test_tensor1(f, gates * hidden_of(d)), 83, -1, 1);
	draw_state(&c->in[3], f, d, 84);
	if (gates == 4)
		draw_state(&c->in[4], f, d, 85);
	for (int i = 2; i < c->inputs; i++)
		c->in[i].present = d[VARIANT] & FULL;
	draw_steps(&c->out[0], f, d, 1, 86, 0, 1);
	draw_steps(&c->out[1], gt_dtype_wide(f), d, 1, 87, 0, 1);
	draw_steps(&c->out[2], gt_dtype_wide(f), d, gates, 88, 0, 1);
}

/* Input 0 is the weight, and the values of the forward part begin at input 1. */
static void backward_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d, int64_t gates)
{
	c->inputs = 6;
	c->outputs = 3;
	c->attrs.recurrent.reverse = d[VARIANT] & REVERSE;
	c->attrs.recurrent.initial = d[VARIANT] & FULL;
	draw_weight(&c->in[0], f, d, gates, 91);
	draw_steps(&c->in[1], gt_dtype_wide(f), d, gates, 92, 0, 1);
	draw_steps(&c->in[2], gt_dtype_wide(f), d, 1, 93, -1, 1);
	draw_steps(&c->out[0], f, d, gates, 94, 0, 1);
}

static void initial_make(struct gt_call *c, int i, enum gt_dtype f, kernel_sizes d)
{
	draw_state(&c->out[i], f, d, (uint32_t)(100 + i));
	c->out[i].present = d[VARIANT] & FULL;
}

static void lstm_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	forward_make(c, f, d, 4);
}

static void gru_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	forward_make(c, f, d, 3);
}

static void lstm_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	backward_make(c, f, d, 4);
	draw_steps(&c->in[3], f, d, 1, 95, -1, 1);
	draw_steps(&c->in[4], gt_dtype_wide(f), d, 1, 96, -1, 1);
	draw_state(&c->in[5], f, d, 97);
	/* one of both gradients is there in any case */
	c->in[3].present = d[VARIANT] != REVERSE;
	c->in[4].present = d[VARIANT] != 0;
	c->in[5].present = d[VARIANT] & FULL;
	initial_make(c, 1, f, d);
	initial_make(c, 2, f, d);
}

static void gru_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	backward_make(c, f, d, 3);
	draw_steps(&c->in[3], f, d, 1, 95, -1, 1);
	draw_steps(&c->in[4], f, d, 1, 96, -1, 1);
	draw_state(&c->in[5], f, d, 97);
	c->in[5].present = d[VARIANT] & FULL;
	draw_steps(&c->out[1], f, d, 3, 98, 0, 1);
	initial_make(c, 2, f, d);
}

/* ---- plain loops ---- */

/* Element j of row (b, step i) of a tensor; steps count in the order in which they are computed. */
static int64_t place(
    const struct gt_call *c, const struct gt_tensor *t, int64_t b, int64_t i, int64_t j)
{
	int64_t step = c->attrs.recurrent.reverse ? STEPS - 1 - i : i;

	return (b * STEPS + step) * gt_tensor_last(t) + j;
}

static double at(
    const struct gt_call *c, const struct gt_tensor *t, int64_t b, int64_t i, int64_t j)
{
	return t->present ? test_get(t, place(c, t, b, i, j)) : 0;
}

static void set(
    const struct gt_call *c, struct gt_tensor *t, int64_t b, int64_t i, int64_t j, double v)
{
	test_put(t, place(c, t, b, i, j), v);
}

static double state_at(const struct gt_tensor *t, int64_t b, int64_t j)
{
	return t->present ? test_get(t, b * gt_tensor_last(t) + j) : 0;
}

/* The value before step i: that of the step before, or the initial one. */
static double before(const struct gt_call *c, const struct gt_tensor *steps,
    const struct gt_tensor *initial, int64_t b, int64_t i, int64_t j)
{
	return i ? at(c, steps, b, i - 1, j) : state_at(initial, b, j);
}

/* Row `row` of h * w^T + bias. */
static double hidden_sum(const struct gt_call *c, int64_t b, int64_t i, int64_t row)
{
	int64_t hidden = gt_tensor_last(&c->in[1]);
	double sum = c->in[2].present ? test_get(&c->in[2], row) : 0;

	for (int64_t k = 0; k < hidden; k++)
		sum += before(c, &c->out[0], &c->in[3], b, i, k) *
		       test_get(&c->in[1], row * hidden + k);
	return sum;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

#define EACH_STATE(c, t)                                                                           \
	for (int64_t i = 0; i < STEPS; i++)                                                        \
		for (int64_t b = 0; b < (t).shape[0]; b++)                                         \
			for (int64_t j = 0, n = gt_tensor_last(&(t)); j < n; j++)

static void lstm_naive(struct gt_call *c)
{
	EACH_STATE(c, c->out[0])
	{
		double gates[4], cell;

		for (int k = 0; k < 4; k++) {
			double sum =
			    at(c, &c->in[0], b, i, k * n + j) + hidden_sum(c, b, i, k * n + j);

			gates[k] = k == 2 ? tanh(sum) : sigmoid(sum);
			set(c, &c->out[2], b, i, k * n + j, gates[k]);
		}
		cell = gates[1] * before(c, &c->out[1], &c->in[4], b, i, j) + gates[0] * gates[2];
		set(c, &c->out[1], b, i, j, cell);
		set(c, &c->out[0], b, i, j, gates[3] * tanh(cell));
	}
}

static void gru_naive(struct gt_call *c)
{
	EACH_STATE(c, c->out[0])
	{
		double gates[3], sum = hidden_sum(c, b, i, 2 * n + j);

		for (int k = 0; k < 2; k++)
			gates[k] = sigmoid(
			    at(c, &c->in[0], b, i, k * n + j) + hidden_sum(c, b, i, k * n + j));
		gates[2] = tanh(at(c, &c->in[0], b, i, 2 * n + j) + gates[0] * sum);
		for (int k = 0; k < 3; k++)
			set(c, &c->out[2], b, i, k * n + j, gates[k]);
		set(c, &c->out[1], b, i, j, sum);
		set(c, &c->out[0], b, i, j,
		    (1 - gates[1]) * gates[2] +
		        gates[1] * before(c, &c->out[0], &c->in[3], b, i, j));
	}
}

/* Column j of the product of gradients [rows of w] at step i and w. */
static double grad_product(
    const struct gt_call *c, const struct gt_tensor *d, int64_t b, int64_t i, int64_t j)
{
	const struct gt_tensor *w = &c->in[0];
	double sum = 0;

	for (int64_t row = 0; row < w->shape[0]; row++)
		sum += at(c, d, b, i, row) * test_get(w, row * w->shape[1] + j);
	return sum;
}

/* `dh`, `dc`: the gradients that the step behind i hands on. */
static void lstm_grad_step(
    struct gt_call *c, int64_t b, int64_t i, int64_t j, double dh, double *dc)
{
	int64_t n = gt_tensor_last(&c->in[2]);
	double gate[4], d[4], cell = tanh(at(c, &c->in[2], b, i, j));

	for (int k = 0; k < 4; k++)
		gate[k] = at(c, &c->in[1], b, i, k * n + j);
	dh += at(c, &c->in[3], b, i, j);
	*dc += at(c, &c->in[4], b, i, j) + dh * gate[3] * (1 - cell * cell);
	d[0] = *dc * gate[2];
	d[1] = *dc * before(c, &c->in[2], &c->in[5], b, i, j);
	d[2] = *dc * gate[0];
	d[3] = dh * cell;
	for (int k = 0; k < 4; k++)
		set(c, &c->out[0], b, i, k * n + j,
		    d[k] * (k == 2 ? 1 - gate[k] * gate[k] : gate[k] * (1 - gate[k])));
	*dc *= gate[1];
}

static void lstm_grad_naive(struct gt_call *c)
{
	int64_t batch = c->in[2].shape[0], n = gt_tensor_last(&c->in[2]);
	double *dc = test_alloc((size_t)(batch * n) * sizeof(double));

	memset(dc, 0, (size_t)(batch * n) * sizeof(double));
	for (int64_t i = STEPS; i-- > 0;)
		for (int64_t e = 0; e < batch * n; e++) {
			int64_t b = e / n, j = e % n;
			double dh = i + 1 < STEPS ? grad_product(c, &c->out[0], b, i + 1, j) : 0;

			lstm_grad_step(c, b, i, j, dh, &dc[e]);
		}
	for (int64_t e = 0; e < batch * n && c->out[1].present; e++) {
		test_put(&c->out[1], e, grad_product(c, &c->out[0], e / n, 0, e % n));
		test_put(&c->out[2], e, dc[e]);
	}
	free(dc);
}

/* The part of the gradient of the state before step i that passes the update gate. */
static double gru_grad_step(struct gt_call *c, int64_t b, int64_t i, int64_t j, double dh)
{
	int64_t n = gt_tensor_last(&c->in[2]);
	double r = at(c, &c->in[1], b, i, j), z = at(c, &c->in[1], b, i, n + j);
	double next = at(c, &c->in[1], b, i, 2 * n + j), sum = at(c, &c->in[2], b, i, j);
	double old = before(c, &c->in[3], &c->in[5], b, i, j), d[3];

	dh += at(c, &c->in[4], b, i, j);
	d[2] = dh * (1 - z) * (1 - next * next);
	d[0] = d[2] * sum * r * (1 - r);
	d[1] = dh * (old - next) * z * (1 - z);
	for (int k = 0; k < 3; k++) {
		set(c, &c->out[0], b, i, k * n + j, d[k]);
		set(c, &c->out[1], b, i, k * n + j, k == 2 ? d[k] * r : d[k]);
	}
	return dh * z;
}

static void gru_grad_naive(struct gt_call *c)
{
	int64_t batch = c->in[2].shape[0], n = gt_tensor_last(&c->in[2]);
	double *passed = test_alloc((size_t)(batch * n) * sizeof(double));

	memset(passed, 0, (size_t)(batch * n) * sizeof(double));
	for (int64_t i = STEPS; i-- > 0;)
		for (int64_t e = 0; e < batch * n; e++) {
			int64_t b = e / n, j = e % n;
			double dh = i + 1 < STEPS ? grad_product(c, &c->out[1], b, i + 1, j) : 0;

			passed[e] = gru_grad_step(c, b, i, j, passed[e] + dh);
		}
	for (int64_t e = 0; e < batch * n && c->out[2].present; e++)
		test_put(&c->out[2], e, passed[e] + grad_product(c, &c->out[1], e / n, 0, e % n));
	free(passed);
}

/* `over`: the input, plus 1, whose memory out[0] may take. */
#define CASES(name, tolerance, over)                                                               \
	{ #name, name##_make, name##_naive, tolerance, 0, over, false },                           \
	    { #name, name##_make, name##_naive, tolerance, REVERSE, over, false },                 \
	    { #name, name##_make, name##_naive, tolerance, FULL, over, false },                    \
	{                                                                                          \
#name, name##_make, name##_naive, tolerance, FULL | REVERSE, over, true            \
	}

/* A state is a sum of up to 129 products of the state before; gradients are sums of 516. */
static const struct kernel_case cases[] = {
	CASES(lstm, 2e-6, 0),
	CASES(lstm_grad, 5e-6, 2),
	CASES(gru, 2e-6, 0),
	CASES(gru_grad, 5e-6, 2),
};

static void test_recurrent(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_ROWS);
}

/* A GPU rounds the states that it multiplies; test_ops.c has its types of 16 bits. */
static void test_half(void **state)
{
	(void)state;
	test_device_host_only();
	kernel_check_half(cases, COUNT(cases), KERNEL_ROWS);
}

static void test_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recurrent),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_covered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
