/* test_kernels_vec.c - kernels compiled per instruction set, against plain loops in float64. */
#include "tests/unit/calls.h"

/* Sizes of a case: rows and columns, or images [B, C, H, W]. */
typedef const int64_t sizes[4];

/*
 * A case makes a call with its inputs filled, in either type, and knows the answer: `naive` fills
 * the outputs (and inputs that the op changes) of a float64 call with plain loops over logical indices.
 */
struct op_case {
	const char *op;
	void (*make)(struct gt_call *c, enum gt_dtype f, sizes d);
	void (*naive)(struct gt_call *c);
	/* Of float32, relative to 1 + |value|; 1e-11 in float64. Sums over some 3000 rows of values
	 * around 1 end near 0 by cancellation; they get 2e-5, about 3e-7 of the root of the sum of
	 * squares. */
	double tolerance;
	int variant;    /* for make() */
	int overwrites; /* the input whose memory out[0] may take, plus 1 */
};

static int variant; /* of the case at hand; make() reads it */

static void elementwise_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 2;
	c->outputs = 1;
	for (int i = 0; i < 2; i++) {
		c->in[i] = test_tensor2(f, d[0], d[1]);
		test_random(&c->in[i], (uint32_t)(1 + i), -4, 4);
	}
	c->out[0] = test_tensor2(f, d[0], d[1]);
}

static void unary_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	elementwise_make(c, f, d);
	free(c->in[1].data);
	c->inputs = 1;
}

static void fill_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	unary_make(c, f, d);
	free(c->in[0].data);
	c->inputs = 0;
	c->attrs.fill.value = 2.5;
}

static void accumulate_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	elementwise_make(c, f, d);
	free(c->out[0].data);
	c->outputs = 0;
}

static void gelu_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	unary_make(c, f, d);
	c->attrs.gelu.kind = (enum gt_gelu)variant;
}

static void gelu_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	elementwise_make(c, f, d);
	c->attrs.gelu.kind = (enum gt_gelu)variant;
}

#define EACH(i, t) for (int64_t i = 0; i < gt_tensor_elements(&(t)); i++)

static void add_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[0], i) + test_get(&c->in[1], i));
}

static void accumulate_naive(struct gt_call *c)
{
	EACH(i, c->in[0])
	test_put(&c->in[0], i, test_get(&c->in[0], i) + test_get(&c->in[1], i));
}

static void copy_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[0], i));
}

static void fill_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, 2.5);
}

static void relu_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, fmax(0, test_get(&c->in[0], i)));
}

static void relu_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, test_get(&c->in[1], i) > 0 ? test_get(&c->in[0], i) : 0);
}

static double gelu_of(double x, enum gt_gelu kind)
{
	if (kind == GT_GELU_TANH)
		return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	return x / 2 * (1 + erf(x / sqrt(2)));
}

static void gelu_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, gelu_of(test_get(&c->in[0], i), c->attrs.gelu.kind));
}

/* The slope from the tanh and erf forms, another arrangement than the kernel's. */
static void gelu_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	{
		double x = test_get(&c->in[1], i), k = sqrt(2 / M_PI), t, slope;

		if (c->attrs.gelu.kind == GT_GELU_TANH) {
			t = tanh(k * (x + 0.044715 * x * x * x));
			slope = (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
		} else {
			slope = (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
		}
		test_put(&c->out[0], i, test_get(&c->in[0], i) * slope);
	}
}

/* ---- layer_norm ---- */

static void layer_norm_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 3;
	c->outputs = 3;
	c->attrs.norm.eps = 1e-5;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor1(f, d[1]);
	c->in[2] = test_tensor1(f, d[1]);
	for (int i = 0; i < 3; i++)
		test_random(&c->in[i], (uint32_t)(11 + i), -1, 3);
	c->in[2].present = variant == 0;
	c->out[0] = test_tensor2(f, d[0], d[1]);
	c->out[1] = test_tensor1(f, d[0]);
	c->out[2] = test_tensor1(f, d[0]);
}

static void moments(const struct gt_tensor *x, int64_t row, double eps, double *mean, double *rstd)
{
	int64_t n = gt_tensor_last(x);
	double square = 0;

	*mean = 0;
	for (int64_t j = 0; j < n; j++)
		*mean += test_get(x, row * n + j) / (double)n;
	for (int64_t j = 0; j < n; j++)
		square += pow(test_get(x, row * n + j) - *mean, 2) / (double)n;
	*rstd = 1 / sqrt(square + eps);
}

static void layer_norm_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]);

	for (int64_t r = 0; r < gt_tensor_rows(&c->in[0]); r++) {
		double mean, rstd;

		moments(&c->in[0], r, c->attrs.norm.eps, &mean, &rstd);
		test_put(&c->out[1], r, mean);
		test_put(&c->out[2], r, rstd);
		for (int64_t j = 0; j < n; j++)
			test_put(&c->out[0], r * n + j,
			    (test_get(&c->in[0], r * n + j) - mean) * rstd *
			            test_get(&c->in[1], j) +
			        (c->in[2].present ? test_get(&c->in[2], j) : 0));
	}
}

static void layer_norm_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 6;
	c->outputs = 3;
	c->in[0] = test_tensor2(f, d[0], d[1]);
	c->in[1] = test_tensor2(f, d[0], d[1]);
	c->in[2] = test_tensor1(f, d[1]);
	c->in[3] = test_tensor1(f, d[0]);
	c->in[4] = test_tensor1(f, d[0]);
	c->in[5] = test_tensor1(f, d[1]);
	for (int i = 0; i < 6; i++)
		test_random(&c->in[i], (uint32_t)(21 + i), i == 4 ? 0.5 : -1, 1);
	c->in[5].present = variant == 0;
	c->out[0] = test_tensor2(f, d[0], d[1]);
	c->out[1] = test_tensor1(f, d[1]);
	c->out[2] = test_tensor1(f, d[1]);
	c->out[2].present = variant == 0;
}

static void layer_norm_grad_naive(struct gt_call *c)
{
	const struct gt_tensor *dy = &c->in[0], *x = &c->in[1];
	int64_t rows = gt_tensor_rows(x), n = gt_tensor_last(x);

	for (int64_t j = 0; j < n; j++) {
		double dw = 0, db = 0;

		for (int64_t r = 0; r < rows; r++) {
			double h = (test_get(x, r * n + j) - test_get(&c->in[3], r)) *
			           test_get(&c->in[4], r);

			dw += test_get(dy, r * n + j) * h;
			db += test_get(dy, r * n + j);
		}
		test_put(&c->out[1], j, dw);
		test_put(&c->out[2], j, db);
	}
	for (int64_t r = 0; r < rows; r++) {
		double sum = 0, dot = 0, mean = test_get(&c->in[3], r),
		       rstd = test_get(&c->in[4], r);

		for (int64_t j = 0; j < n; j++) {
			double g = test_get(dy, r * n + j) * test_get(&c->in[2], j);

			sum += g / (double)n;
			dot += g * (test_get(x, r * n + j) - mean) * rstd / (double)n;
		}
		for (int64_t j = 0; j < n; j++)
			test_put(&c->out[0], r * n + j,
			    rstd * (test_get(dy, r * n + j) * test_get(&c->in[2], j) - sum -
			               (test_get(x, r * n + j) - mean) * rstd * dot));
	}
}

/* ---- images ---- */

static void image(
    struct gt_tensor *t, enum gt_dtype f, sizes d, uint32_t seed, double low, double high)
{
	*t = test_tensor4(f, d[0], d[1], d[2], d[3]);
	test_random(t, seed, low, high);
}

static void channels(
    struct gt_tensor *t, enum gt_dtype f, sizes d, uint32_t seed, double low, double high)
{
	*t = test_tensor1(f, d[1]);
	test_random(t, seed, low, high);
}

/* Variant 1: with relu. */
static void batch_norm_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 6;
	c->outputs = 3;
	c->attrs.norm.eps = 1e-5;
	c->attrs.norm.momentum = 0.1;
	c->attrs.norm.relu = variant == 1;
	image(&c->in[0], f, d, 31, 4, 6);
	channels(&c->in[1], f, d, 32, -1, 1);
	channels(&c->in[2], f, d, 33, -1, 1);
	channels(&c->in[3], f, d, 34, -1, 1);
	channels(&c->in[4], f, d, 35, 0.5, 1);
	c->in[5] = test_tensor(GT_I64, 0, NULL);
	test_put(&c->in[5], 0, 7);
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->out[1] = test_tensor1(f, d[1]);
	c->out[2] = test_tensor1(f, d[1]);
}

#define EACH_PIXEL(t)                                                                              \
	for (int64_t b = 0; b < (t).shape[0]; b++)                                                 \
		for (int64_t h = 0; h < (t).shape[2]; h++)                                         \
			for (int64_t w = 0; w < (t).shape[3]; w++)

static void normalize_naive(struct gt_call *c, int64_t ch, double mean, double rstd)
{
	EACH_PIXEL(c->in[0])
	{
		int64_t at = test_at(&c->in[0], b, ch, h, w);
		double y = (test_get(&c->in[0], at) - mean) * rstd * test_get(&c->in[1], ch) +
		           test_get(&c->in[2], ch);

		test_put(&c->out[0], at, c->attrs.norm.relu ? fmax(0, y) : y);
	}
}

static void batch_norm_naive(struct gt_call *c)
{
	const int64_t *s = c->in[0].shape;
	double n = (double)(s[0] * s[2] * s[3]);

	for (int64_t ch = 0; ch < s[1]; ch++) {
		double mean = 0, square = 0, rstd;

		EACH_PIXEL(c->in[0])
		mean += test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)) / n;
		EACH_PIXEL(c->in[0])
		square += pow(test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)) - mean, 2);
		rstd = 1 / sqrt(square / n + c->attrs.norm.eps);
		normalize_naive(c, ch, mean, rstd);
		test_put(&c->out[1], ch, mean);
		test_put(&c->out[2], ch, rstd);
		test_put(&c->in[3], ch, 0.9 * test_get(&c->in[3], ch) + 0.1 * mean);
		test_put(&c->in[4], ch, 0.9 * test_get(&c->in[4], ch) + 0.1 * square / (n - 1));
	}
	test_put(&c->in[5], 0, 8);
}

static void batch_norm_eval_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	batch_norm_make(c, f, d);
	free(c->in[5].data);
	free(c->out[1].data);
	free(c->out[2].data);
	c->inputs = 5;
	c->outputs = 1;
}

static void batch_norm_eval_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		normalize_naive(c, ch, test_get(&c->in[3], ch),
		    1 / sqrt(test_get(&c->in[4], ch) + c->attrs.norm.eps));
}

static void batch_norm_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 6;
	c->outputs = 3;
	image(&c->in[0], f, d, 41, -1, 1);
	image(&c->in[1], f, d, 42, -1, 1);
	channels(&c->in[2], f, d, 43, -1, 1);
	channels(&c->in[3], f, d, 44, -0.5, 0.5);
	channels(&c->in[4], f, d, 45, 0.5, 2);
	image(&c->in[5], f, d, 46, -1, 1);
	c->in[5].present = variant == 1;
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->out[1] = test_tensor1(f, d[1]);
	c->out[2] = test_tensor1(f, d[1]);
}

static void batch_norm_grad_naive(struct gt_call *c)
{
	const int64_t *s = c->in[0].shape;
	double n = (double)(s[0] * s[2] * s[3]);

	for (int64_t ch = 0; ch < s[1]; ch++) {
		double sum = 0, dot = 0, mean = test_get(&c->in[3], ch),
		       rstd = test_get(&c->in[4], ch);

		EACH_PIXEL(c->in[0])
		{
			int64_t at = test_at(&c->in[0], b, ch, h, w);
			double dy = c->in[5].present && test_get(&c->in[5], at) <= 0
			                ? 0
			                : test_get(&c->in[0], at);

			sum += dy;
			dot += dy * (test_get(&c->in[1], at) - mean) * rstd;
		}
		EACH_PIXEL(c->in[0])
		{
			int64_t at = test_at(&c->in[0], b, ch, h, w);
			double dy = c->in[5].present && test_get(&c->in[5], at) <= 0
			                ? 0
			                : test_get(&c->in[0], at);
			double hat = (test_get(&c->in[1], at) - mean) * rstd;

			test_put(&c->out[0], at,
			    test_get(&c->in[2], ch) * rstd * (dy - sum / n - hat * dot / n));
		}
		test_put(&c->out[1], ch, dot);
		test_put(&c->out[2], ch, sum);
	}
}

/* w [C, B, 3, 3], plain. Variant 1: no bias of the convolution. */
static void batch_norm_fold_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 6;
	c->outputs = 2;
	c->attrs.norm.eps = 1e-5;
	c->in[0] = test_tensor4(f, d[1], d[0], 3, 3);
	c->in[0].layout = GT_PLAIN;
	test_random(&c->in[0], 51, -1, 1);
	for (int i = 1; i < 6; i++)
		channels(&c->in[i], f, d, (uint32_t)(51 + i), i == 4 ? 0.5 : -1, 1);
	c->in[5].present = variant == 0;
	c->out[0] = test_tensor4(f, d[1], d[0], 3, 3);
	c->out[0].layout = GT_PLAIN;
	c->out[1] = test_tensor1(f, d[1]);
}

static void batch_norm_fold_naive(struct gt_call *c)
{
	int64_t per = c->in[0].shape[1] * 9;

	for (int64_t o = 0; o < c->in[0].shape[0]; o++) {
		double scale = test_get(&c->in[1], o) / sqrt(test_get(&c->in[4], o) + 1e-5);
		double bias = c->in[5].present ? test_get(&c->in[5], o) : 0;

		for (int64_t i = 0; i < per; i++)
			test_put(&c->out[0], o * per + i, test_get(&c->in[0], o * per + i) * scale);
		test_put(&c->out[1], o,
		    test_get(&c->in[2], o) + (bias - test_get(&c->in[3], o)) * scale);
	}
}

static void bias_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 1;
	c->outputs = 1;
	if (variant == 4) {
		image(&c->in[0], f, d, 61, -1, 1);
	} else {
		c->in[0] = test_tensor2(f, d[0], d[1]);
		test_random(&c->in[0], 61, -1, 1);
	}
	c->out[0] = test_tensor1(f, d[1]);
}

static void bias_grad_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_elements(&c->out[0]);

	EACH(j, c->out[0])
	test_put(&c->out[0], j, 0);
	EACH(i, c->in[0])
	test_put(&c->out[0], i % n, test_get(&c->out[0], i % n) + test_get(&c->in[0], i));
}

/* ---- shapes ---- */

static void reorder_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 1;
	c->outputs = 1;
	image(&c->in[0], f, d, 71, -1, 1);
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->in[0].layout = variant ? GT_CHANNELS_LAST : GT_PLAIN;
	c->out[0].layout = variant ? GT_PLAIN : GT_CHANNELS_LAST;
}

static void reorder_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		EACH_PIXEL(c->in[0])
	test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w),
	    test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)));
}

enum { FRONT = 2, BACK = 3 };

static void subsample_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	int stride = variant;

	c->inputs = 1;
	c->outputs = 1;
	c->attrs.subsample.stride = stride;
	c->attrs.subsample.front = FRONT;
	c->attrs.subsample.back = BACK;
	c->attrs.subsample.in_height = d[2];
	c->attrs.subsample.in_width = d[3];
	image(&c->in[0], f, d, 81, -1, 1);
	c->out[0] = test_tensor4(f, d[0], FRONT + d[1] + BACK, (d[2] + stride - 1) / stride,
	    (d[3] + stride - 1) / stride);
}

static void subsample_naive(struct gt_call *c)
{
	int stride = c->attrs.subsample.stride;

	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
		{
			int64_t from = ch - FRONT;
			bool inside = from >= 0 && from < c->in[0].shape[1];

			test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w),
			    inside ? test_get(&c->in[0],
			                 test_at(&c->in[0], b, from, h * stride, w * stride))
			           : 0);
		}
}

/* Make the gradient's call from the forward's: out[0] of one is in[0] of the other. */
static void swap_ends(struct gt_call *c, uint32_t seed)
{
	struct gt_tensor t = c->in[0];

	c->in[0] = c->out[0];
	c->out[0] = t;
	memset(t.data, 0xa5, (size_t)gt_tensor_elements(&t) * gt_dtype_size(t.dtype));
	test_random(&c->in[0], seed, -1, 1);
}

static void subsample_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	subsample_make(c, f, d);
	swap_ends(c, 82);
}

static void subsample_grad_naive(struct gt_call *c)
{
	int stride = c->attrs.subsample.stride;

	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
	test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w),
	    h % stride || w % stride
	        ? 0
	        : test_get(&c->in[0], test_at(&c->in[0], b, ch + FRONT, h / stride, w / stride)));
}

/* ---- pools; variants: kernel, stride, pad as digits ---- */

static void pool_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	int k = variant / 100, stride = variant / 10 % 10, pad = variant % 10;
	int64_t h = (d[2] + 2 * pad - k) / stride + 1, w = (d[3] + 2 * pad - k) / stride + 1;

	c->inputs = 1;
	c->outputs = 2;
	c->attrs.pool.kernel = k;
	c->attrs.pool.stride = stride;
	c->attrs.pool.pad = pad;
	c->attrs.pool.in_height = d[2];
	c->attrs.pool.in_width = d[3];
	image(&c->in[0], f, d, 91, -1, 1);
	/* Whole numbers, so that windows hold equals. */
	test_random_int(&c->in[0], 92, -3, 4);
	c->out[0] = test_tensor4(f, d[0], d[1], h, w);
	c->out[1] = test_tensor4(GT_U8, d[0], d[1], h, w);
}

static void avg_pool_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	pool_make(c, f, d);
	free(c->out[1].data);
	c->outputs = 1;
}

/* Tap (i, j) of output (h, w): where in x, or -1 in the padding. */
static int64_t tap_at(const struct gt_call *c, const struct gt_tensor *x, int64_t b, int64_t ch,
    int64_t h, int64_t w, int i, int j)
{
	int64_t ih = h * c->attrs.pool.stride - c->attrs.pool.pad + i;
	int64_t iw = w * c->attrs.pool.stride - c->attrs.pool.pad + j;

	if (ih < 0 || iw < 0 || ih >= x->shape[2] || iw >= x->shape[3])
		return -1;
	return test_at(x, b, ch, ih, iw);
}

static void max_pool_naive(struct gt_call *c)
{
	int k = c->attrs.pool.kernel;

	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
		{
			int64_t at = test_at(&c->out[0], b, ch, h, w);
			double best = -INFINITY;

			for (int i = 0; i < k * k; i++) {
				int64_t from = tap_at(c, &c->in[0], b, ch, h, w, i / k, i % k);

				if (from < 0 || test_get(&c->in[0], from) <= best)
					continue;
				best = test_get(&c->in[0], from);
				test_put(&c->out[1], at, i);
			}
			test_put(&c->out[0], at, best);
		}
}

static void avg_pool_naive(struct gt_call *c)
{
	int k = c->attrs.pool.kernel;

	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
		{
			double sum = 0;

			for (int i = 0; i < k * k; i++) {
				int64_t from = tap_at(c, &c->in[0], b, ch, h, w, i / k, i % k);

				sum += from < 0 ? 0 : test_get(&c->in[0], from);
			}
			test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w), sum / (k * k));
		}
}

static void max_pool_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	pool_make(c, f, d);
	max_pool_naive(c);
	c->in[1] = c->out[1];
	swap_ends(c, 93);
	c->inputs = 2;
	c->outputs = 1;
}

static void avg_pool_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	avg_pool_make(c, f, d);
	swap_ends(c, 93);
}

static void pool_grad_naive(struct gt_call *c)
{
	int k = c->attrs.pool.kernel;

	EACH(i, c->out[0])
	test_put(&c->out[0], i, 0);
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		EACH_PIXEL(c->in[0])
	for (int i = 0; i < k * k; i++) {
		int64_t to = tap_at(c, &c->out[0], b, ch, h, w, i / k, i % k);
		int64_t at = test_at(&c->in[0], b, ch, h, w);
		double share = 1.0 / (k * k);

		if (c->inputs > 1)
			share = test_get(&c->in[1], at) == i;
		if (to >= 0)
			test_put(&c->out[0], to,
			    test_get(&c->out[0], to) + share * test_get(&c->in[0], at));
	}
}

/* ---- embedding: tokens [B, T] = [d0, d1], rows of d2, a table of d3 rows ---- */

static void embedding_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 3;
	c->outputs = 1;
	c->in[0] = test_tensor2(f, d[3], d[2]);
	c->in[1] = test_tensor2(GT_I32, d[0], d[1]);
	c->in[2] = test_tensor2(f, d[1] + 2, d[2]);
	test_random(&c->in[0], 101, -1, 1);
	test_random_int(&c->in[1], 102, 0, d[3]);
	test_random(&c->in[2], 103, -1, 1);
	c->in[2].present = variant == 0;
	c->out[0] = test_tensor3(f, d[0], d[1], d[2]);
}

static void embedding_naive(struct gt_call *c)
{
	int64_t n = gt_tensor_last(&c->in[0]), length = gt_tensor_last(&c->in[1]);

	EACH(i, c->out[0])
	{
		int64_t id = (int64_t)test_get(&c->in[1], i / n);
		double position =
		    c->in[2].present ? test_get(&c->in[2], i / n % length * n + i % n) : 0;

		test_put(&c->out[0], i, test_get(&c->in[0], id * n + i % n) + position);
	}
}

static void embedding_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
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
	c->in[2].present = variant == 0;
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

static void position_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
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

/* ---- loss ---- */

static void targets_make(struct gt_tensor *t, sizes d)
{
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

static void cross_entropy_make(struct gt_call *c, enum gt_dtype f, sizes d)
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

	EACH(r, c->in[1])
	{
		double lse = lse_of(&c->in[0], r);
		int64_t t = (int64_t)test_get(&c->in[1], r);

		test_put(&c->out[1], r, lse);
		loss += t < 0 ? 0 : 0.125 * (lse - test_get(&c->in[0], r * n + t));
	}
	test_put(&c->out[0], 0, loss);
}

static void cross_entropy_grad_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	c->inputs = 5;
	c->outputs = 1;
	scalar(&c->in[0], f, 2);
	c->in[1] = test_tensor2(f, d[0], d[1]);
	test_random(&c->in[1], 111, -5, 5);
	targets_make(&c->in[2], d);
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
		int64_t t = (int64_t)test_get(&c->in[2], i / n);
		double p = exp(test_get(&c->in[1], i) - test_get(&c->in[3], i / n));

		test_put(&c->out[0], i, t < 0 ? 0 : 2 * 0.125 * (p - (i % n == t)));
	}
}

static void classify_stats_make(struct gt_call *c, enum gt_dtype f, sizes d)
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

/* ---- dropout; variant 1: images ---- */

static void dropout_make(struct gt_call *c, enum gt_dtype f, sizes d)
{
	static const int64_t rng[4] = { 0x123456789abcdef, 77, 5, 3 };

	c->inputs = 2;
	c->outputs = 1;
	c->attrs.dropout.p = 0.3;
	c->attrs.dropout.stream = 9;
	c->in[0] = test_tensor(f, variant ? 4 : 2, d);
	c->out[0] = test_tensor(f, variant ? 4 : 2, d);
	test_random(&c->in[0], 121, 1, 2);
	c->in[1] = test_tensor1(GT_I64, 4);
	memcpy(c->in[1].data, rng, sizeof(rng));
}

static void dropout_naive(struct gt_call *c)
{
	const struct gt_tensor *t = &c->in[0];
	const int64_t *s = t->shape;
	int64_t per = gt_tensor_elements(t) / s[0];

	EACH(i, c->out[0])
	{
		uint64_t n = (uint64_t)((5 + i / per * 3) * per + i % per), block = n / 4;
		uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), 9, 77 }, word[4];
		int64_t at = i;

		if (t->ndim == 4)
			at =
			    test_at(t, i / per, i % per / (s[2] * s[3]), i / s[3] % s[2], i % s[3]);
		gt_philox(0x123456789abcdef, counter, word);
		test_put(&c->out[0], at,
		    gt_philox_float(word[n % 4]) < 0.3f ? 0 : test_get(t, at) / (1 - 0.3));
	}
}

/* ---- the table ---- */

static const struct op_case rows_cases[] = {
	{ "add", elementwise_make, add_naive, 1e-6, 0, 2 },
	{ "accumulate", accumulate_make, accumulate_naive, 1e-6, 0, 0 },
	{ "copy", unary_make, copy_naive, 0, 0, 0 },
	{ "fill", fill_make, fill_naive, 0, 0, 0 },
	{ "relu", unary_make, relu_naive, 0, 0, 1 },
	{ "relu_grad", elementwise_make, relu_grad_naive, 0, 0, 1 },
	{ "gelu", gelu_make, gelu_naive, 1e-6, GT_GELU_TANH, 0 },
	{ "gelu", gelu_make, gelu_naive, 1e-6, GT_GELU_ERF, 0 },
	{ "gelu_grad", gelu_grad_make, gelu_grad_naive, 2e-6, GT_GELU_TANH, 1 },
	{ "gelu_grad", gelu_grad_make, gelu_grad_naive, 2e-6, GT_GELU_ERF, 1 },
	{ "layer_norm", layer_norm_make, layer_norm_naive, 5e-6, 0, 0 },
	{ "layer_norm", layer_norm_make, layer_norm_naive, 5e-6, 1, 0 },
	{ "layer_norm_grad", layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 0, 0 },
	{ "layer_norm_grad", layer_norm_grad_make, layer_norm_grad_naive, 5e-6, 1, 0 },
	{ "bias_grad", bias_grad_make, bias_grad_naive, 2e-5, 2, 0 },
	{ "cross_entropy", cross_entropy_make, cross_entropy_naive, 1e-6, 0, 0 },
	{ "cross_entropy_grad", cross_entropy_grad_make, cross_entropy_grad_naive, 1e-6, 0, 2 },
	{ "classify_stats", classify_stats_make, classify_stats_naive, 1e-6, 0, 0 },
	{ "dropout", dropout_make, dropout_naive, 1e-6, 0, 1 },
};

static const struct op_case image_cases[] = {
	{ "batch_norm", batch_norm_make, batch_norm_naive, 2e-6, 0, 0 },
	{ "batch_norm", batch_norm_make, batch_norm_naive, 2e-6, 1, 0 },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6, 0, 1 },
	{ "batch_norm_grad", batch_norm_grad_make, batch_norm_grad_naive, 2e-6, 1, 1 },
	{ "batch_norm_eval", batch_norm_eval_make, batch_norm_eval_naive, 2e-6, 0, 1 },
	{ "batch_norm_eval", batch_norm_eval_make, batch_norm_eval_naive, 2e-6, 1, 1 },
	{ "batch_norm_fold", batch_norm_fold_make, batch_norm_fold_naive, 1e-6, 0, 0 },
	{ "batch_norm_fold", batch_norm_fold_make, batch_norm_fold_naive, 1e-6, 1, 0 },
	{ "bias_grad", bias_grad_make, bias_grad_naive, 2e-5, 4, 0 },
	{ "reorder", reorder_make, reorder_naive, 0, 0, 0 },
	{ "reorder", reorder_make, reorder_naive, 0, 1, 0 },
	{ "subsample", subsample_make, subsample_naive, 0, 1, 0 },
	{ "subsample", subsample_make, subsample_naive, 0, 2, 0 },
	{ "subsample_grad", subsample_grad_make, subsample_grad_naive, 0, 2, 0 },
	{ "subsample_grad", subsample_grad_make, subsample_grad_naive, 0, 3, 0 },
	{ "max_pool2d", pool_make, max_pool_naive, 0, 220, 0 },
	{ "max_pool2d", pool_make, max_pool_naive, 0, 321, 0 },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, 220, 0 },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, 321, 0 },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, 210, 0 },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, 321, 0 },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, 210, 0 },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, 321, 0 },
	{ "dropout", dropout_make, dropout_naive, 1e-6, 1, 1 },
};

static const struct op_case token_cases[] = {
	{ "embedding", embedding_make, embedding_naive, 1e-6, 0, 0 },
	{ "embedding", embedding_make, embedding_naive, 1e-6, 1, 0 },
	{ "embedding_grad", embedding_grad_make, embedding_grad_naive, 2e-6, 0, 3 },
	{ "embedding_grad", embedding_grad_make, embedding_grad_naive, 2e-6, 1, 0 },
	{ "position_grad", position_grad_make, position_grad_naive, 1e-6, 0, 0 },
};

/* The last of each is large enough for a second thread. */
static sizes row_sizes[] = { { 1, 1 }, { 3, 17 }, { 65, 3 }, { 17, 65 }, { 5, 768 }, { 301, 129 } };
static sizes image_sizes[] = { { 2, 1, 2, 3 }, { 1, 3, 5, 7 }, { 2, 17, 4, 3 }, { 3, 65, 3, 5 },
	{ 5, 16, 25, 27 } };
static sizes token_sizes[] = { { 1, 1, 1, 1 }, { 3, 5, 17, 7 }, { 2, 3, 65, 65 },
	{ 4, 65, 150, 33 } };

static void compare(const struct op_case *o, const char *set, const struct gt_tensor *got,
    const struct gt_tensor *want, double tolerance)
{
	if (!want->present)
		return;
	EACH(i, *want)
	{
		double g = test_get(got, i), w = test_get(want, i);

		if (!(fabs(g - w) <= tolerance * (1 + fabs(w))))
			fail_msg("%s (%d) %s %s, %lld elements: element %lld is %.9g, not %.9g",
			    o->op, o->variant, set, gt_dtype_name(got->dtype),
			    (long long)gt_tensor_elements(got), (long long)i, g, w);
	}
}

/* Run with some threads and compare all that the op may have written. */
static void run_and_compare(const struct op_case *o, const struct test_set *set, struct gt_call *c,
    const struct gt_call *want, int threads)
{
	enum gt_dtype f = c->outputs ? c->out[0].dtype : c->in[0].dtype;
	struct gt_err err = GT_ERR_INIT;
	double tolerance;

	if (!strcmp(o->op, "classify_stats"))
		f = c->in[0].dtype;
	tolerance = f == GT_F64 ? 1e-11 : o->tolerance;
	omp_set_num_threads(threads);
	if (test_run(set->set, o->op, f, c, &err))
		fail_msg("%s %s: %s", o->op, set->name, err.text);
	for (int i = 0; i < c->outputs; i++)
		compare(o, set->name, &c->out[i], &want->out[i], tolerance);
	for (int i = 0; i < c->inputs; i++)
		if (i + 1 != o->overwrites)
			compare(o, set->name, &c->in[i], &want->in[i], tolerance);
}

static void same_bits(const struct op_case *o, const struct gt_call *a, const struct gt_call *b)
{
	for (int i = 0; i < a->outputs; i++)
		if (a->out[i].present &&
		    memcmp(a->out[i].data, b->out[i].data,
		        (size_t)gt_tensor_elements(&a->out[i]) * gt_dtype_size(a->out[i].dtype)))
			fail_msg("%s: output %d depends on the number of threads", o->op, i);
}

static void check_case(const struct op_case *o, sizes d)
{
	struct test_set set[3];
	struct gt_call want = { 0 };
	int sets = test_sets(set);

	variant = o->variant;
	o->make(&want, GT_F64, d);
	o->naive(&want);
	for (int s = 0; s < sets; s++)
		for (int type = 0; type < 2; type++) {
			enum gt_dtype f = type ? GT_F32 : GT_F64;
			struct gt_call one = { 0 }, two = { 0 };

			o->make(&one, f, d);
			o->make(&two, f, d);
			if (o->overwrites) {
				free(two.out[0].data);
				two.out[0].data = two.in[o->overwrites - 1].data;
			}
			run_and_compare(o, &set[s], &one, &want, 1);
			run_and_compare(o, &set[s], &two, &want, 2);
			same_bits(o, &one, &two);
			test_release(&one);
			test_release(&two);
		}
	test_release(&want);
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows_cases); i++)
		for (size_t j = 0; j < COUNT(row_sizes); j++)
			check_case(&rows_cases[i], row_sizes[j]);
}

static void test_images(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(image_cases); i++)
		for (size_t j = 0; j < COUNT(image_sizes); j++)
			check_case(&image_cases[i], image_sizes[j]);
}

static void test_tokens(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(token_cases); i++)
		for (size_t j = 0; j < COUNT(token_sizes); j++)
			check_case(&token_cases[i], token_sizes[j]);
}

/* Every row of the tables of this folder stands in one of the tables above or in a test below. */
static bool is_tested(const char *op)
{
	for (size_t i = 0; i < COUNT(rows_cases); i++)
		if (!strcmp(rows_cases[i].op, op))
			return true;
	for (size_t i = 0; i < COUNT(image_cases); i++)
		if (!strcmp(image_cases[i].op, op))
			return true;
	for (size_t i = 0; i < COUNT(token_cases); i++)
		if (!strcmp(token_cases[i].op, op))
			return true;
	return !strcmp(op, "image_normalize") || !strncmp(op, "attention", 9);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	for (int i = 0; gt_cpu_set_base.tables[i]; i++) {
		const struct gt_kernel *k = gt_cpu_set_base.tables[i];

		if (k == gt_cpu_matmul_kernels || k == gt_cpu_conv_kernels)
			continue;
		for (; k->op; k++)
			if (!is_tested(k->op))
				fail_msg("no test of '%s'", k->op);
	}
}

static void test_image_normalize(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 2 * sets; k++) {
		struct gt_call c = { .inputs = 1, .outputs = 1 };
		struct gt_err err = GT_ERR_INIT;

		c.in[0] = test_tensor4(GT_U8, 3, 5, 7, 3); /* [B, H, W, C], row-major */
		c.in[0].layout = GT_PLAIN;
		test_random_int(&c.in[0], 131, 0, 256);
		c.out[0] = test_tensor4(GT_F32, 3, 3, 5, 7);
		c.out[0].layout = k % 2 ? GT_CHANNELS_LAST : GT_PLAIN;
		for (int ch = 0; ch < 3; ch++) {
			c.attrs.normalize.mean[ch] = 0.25f + 0.125f * (float)ch;
			c.attrs.normalize.std[ch] = 0.5f + 0.25f * (float)ch;
		}
		assert_int_equal(test_run(set[k / 2].set, "image_normalize", GT_F32, &c, &err), 0);
		for (int ch = 0; ch < 3; ch++)
			EACH_PIXEL(c.out[0])
			{
				float x = (float)test_get(&c.in[0], ((b * 5 + h) * 7 + w) * 3 + ch);
				float want = (x / 255.0f - c.attrs.normalize.mean[ch]) /
				             c.attrs.normalize.std[ch];

				assert_true((float)test_get(&c.out[0],
				                test_at(&c.out[0], b, ch, h, w)) == want);
			}
		test_release(&c);
	}
}

/* One NaN in input 0 must be seen in output 0. */
static void test_nan(void **state)
{
	static const char *const ops[] = { "add", "relu", "gelu", "gelu_grad", "layer_norm",
		"batch_norm", "batch_norm_grad", "batch_norm_eval", "bias_grad", "max_pool2d",
		"avg_pool2d", "cross_entropy", "classify_stats" };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t i = 0; i < COUNT(rows_cases) + COUNT(image_cases); i++) {
		bool rows = i < COUNT(rows_cases);
		const struct op_case *o =
		    rows ? &rows_cases[i] : &image_cases[i - COUNT(rows_cases)];
		bool listed = false;

		for (size_t j = 0; j < COUNT(ops); j++)
			listed |= !strcmp(ops[j], o->op);
		for (int k = 0; listed && k < 2 * sets; k++) {
			struct gt_call c = { 0 };
			struct gt_err err = GT_ERR_INIT;
			int seen = 0;

			variant = o->variant;
			o->make(&c, k % 2 ? GT_F32 : GT_F64, rows ? row_sizes[3] : image_sizes[2]);
			test_put(&c.in[0], 5, NAN);
			assert_int_equal(
			    test_run(set[k / 2].set, o->op, c.in[0].dtype, &c, &err), 0);
			EACH(e, c.out[0])
			seen += isnan(test_get(&c.out[0], e)) != 0;
			if (!seen)
				fail_msg(
				    "%s (%d) %s loses NaN", o->op, o->variant, set[k / 2].name);
			test_release(&c);
		}
	}
}

static void test_nan_is_no_hit(void **state)
{
	struct gt_call c = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	classify_stats_make(&c, GT_F32, (sizes){ 1, 17 });
	test_put(&c.in[0], (int64_t)test_get(&c.in[1], 0), 100);
	test_put(&c.in[0], 16, NAN);
	test_put(&c.in[1], 0, 3);
	assert_int_equal(test_run(&gt_cpu_set_base, "classify_stats", GT_F32, &c, &err), 0);
	assert_true(test_get(&c.out[0], 1) == 1 && test_get(&c.out[0], 2) == 0);
	assert_true(test_get(&c.out[0], 3) == 0);
	test_release(&c);
}

/* Ids and targets from outside are refused by name, before memory is touched. */
static void test_out_of_range(void **state)
{
	static const struct {
		const char *op;
		void (*make)(struct gt_call *, enum gt_dtype, sizes);
		int input;
		int64_t at;
		int32_t value;
		const char *text;
	} bad[] = {
		{ "embedding", embedding_make, 1, 7, 7,
		    "embedding: id 7 at [1, 2] is outside the table of 7 rows" },
		{ "embedding", embedding_make, 1, 0, -1,
		    "embedding: id -1 at [0, 0] is outside the table of 7 rows" },
		{ "embedding_grad", embedding_grad_make, 1, 14, INT32_MAX,
		    "embedding: id 2147483647 at [2, 4] is outside the table of 7 rows" },
		{ "cross_entropy", cross_entropy_make, 1, 2, 5,
		    "cross_entropy: target 5 of row 2 is not one of 5 classes" },
		{ "cross_entropy_grad", cross_entropy_grad_make, 2, 0, 99,
		    "cross_entropy: target 99 of row 0 is not one of 5 classes" },
		{ "classify_stats", classify_stats_make, 1, 1, 5,
		    "cross_entropy: target 5 of row 1 is not one of 5 classes" },
	};

	(void)state;
	variant = 0;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct gt_call c = { 0 };
		struct gt_err err = GT_ERR_INIT;

		bad[i].make(&c, GT_F32, (sizes){ 3, 5, 17, 7 });
		((int32_t *)c.in[bad[i].input].data)[bad[i].at] = bad[i].value;
		assert_int_equal(
		    test_run(&gt_cpu_set_base, bad[i].op, GT_F32, &c, &err), GT_EINVAL);
		assert_string_equal(err.text, bad[i].text);
		test_release(&c);
	}
}

static void test_batch_norm_of_one_value(void **state)
{
	struct gt_call c = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	batch_norm_make(&c, GT_F32, (sizes){ 1, 4, 1, 1 });
	assert_int_equal(test_run(&gt_cpu_set_base, "batch_norm", GT_F32, &c, &err), GT_EINVAL);
	assert_string_equal(err.text, "batch_norm: 1 value per channel has no variance");
	test_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_image_normalize),
		cmocka_unit_test(test_nan),
		cmocka_unit_test(test_nan_is_no_hit),
		cmocka_unit_test(test_out_of_range),
		cmocka_unit_test(test_batch_norm_of_one_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
