/* test_kernels_resample.c - images of another size, against plain loops in float64. */
#include "tests/common/kernel_cases.h"

/* ---- variants: the mode, and the size of the result ---- */

enum { NEAREST = 0, LINEAR = 10, CORNERS = 20 };

/* Sizes as fractions of those of the input, rounded up, and whether the factor is given. */
static const struct size {
	int up[2], down[2];
	bool given;
} sizes[] = {
	{ { 2, 2 }, { 1, 1 }, false },
	{ { 1, 1 }, { 3, 2 }, false },
	{ { 7, 5 }, { 3, 4 }, false },
	{ { 8, 10 }, { 3, 7 }, true },
	{ { 1, 9 }, { 1, 1 }, false },
	{ { 1, 1 }, { 100, 100 }, false },
};

static bool is_linear(int64_t variant)
{
	return variant >= LINEAR;
}

static float scale_of(int64_t variant, const struct size *s, int dim, int64_t in, int64_t out)
{
	if (variant >= CORNERS)
		return out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
	return s->given ? (float)s->down[dim] / (float)s->up[dim] : (float)in / (float)out;
}

static void resample_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	const struct size *s = &sizes[d[VARIANT] % 10];
	int64_t out[2];

	c->inputs = 1;
	c->outputs = 1;
	c->attrs.resample.linear = is_linear(d[VARIANT]);
	c->attrs.resample.align = d[VARIANT] >= CORNERS;
	for (int i = 0; i < 2; i++) {
		out[i] = (d[2 + i] * s->up[i] + s->down[i] - 1) / s->down[i];
		c->attrs.resample.size[i] = (int)out[i];
		c->attrs.resample.scale[i] = scale_of(d[VARIANT], s, i, d[2 + i], out[i]);
	}
	c->attrs.resample.in_height = d[2];
	c->attrs.resample.in_width = d[3];
	kernel_image(&c->in[0], f, d, 161, -1, 1);
	c->out[0] = test_tensor4(f, d[0], d[1], out[0], out[1]);
}

/* ---- what an element of the result is made of ---- */

struct tap {
	int64_t from, to;
	double weight;
};

static struct tap tap_of(const struct gt_call *c, int dim, int64_t in, int64_t i)
{
	float scale = c->attrs.resample.scale[dim], nearest = scale * (float)i;
	double at = (double)scale * ((double)i + 0.5) - 0.5;
	struct tap t;

	if (!c->attrs.resample.linear)
		at = floor((double)nearest);
	else if (c->attrs.resample.align)
		at = (double)scale * (double)i;
	at = at < 0 ? 0 : at;
	t.from = (int64_t)at < in ? (int64_t)at : in - 1;
	t.to = t.from + 1 < in ? t.from + 1 : t.from;
	t.weight = c->attrs.resample.linear ? at - (double)t.from : 0;
	return t;
}

/* The places in an image of the four elements that pixel (h, w) of the result reads, with their
 * shares. */
struct corner {
	int64_t at;
	double share;
};

static void corners_of(const struct gt_call *c, const struct gt_tensor *x, const int64_t pixel[4],
    struct corner out[4])
{
	struct tap h = tap_of(c, 0, x->shape[2], pixel[2]);
	struct tap w = tap_of(c, 1, x->shape[3], pixel[3]);

	for (int k = 0; k < 4; k++) {
		out[k].at =
		    test_at(x, pixel[0], pixel[1], k & 2 ? h.to : h.from, k & 1 ? w.to : w.from);
		out[k].share =
		    (k & 2 ? h.weight : 1 - h.weight) * (k & 1 ? w.weight : 1 - w.weight);
	}
}

static void resample_naive(struct gt_call *c)
{
	for (int64_t ch = 0; ch < c->out[0].shape[1]; ch++)
		EACH_PIXEL(c->out[0])
		{
			struct corner from[4];
			double sum = 0;

			corners_of(c, &c->in[0], (int64_t[]){ b, ch, h, w }, from);
			for (int k = 0; k < 4; k++)
				sum += from[k].share * test_get(&c->in[0], from[k].at);
			test_put(&c->out[0], test_at(&c->out[0], b, ch, h, w), sum);
		}
}

static void resample_grad_make(struct gt_call *c, enum gt_dtype f, kernel_sizes d)
{
	struct gt_tensor x;

	resample_make(c, f, d);
	x = c->in[0];
	c->in[0] = c->out[0];
	c->out[0] = x;
	memset(x.data, 0xa5, (size_t)gt_tensor_elements(&x) * gt_dtype_size(x.dtype));
	test_random(&c->in[0], 162, -1, 1);
}

static void resample_grad_naive(struct gt_call *c)
{
	EACH(i, c->out[0])
	test_put(&c->out[0], i, 0);
	for (int64_t ch = 0; ch < c->in[0].shape[1]; ch++)
		EACH_PIXEL(c->in[0])
		{
			double dy = test_get(&c->in[0], test_at(&c->in[0], b, ch, h, w));
			struct corner to[4];

			corners_of(c, &c->out[0], (int64_t[]){ b, ch, h, w }, to);
			for (int k = 0; k < 4; k++)
				test_put(&c->out[0], to[k].at,
				    test_get(&c->out[0], to[k].at) + to[k].share * dy);
		}
}

#define FORWARD(variant)                                                                           \
	{                                                                                          \
		"resample", resample_make, resample_naive, 1e-6, variant, 0, false                 \
	}
#define GRADIENT(variant)                                                                          \
	{                                                                                          \
		"resample_grad", resample_grad_make, resample_grad_naive, 1e-6, variant, 0, false  \
	}
#define BOTH(variant)  FORWARD(variant), GRADIENT(variant)
#define MODES(variant) BOTH(NEAREST + variant), BOTH(LINEAR + variant), BOTH(CORNERS + variant)

static const struct kernel_case cases[] = { MODES(0), MODES(1), MODES(2), MODES(3), MODES(4),
	MODES(5) };

static void test_resample(void **state)
{
	(void)state;
	kernel_check(cases, COUNT(cases), KERNEL_IMAGES);
}

static void test_table_is_covered(void **state)
{
	(void)state;
	kernel_check_covered(cases, COUNT(cases), NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resample),
		cmocka_unit_test(test_table_is_covered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
