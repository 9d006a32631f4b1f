/* test_kernels_image.c - layouts, subsampling and pools, against plain loops in float64. */
#include "tests/common/kernel_cases.h"

static void reorder_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = 1;
	c->outputs = 1;
	kernel_image(&c->in[0], f, d, 71, -1, 1);
	c->out[0] = test_tensor4(f, d[0], d[1], d[2], d[3]);
	c->in[0].layout = d[VARIANT] ? GT_CHANNELS_LAST : GT_PLAIN;
	c->out[0].layout = d[VARIANT] ? GT_PLAIN : GT_CHANNELS_LAST;
}

static void reorder_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		EACH_PIXEL(c->in[0])
	test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w),
	    test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w)));
}

enum { FRONT = 2, BACK = 3 };

static void subsample_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	int stride = d[VARIANT];

	c->inputs = 1;
	c->outputs = 1;
	c->attrs.subsample.stride = stride;
	c->attrs.subsample.front = FRONT;
	c->attrs.subsample.back = BACK;
	c->attrs.subsample.in_height = d[2];
	c->attrs.subsample.in_width = d[3];
	kernel_image(&c->in[0], f, d, 81, -1, 1);
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

static void subsample_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
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

/* ---- pools; variants: kernel, stride, pad as digits, or a number in a table of forms ---- */

struct pool_form {
	struct gt_window window;
	int64_t parts[2];
	bool ceil_mode, exclude_pad;
};

enum { UNEQUAL, DILATED, CEILING, CEILING_PAIRS, EXCLUDED, CEILING_EXCLUDED, DIVIDED };

static const struct pool_form pool_forms[] = {
	[UNEQUAL] = { { { 3, 2 }, { 1, 2 }, { 1, 1 }, { 1, 1 } }, { 0, 0 }, false, false },
	[DILATED] = { { { 3, 2 }, { 2, 1 }, { 2, 1 }, { 2, 3 } }, { 0, 0 }, false, false },
	[CEILING] = { { { 3, 3 }, { 2, 3 }, { 1, 0 }, { 1, 1 } }, { 0, 0 }, true, false },
	[CEILING_PAIRS] = { { { 2, 2 }, { 2, 2 }, { 0, 0 }, { 1, 1 } }, { 0, 0 }, true, false },
	[EXCLUDED] = { { { 3, 3 }, { 2, 1 }, { 1, 1 }, { 1, 1 } }, { 0, 0 }, false, true },
	[CEILING_EXCLUDED] = { { { 3, 3 }, { 2, 3 }, { 1, 1 }, { 1, 1 } }, { 0, 0 }, true, true },
	[DIVIDED] = { { { 0 }, { 0 }, { 0 }, { 0 } }, { 3, 2 }, false, false },
};

/* Where windows divide an image, the window has the size of the largest one. */
static struct gt_window largest_window(const struct pool_form *f, kernel_sizes d)
{
	struct gt_window w = { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } };

	for (int i = 0; i < 2; i++)
		for (int64_t k = 0; k < f->parts[i]; k++) {
			int64_t in = d[2 + i], parts = f->parts[i];
			int64_t taps = ((k + 1) * in + parts - 1) / parts - k * in / parts;

			if (taps > w.kernel[i])
				w.kernel[i] = (int)taps;
		}
	return w;
}

static struct pool_form form_of(int64_t variant)
{
	if (variant < 100)
		return pool_forms[variant];
	return (struct pool_form){ .window = test_window((int)(variant / 100),
		                       (int)(variant / 10 % 10), (int)(variant % 10)) };
}

static int64_t pool_size(const struct pool_form *f, int dim, int64_t in)
{
	const struct gt_window *w = &f->window;
	int64_t n;

	if (f->parts[dim])
		return f->parts[dim];
	n = in + 2 * w->pad[dim] - w->dilation[dim] * (w->kernel[dim] - 1) - 1;
	if (!f->ceil_mode)
		return n / w->stride[dim] + 1;
	n = (n + w->stride[dim] - 1) / w->stride[dim] + 1;
	return (n - 1) * w->stride[dim] >= in + w->pad[dim] ? n - 1 : n;
}

static void pool_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	const struct pool_form form = form_of(d[VARIANT]);
	int64_t h = pool_size(&form, 0, d[2]), w = pool_size(&form, 1, d[3]);

	c->inputs = 1;
	c->outputs = 2;
	c->attrs.pool.window = form.parts[0] ? largest_window(&form, d) : form.window;
	c->attrs.pool.parts[0] = (int)form.parts[0];
	c->attrs.pool.parts[1] = (int)form.parts[1];
	c->attrs.pool.ceil_mode = form.ceil_mode;
	c->attrs.pool.exclude_pad = form.exclude_pad;
	c->attrs.pool.in_height = d[2];
	c->attrs.pool.in_width = d[3];
	kernel_image(&c->in[0], f, d, 91, -1, 1);
	/* Whole numbers, so that windows hold equals. */
	test_random_int(&c->in[0], 92, -3, 4);
	c->out[0] = test_tensor4(f, d[0], d[1], h, w);
	c->out[1] = test_tensor4(GT_U8, d[0], d[1], h, w);
}

static void avg_pool_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	pool_make(c, f, d);
	free(c->out[1].data);
	c->outputs = 1;
}

/* The row (dim 0) or column of a window's first tap, and the number of its taps. */
struct taps {
	int64_t start, count;
};

static struct taps taps_of(const struct gt_call *c, int dim, int64_t size, int64_t window)
{
	const struct gt_window *f = &c->attrs.pool.window;
	int64_t parts = c->attrs.pool.parts[dim];
	struct taps t = { window * f->stride[dim] - f->pad[dim], f->kernel[dim] };

	if (parts) {
		t.start = window * size / parts;
		t.count = ((window + 1) * size + parts - 1) / parts - t.start;
	}
	return t;
}

/* A window of an image x: its taps in both dimensions. */
struct window {
	struct taps rows, columns;
};

static struct window window_of(
    const struct gt_call *c, const struct gt_tensor *x, int64_t h, int64_t w)
{
	return (struct window){ taps_of(c, 0, x->shape[2], h), taps_of(c, 1, x->shape[3], w) };
}

/* Where in x tap `tap` of the window is, or -1 in the padding. */
static int64_t tap_at(const struct gt_call *c, const struct gt_tensor *x, int64_t b, int64_t ch,
    const struct window *f, int64_t tap)
{
	const int *dilation = c->attrs.pool.window.dilation;
	bool parts = c->attrs.pool.parts[0];
	int64_t i = tap / f->columns.count, j = tap % f->columns.count;
	int64_t ih = f->rows.start + i * (parts ? 1 : dilation[0]);
	int64_t iw = f->columns.start + j * (parts ? 1 : dilation[1]);

	if (ih < 0 || iw < 0 || ih >= x->shape[2] || iw >= x->shape[3])
		return -1;
	return test_at(x, b, ch, ih, iw);
}

/* The number of elements that the mean of a window is of. */
static int64_t mean_count(
    const struct gt_call *c, const struct gt_tensor *x, const struct window *f)
{
	const int *pad = c->attrs.pool.window.pad;
	int64_t n = 0;

	for (int64_t i = 0; i < f->rows.count; i++)
		for (int64_t j = 0; j < f->columns.count; j++) {
			int64_t h = f->rows.start + i, w = f->columns.start + j;
			bool inside = h >= 0 && w >= 0 && h < x->shape[2] && w < x->shape[3];
			bool in_pad = h < x->shape[2] + pad[0] && w < x->shape[3] + pad[1];

			n += inside || (in_pad && !c->attrs.pool.exclude_pad);
		}
	return n;
}

/* The index of tap i of a window, as max_pool2d counts them. */
static double tap_index(const struct gt_call *c, const struct window *f, int64_t i)
{
	int64_t count = f->columns.count;

	if (!c->attrs.pool.parts[0])
		return (double)i;
	return (double)(i / count * c->attrs.pool.window.kernel[1] + i % count);
}

static int64_t taps_in(const struct window *f)
{
	return f->rows.count * f->columns.count;
}

static void max_pool_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
		{
			const struct window f = window_of(c, &c->in[0], h, w);
			int64_t at = test_at(&c->out[0], b, ch, h, w);
			double best = -INFINITY;

			for (int64_t i = 0; i < taps_in(&f); i++) {
				int64_t from = tap_at(c, &c->in[0], b, ch, &f, i);

				if (from < 0 || test_get(&c->in[0], from) <= best)
					continue;
				best = test_get(&c->in[0], from);
				test_put(&c->out[1], at, tap_index(c, &f, i));
			}
			test_put(&c->out[0], at, best);
		}
}

static void avg_pool_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
		{
			const struct window f = window_of(c, &c->in[0], h, w);
			double sum = 0;

			for (int64_t i = 0; i < taps_in(&f); i++) {
				int64_t from = tap_at(c, &c->in[0], b, ch, &f, i);

				sum += from < 0 ? 0 : test_get(&c->in[0], from);
			}
			test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w),
			    sum / (double)mean_count(c, &c->in[0], &f));
		}
}

static void max_pool_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	pool_make(c, f, d);
	max_pool_naive(c);
	c->in[1] = c->out[1];
	swap_ends(c, 93);
	c->inputs = 2;
	c->outputs = 1;
}

static void avg_pool_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	avg_pool_make(c, f, d);
	swap_ends(c, 93);
}

static void pool_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, 0);
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		EACH_PIXEL(c->in[0])
		{
			const struct window f = window_of(c, &c->out[0], h, w);
			int64_t at = test_at(&c->in[0], b, ch, h, w);

			for (int64_t i = 0; i < taps_in(&f); i++) {
				int64_t to = tap_at(c, &c->out[0], b, ch, &f, i);
				double share = 1.0 / (double)mean_count(c, &c->out[0], &f);

				if (c->inputs > 1)
					share = test_get(&c->in[1], at) == tap_index(c, &f, i);
				if (to >= 0)
					test_put(&c->out[0], to,
					    test_get(&c->out[0], to) +
					        share * test_get(&c->in[0], at));
			}
		}
}

/* ---- last_position: [d0, d1, d2] ---- */

/* Variant 1: of sequences of different lengths. */

static void last_position_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	c->inputs = d[VARIANT] ? 2 : 1;
	c->outputs = 1;
	c->in[0] = test_tensor3(f, d[0], d[1], d[2]);
	test_random(&c->in[0], 141, -1, 1);
	if (d[VARIANT])
		c->in[1] = test_tensor1(GT_I32, d[0]);
	for (int64_t i = 0; d[VARIANT] && i < d[0]; i++) /* also outside of the sequence */
		((int32_t *)c->in[1].data)[i] = (int32_t)((i * 5 + 1) % (d[1] + 4) - 2);
	c->out[0] = test_tensor2(f, d[0], d[2]);
}

static void last_position_naive(struct gt_call *c)
{
	int64_t length = c->in[0].shape[1], n = c->in[0].shape[2];

	EACH(i, c->out[0])
	{
		int64_t t = length - 1;

		if (c->inputs > 1 && test_get(&c->in[1], i / n) < (double)t)
			t = (int64_t)test_get(&c->in[1], i / n);
		t = t < 0 ? 0 : t;
		test_put(&c->out[0], i, test_get(&c->in[0], (i / n * length + t) * n + i % n));
	}
}

/* ---- tokens ---- */

/* Variant 1: the gradient. */
static void patch_tokens_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	struct gt_tensor rows = test_tensor3(f, d[0], 1 + d[2] * d[3], d[1]), image;
	struct gt_tensor token = test_tensor3(f, 1, 1, d[1]);
	struct gt_tensor position = test_tensor3(f, 1, 1 + d[2] * d[3], d[1]);

	kernel_image(&image, f, d, 151, -1, 1);
	test_random(&rows, 152, -1, 1);
	test_random(&token, 153, -1, 1);
	test_random(&position, 154, -1, 1);
	c->inputs = d[VARIANT] ? 1 : 3;
	c->outputs = d[VARIANT] ? 3 : 1;
	c->in[0] = d[VARIANT] ? rows : image;
	c->out[0] = d[VARIANT] ? image : rows;
	(d[VARIANT] ? c->out : c->in)[1] = token;
	(d[VARIANT] ? c->out : c->in)[2] = position;
}

/* The element of an image that is column i % n of row i / n > 0 of a sample. */
static int64_t pixel_of(const struct gt_tensor *image, int64_t sample, int64_t i)
{
	int64_t n = image->shape[1], width = image->shape[3], at = i / n - 1;

	return test_at(image, sample, i % n, at / width, at % width);
}

static void patch_tokens_naive(struct gt_call *c)
{
	int64_t n = c->in[0].shape[1], sample = gt_tensor_elements(&c->in[2]);

	EACH(i, c->out[0])
	test_put(&c->out[0], i,
	    test_get(&c->in[2], i % sample) +
	        (i % sample < n
	                ? test_get(&c->in[1], i % sample)
	                : test_get(&c->in[0], pixel_of(&c->in[0], i / sample, i % sample))));
}

static void patch_tokens_grad_naive(struct gt_call *c)
{
	int64_t n = c->out[0].shape[1], sample = gt_tensor_elements(&c->out[2]);

	EACH(i, c->out[2])
	{
		double sum = 0;

		for (int64_t b = 0; b < c->in[0].shape[0]; b++) {
			double dy = test_get(&c->in[0], b * sample + i);

			sum += dy;
			if (i >= n)
				test_put(&c->out[0], pixel_of(&c->out[0], b, i), dy);
		}
		test_put(&c->out[2], i, sum);
		if (i < n)
			test_put(&c->out[1], i, sum);
	}
}

static const struct kernel_case cases[] = {
	{ "patch_tokens", patch_tokens_make, patch_tokens_naive, 1e-6, 0, 0, true },
	{ "patch_tokens_grad", patch_tokens_make, patch_tokens_grad_naive, 1e-6, 1, 0, false },
	{ "reorder", reorder_make, reorder_naive, 0, 0, 0, false },
	{ "reorder", reorder_make, reorder_naive, 0, 1, 0, false },
	{ "subsample", subsample_make, subsample_naive, 0, 1, 0, false },
	{ "subsample", subsample_make, subsample_naive, 0, 2, 0, false },
	{ "subsample_grad", subsample_grad_make, subsample_grad_naive, 0, 2, 0, false },
	{ "subsample_grad", subsample_grad_make, subsample_grad_naive, 0, 3, 0, false },
	{ "max_pool2d", pool_make, max_pool_naive, 0, 220, 0, true },
	{ "max_pool2d", pool_make, max_pool_naive, 0, 210, 0, true },
	{ "max_pool2d", pool_make, max_pool_naive, 0, 321, 0, true },
	{ "max_pool2d", pool_make, max_pool_naive, 0, UNEQUAL, 0, true },
	{ "max_pool2d", pool_make, max_pool_naive, 0, DILATED, 0, false },
	{ "max_pool2d", pool_make, max_pool_naive, 0, CEILING, 0, true },
	{ "max_pool2d", pool_make, max_pool_naive, 0, CEILING_PAIRS, 0, true },
	{ "max_pool2d", pool_make, max_pool_naive, 0, DIVIDED, 0, true },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, DIVIDED, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, 220, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, 210, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, 321, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, UNEQUAL, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, DILATED, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, CEILING, 0, false },
	{ "max_pool2d_grad", max_pool_grad_make, pool_grad_naive, 1e-6, CEILING_PAIRS, 0, false },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, 210, 0, true },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, 321, 0, true },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, UNEQUAL, 0, true },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, CEILING, 0, true },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, EXCLUDED, 0, true },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, CEILING_EXCLUDED, 0, true },
	{ "avg_pool2d", avg_pool_make, avg_pool_naive, 1e-6, DIVIDED, 0, true },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, 210, 0, false },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, 321, 0, false },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, UNEQUAL, 0, false },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, CEILING, 0, false },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, EXCLUDED, 0, false },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, CEILING_EXCLUDED, 0,
	    false },
	{ "avg_pool2d_grad", avg_pool_grad_make, pool_grad_naive, 1e-6, DIVIDED, 0, false },
	{ "last_position", last_position_make, last_position_naive, 0, 0, 0, false },
	{ "last_position", last_position_make, last_position_naive, 1, 0, 0, false },
};

/* Copy the first channels of an image into one that has no more. */
static void take_channels(struct gt_tensor *few, const struct gt_tensor *many)
{
	for (int64_t ch = 0; ch < few->shape[1]; ch++)
		EACH_PIXEL(*few)
	test_put(few, test_at(few, b, ch, h, w), test_get(many, test_at(many, b, ch, h, w)));
}

/* Few channels are another loop than many: the same bits, with NaN, infinities and signed zeros. */
static void test_max_pool_of_few_channels(void **state)
{
	static const double odd[] = { NAN, -INFINITY, INFINITY, -0.0, 0.0 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 4 * sets; k++) {
		enum gt_dtype f = k & 1 ? GT_F32 : GT_F64;
		const int64_t variant = k & 2 ? 220 : 210;
		struct gt_call many = { 0 }, few = { 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_tensor want;

		pool_make(&many, f, (int64_t[]){ 2, 40, 9, 7, variant });
		pool_make(&few, f, (int64_t[]){ 2, 5, 9, 7, variant });
		for (int64_t i = 0; i < gt_tensor_elements(&many.in[0]); i += 1 + i % 4)
			test_put(&many.in[0], i, odd[i / 3 % 5]);
		take_channels(&few.in[0], &many.in[0]);
		assert_int_equal(test_run(set[k / 4].set, "max_pool2d", f, &many, &err), 0);
		assert_int_equal(test_run(set[k / 4].set, "max_pool2d", f, &few, &err), 0);
		for (int i = 0; i < 2; i++) {
			size_t bytes = (size_t)gt_tensor_elements(&few.out[i]) *
			               gt_dtype_size(few.out[i].dtype);

			want = test_tensor4(
			    few.out[i].dtype, 2, 5, few.out[i].shape[2], few.out[i].shape[3]);
			take_channels(&want, &many.out[i]);
			assert_memory_equal(few.out[i].data, want.data, bytes);
			free(want.data);
		}
		test_release(&many);
		test_release(&few);
	}
}

static void test_images(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_IMAGES);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), "image_normalize");
}

static void test_image_normalize(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int k = 0; k < 8 * sets; k++) {
		struct gt_call c = { .inputs = 1, .outputs = 1 };
		struct gt_err err = GT_ERR_INIT;
		bool mixed = k & 2;
		int64_t height = k & 4 ? 8 : 5;

		/* [B, H, W, C], row-major */
		c.in[0] = test_tensor4(mixed ? GT_F32 : GT_U8, 3, height, 7, 3);
		c.in[0].layout = GT_PLAIN;
		if (mixed)
			test_random(&c.in[0], 131, 0, 255);
		else
			test_random_int(&c.in[0], 131, 0, 256);
		c.out[0] = test_tensor4(GT_F32, 3, 3, height, 7);
		c.out[0].layout = k % 2 ? GT_CHANNELS_LAST : GT_PLAIN;
		for (int ch = 0; ch < 3; ch++) {
			c.attrs.normalize.mean[ch] = 0.25f + 0.125f * (float)ch;
			c.attrs.normalize.std[ch] = 0.5f + 0.25f * (float)ch;
		}
		assert_int_equal(test_run(set[k / 8].set, "image_normalize", GT_F32, &c, &err), 0);
		for (int ch = 0; ch < 3; ch++)
			EACH_PIXEL(c.out[0])
			{
				float x =
				    (float)test_get(&c.in[0], ((b * height + h) * 7 + w) * 3 + ch);
				float want = (x / 255.0f - c.attrs.normalize.mean[ch]) /
				             c.attrs.normalize.std[ch];

				assert_true((float)test_get(&c.out[0],
				                test_at(&c.out[0], b, ch, h, w)) == want);
			}
		test_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_max_pool_of_few_channels),
		cmocka_unit_test(test_table_is_covered),
		cmocka_unit_test(test_image_normalize),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
