/* test_kernels_conv.c - convolutions and their gradients against naive loops in float64. */
#include "tests/common/calls.h"
#include "tests/common/device.h"

/* Sums of up to 1000 products of numbers below 1: float32 keeps 24 bits, of which a sum loses
 * few. */
#define F32_TOLERANCE 3e-6
#define F64_TOLERANCE 1e-13
/* One rounding of a sum in float32, relative to the largest. */
#define BF16_TOLERANCE 0x1p-8
#define F16_TOLERANCE  0x1p-11

static double tolerance_of(enum gt_dtype dtype)
{
	if (dtype == GT_BF16)
		return BF16_TOLERANCE;
	if (dtype == GT_F16)
		return F16_TOLERANCE;
	return dtype == GT_F32 ? F32_TOLERANCE : F64_TOLERANCE;
}

/* The kernels of a device, or of the CPU, which has these only once. */
static struct test_set the_set(void)
{
	struct test_set set[3];

	test_sets(set);
	return set[0];
}

/* Uniform in [-1, 1). */
static void fill(struct gt_tensor *t, uint32_t seed)
{
	test_random(t, seed, -1, 1);
}

/* A weight [O, C, k, k], row-major. */
static struct gt_tensor weight(enum gt_dtype dtype, int64_t o, int64_t c, int64_t h, int64_t w)
{
	struct gt_tensor t = test_tensor4(dtype, o, c, h, w);

	t.layout = GT_PLAIN;
	return t;
}

struct conv_case {
	int64_t b, c, h, w, o;
	struct gt_window window;
	int groups;
};

/* clang-format off */
#define SQUARE(k, stride, pad) { { k, k }, { stride, stride }, { pad, pad }, { 1, 1 } }
/* clang-format on */

static const struct conv_case conv_cases[] = {
	{ 2, 3, 8, 8, 16, SQUARE(3, 1, 1), 1 },
	{ 2, 16, 8, 8, 16, SQUARE(3, 1, 1), 1 },
	{ 3, 16, 9, 7, 32, SQUARE(3, 2, 1), 1 },
	{ 2, 32, 8, 8, 64, SQUARE(1, 2, 0), 1 },
	{ 2, 1, 28, 28, 6, SQUARE(5, 1, 2), 1 },
	{ 2, 6, 14, 14, 16, SQUARE(5, 1, 0), 1 },
	{ 1, 5, 3, 3, 7, SQUARE(3, 1, 0), 1 },
	{ 1, 17, 5, 6, 1, SQUARE(3, 3, 2), 1 },
	{ 1, 3, 17, 17, 8, SQUARE(7, 2, 3), 1 },
	{ 1, 8, 9, 9, 72, SQUARE(3, 1, 1), 1 },
	{ 1, 72, 5, 7, 8, SQUARE(3, 2, 1), 1 },
	{ 1, 1, 1, 1, 1, SQUARE(1, 1, 0), 1 },
	/* windows that are not square, dilation */
	{ 2, 5, 6, 9, 8, { { 1, 7 }, { 1, 1 }, { 0, 3 }, { 1, 1 } }, 1 },
	{ 1, 16, 9, 6, 8, { { 7, 1 }, { 1, 1 }, { 3, 0 }, { 1, 1 } }, 1 },
	{ 2, 8, 9, 11, 16, { { 3, 2 }, { 2, 1 }, { 1, 0 }, { 1, 1 } }, 1 },
	{ 1, 16, 11, 9, 16, { { 3, 3 }, { 1, 1 }, { 2, 2 }, { 2, 2 } }, 1 },
	{ 2, 3, 13, 12, 5, { { 3, 2 }, { 2, 3 }, { 4, 1 }, { 3, 4 } }, 1 },
	/* groups */
	{ 2, 6, 7, 5, 4, { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } }, 2 },
	{ 2, 16, 7, 6, 32, { { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } }, 2 },
	{ 1, 32, 6, 6, 32, { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } }, 8 },
	{ 2, 8, 9, 7, 8, { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } }, 8 },
	{ 1, 5, 9, 8, 5, { { 5, 3 }, { 2, 1 }, { 2, 3 }, { 1, 2 } }, 5 },
	{ 2, 3, 7, 7, 24, { { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } }, 3 },
	{ 1, 24, 6, 7, 3, { { 2, 3 }, { 1, 3 }, { 0, 1 }, { 2, 1 } }, 3 },
};

static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };

static int64_t conv_out(int64_t n, int dim, const struct conv_case *c)
{
	const struct gt_window *w = &c->window;

	return (n + 2 * w->pad[dim] - w->dilation[dim] * (w->kernel[dim] - 1) - 1) /
	           w->stride[dim] +
	       1;
}

static void set_form(struct gt_call *call, const struct conv_case *c)
{
	call->attrs.conv.window = c->window;
	call->attrs.conv.groups = c->groups;
	call->attrs.conv.in_height = c->h;
	call->attrs.conv.in_width = c->w;
}

static double image_get(const struct gt_tensor *t, int64_t b, int64_t c, int64_t i, int64_t j)
{
	if (i < 0 || j < 0 || i >= t->shape[2] || j >= t->shape[3])
		return 0;
	if (t->layout == GT_CHANNELS_LAST)
		return test_get(t, ((b * t->shape[2] + i) * t->shape[3] + j) * t->shape[1] + c);
	return test_get(t, ((b * t->shape[1] + c) * t->shape[2] + i) * t->shape[3] + j);
}

static void image_add(struct gt_tensor *t, int64_t b, int64_t c, int64_t i, int64_t j, double x)
{
	int64_t at;

	if (i < 0 || j < 0 || i >= t->shape[2] || j >= t->shape[3])
		return;
	if (t->layout == GT_CHANNELS_LAST)
		at = ((b * t->shape[2] + i) * t->shape[3] + j) * t->shape[1] + c;
	else
		at = ((b * t->shape[1] + c) * t->shape[2] + i) * t->shape[3] + j;
	test_put(t, at, test_get(t, at) + x);
}

/* One naive loop nest makes all three: visits every product of the convolution. `target` is 'y',
 * 'x' or 'w'. */
static void conv_naive(const struct conv_case *c, char target, struct gt_tensor *x,
    struct gt_tensor *w, struct gt_tensor *y)
{
	struct gt_tensor *to = target == 'y' ? y : target == 'x' ? x : w;
	const struct gt_window f = c->window;
	int64_t each = c->c / c->groups; /* channels of a group */

	memset(to->data, 0, (size_t)gt_tensor_elements(to) * gt_dtype_size(to->dtype));
	for (int64_t b = 0; b < c->b; b++)
		for (int64_t o = 0; o < c->o; o++)
			for (int64_t p = 0; p < y->shape[2] * y->shape[3]; p++)
				for (int64_t q = 0; q < each * f.kernel[0] * f.kernel[1]; q++) {
					int64_t i = p / y->shape[3], j = p % y->shape[3];
					int64_t part = q / f.kernel[1] / f.kernel[0];
					int64_t ch = o / (c->o / c->groups) * each + part;
					int64_t u = q / f.kernel[1] % f.kernel[0],
					        v = q % f.kernel[1];
					int64_t row =
					    i * f.stride[0] + u * f.dilation[0] - f.pad[0];
					int64_t column =
					    j * f.stride[1] + v * f.dilation[1] - f.pad[1];

					if (target == 'y')
						image_add(y, b, o, i, j,
						    image_get(x, b, ch, row, column) *
						        image_get(w, o, part, u, v));
					else if (target == 'x')
						image_add(x, b, ch, row, column,
						    image_get(y, b, o, i, j) *
						        image_get(w, o, part, u, v));
					else
						image_add(w, o, part, u, v,
						    image_get(y, b, o, i, j) *
						        image_get(x, b, ch, row, column));
				}
}

static struct gt_tensor conv_tensor(enum gt_dtype dtype, const struct conv_case *c, char which)
{
	if (which == 'x')
		return test_tensor4(dtype, c->b, c->c, c->h, c->w);
	if (which == 'w')
		return weight(
		    dtype, c->o, c->c / c->groups, c->window.kernel[0], c->window.kernel[1]);
	return test_tensor4(dtype, c->b, c->o, conv_out(c->h, 0, c), conv_out(c->w, 1, c));
}

static void copy_numbers(struct gt_tensor *to, const struct gt_tensor *from)
{
	for (int64_t i = 0; i < gt_tensor_elements(to); i++)
		test_put(to, i, test_get(from, i));
}

/* To TF32, to the nearest, ties away from zero. */
static void round_numbers(struct gt_tensor *t)
{
	for (int64_t i = 0; i < gt_tensor_elements(t); i++) {
		int exponent;
		double m = frexp(test_get(t, i), &exponent);

		test_put(t, i, ldexp(round(ldexp(m, 11)), exponent - 11));
	}
}

static void conv_check(
    const struct conv_case *c, enum gt_dtype dtype, char target, enum gt_layout layout, bool tf32)
{
	static const char *const ops[] = { "conv2d", "conv2d_input_grad", "conv2d_weight_grad" };
	static const char ins[3][3] = { "xw", "yw", "xy" };
	int op = target == 'y' ? 0 : target == 'x' ? 1 : 2;
	struct gt_call call = { .inputs = 2, .outputs = 1 };
	struct gt_tensor want[3]; /* x, w, y in float64 */
	struct test_set set = the_set();

	for (int i = 0; i < 3; i++) {
		want[i] = conv_tensor(GT_F64, c, "xwy"[i]);
		if ("xwy"[i] != 'w')
			want[i].layout = layout;
		fill(&want[i], (uint32_t) "xwy"[i]);
	}
	for (int i = 0; i < 2; i++) {
		call.in[i] = conv_tensor(dtype, c, ins[op][i]);
		if (ins[op][i] != 'w')
			call.in[i].layout = layout;
		fill(&call.in[i], (uint32_t)ins[op][i]);
	}
	for (int i = 0; i < 2; i++) /* as they are when rounded */
		copy_numbers(&want[strchr("xwy", ins[op][i]) - "xwy"], &call.in[i]);
	call.out[0] = conv_tensor(dtype, c, target);
	if (target != 'w')
		call.out[0].layout = layout;
	set_form(&call, c);
	call.attrs.conv.tf32 = call.untimed = tf32;
	if (tf32)
		for (int i = 0; i < 3; i++)
			round_numbers(&want[i]);
	conv_naive(c, target, &want[0], &want[1], &want[2]);
	if (!test_lacks(&set, ops[op], dtype, &call)) { /* GPUs have no plain images */
		test_launch(set.set, ops[op], dtype, &call);
		assert_near(&call.out[0],
		    &want[target == 'x'   ? 0
		          : target == 'w' ? 1
		                          : 2],
		    tolerance_of(dtype), "%s %s case %d layout %d\n", ops[op], gt_dtype_name(dtype),
		    (int)(c - conv_cases), layout);
	}
	for (int i = 0; i < 3; i++)
		free(want[i].data);
	test_release(&call);
}

static void test_conv(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(conv_cases) / sizeof(conv_cases[0]); i++)
		for (int target = 0; target < 3; target++) {
			if (!test_takes_row(2, i + (size_t)target))
				continue;
			conv_check(&conv_cases[i], GT_F64, "yxw"[target], GT_CHANNELS_LAST, false);
			conv_check(&conv_cases[i], GT_F32, "yxw"[target], GT_CHANNELS_LAST, false);
			conv_check(&conv_cases[i], GT_BF16, "yxw"[target], GT_CHANNELS_LAST, false);
			conv_check(&conv_cases[i], GT_F16, "yxw"[target], GT_CHANNELS_LAST, false);
			if (i < 3 || conv_cases[i].groups > 1) {
				conv_check(&conv_cases[i], GT_F64, "yxw"[target], GT_PLAIN, false);
				conv_check(&conv_cases[i], GT_F32, "yxw"[target], GT_PLAIN, false);
			}
		}
}

/* gtrain's kernels on GPUs, but for those of groups, round the factors, and nothing else: they are
 * as near to a convolution of rounded numbers as float32 is to that of its own. Factors have more
 * digits than TF32, so the other test would fail with the mark. */
static void test_conv_tf32(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(conv_cases) / sizeof(conv_cases[0]); i++)
		for (int target = 0; target < 3 && conv_cases[i].groups == 1; target++)
			conv_check(&conv_cases[i], GT_F32, "yxw"[target], GT_CHANNELS_LAST, true);
}

/* Bias, residual (own memory or y's) and relu against a plain convolution in float64. */
static void fused_check(
    const struct conv_case *c, enum gt_dtype dtype, bool bias, int residual, bool relu)
{
	struct gt_call call = { .inputs = 4, .outputs = 1 };
	struct gt_tensor x = conv_tensor(GT_F64, c, 'x'), w = conv_tensor(GT_F64, c, 'w');
	struct gt_tensor want = conv_tensor(GT_F64, c, 'y');

	call.in[0] = conv_tensor(dtype, c, 'x');
	call.in[1] = conv_tensor(dtype, c, 'w');
	call.in[2] = test_tensor1(dtype, c->o);
	call.in[3] = conv_tensor(dtype, c, 'y');
	call.out[0] = conv_tensor(dtype, c, 'y');
	fill(&call.in[0], 'x');
	fill(&call.in[1], 'w');
	copy_numbers(&x, &call.in[0]);
	copy_numbers(&w, &call.in[1]);
	fill(&call.in[2], 'b');
	fill(&call.in[3], 'r');
	conv_naive(c, 'y', &x, &w, &want);
	for (int64_t i = 0; i < gt_tensor_elements(&want); i++) {
		double y = test_get(&want, i) + (bias ? test_get(&call.in[2], i % c->o) : 0) +
		           (residual ? test_get(&call.in[3], i) : 0);

		test_put(&want, i, relu && y < 0 ? 0 : y);
	}
	call.in[2].present = bias;
	call.in[3].present = residual;
	set_form(&call, c);
	call.attrs.conv.relu = relu;
	test_launch(the_set().set, "conv2d", dtype, &call);
	assert_near(&call.out[0], &want, tolerance_of(dtype),
	    "fused %s bias %d residual %d relu %d\n", gt_dtype_name(dtype), bias, residual, relu);
	free(x.data);
	free(w.data);
	free(want.data);
	test_release(&call);
}

static void test_conv_fused(void **state)
{
	(void)state;
	for (int i = 0; i < 32; i++)
		for (int c = 1; c < 24; c += c < 7 ? 3 : 7)
			fused_check(&conv_cases[c], types[i / 8], i & 1, i & 2, i & 4);
}

/* A NaN in the image or in the weight reaches every sum that it is part of: max(0, NaN) is NaN. */
static void test_conv_relu_keeps_nan(void **state)
{
	(void)state;
	for (int n = 0; n < 24; n++) {
		const struct conv_case *c = &conv_cases[n / 8 + 1];
		enum gt_dtype dtype = types[n / 2 % 4];
		struct gt_call call = { .inputs = 2, .outputs = 1 };
		struct gt_tensor naive[3];
		int bad = n & 1; /* the input that has the NaN */

		for (int i = 0; i < 3; i++)
			naive[i] = conv_tensor(GT_F64, c, "xwy"[i]);
		for (int i = 0; i < 2; i++) {
			call.in[i] = conv_tensor(dtype, c, "xw"[i]);
			fill(&naive[i], (uint32_t) "xw"[i]);
			fill(&call.in[i], (uint32_t) "xw"[i]);
		}
		/* In w the middle of a filter, which meets no padding, multiplied or skipped. */
		test_put(&call.in[bad], 4, NAN);
		test_put(&naive[bad], 4, NAN);
		call.out[0] = conv_tensor(dtype, c, 'y');
		set_form(&call, c);
		call.attrs.conv.relu = true;
		conv_naive(c, 'y', &naive[0], &naive[1], &naive[2]);
		test_launch(the_set().set, "conv2d", dtype, &call);
		for (int64_t i = 0; i < gt_tensor_elements(&naive[2]); i++)
			if (isnan(test_get(&naive[2], i)) != isnan(test_get(&call.out[0], i)))
				fail_msg("%s, NaN in %s, case %d: y[%d] is %g for %g",
				    gt_dtype_name(dtype), bad ? "w" : "x", (int)(c - conv_cases),
				    (int)i, test_get(&call.out[0], i), test_get(&naive[2], i));
		for (int i = 0; i < 3; i++)
			free(naive[i].data);
		test_release(&call);
	}
}

/* A residual whose memory is y's. */
static void test_conv_residual_in_place(void **state)
{
	static const enum gt_dtype dtypes[] = { GT_F32, GT_F64 };

	(void)state;
	for (int n = 0; n < 2; n++) {
		const struct conv_case *c = &conv_cases[1];
		struct gt_call call = { .inputs = 4, .outputs = 1 };
		struct gt_tensor own = conv_tensor(dtypes[n], c, 'y');
		struct gt_err err = GT_ERR_INIT;

		call.in[0] = conv_tensor(dtypes[n], c, 'x');
		call.in[1] = conv_tensor(dtypes[n], c, 'w');
		call.in[3] = conv_tensor(dtypes[n], c, 'y');
		call.out[0] = own;
		for (int i = 0; i < 4; i++)
			if (call.in[i].present)
				fill(&call.in[i], (uint32_t)i);
		set_form(&call, c);
		test_launch(the_set().set, "conv2d", dtypes[n], &call);
		call.out[0].data = call.in[3].data;
		assert_int_equal(test_run(the_set().set, "conv2d", dtypes[n], &call, &err), 0);
		assert_memory_equal(own.data, call.out[0].data,
		    (size_t)gt_tensor_elements(&own) * gt_dtype_size(own.dtype));
		test_release(&call);
		free(own.data);
	}
}

/* ---- Winograd's algorithm ---- */

/*
 * Its transforms add and subtract numbers several times as large as the results, so some more of
 * the 24 bits go: 1.6e-6 of the largest output was seen.
 */
#define WINOGRAD_TOLERANCE 5e-6

/* Tiles are 4 x 4: whole ones, cut ones, and images smaller than one. */
static const struct conv_case winograd_cases[] = {
	{ 3, 64, 8, 8, 64, SQUARE(3, 1, 1), 1 },
	{ 1, 64, 8, 8, 128, SQUARE(3, 1, 1), 1 },
	{ 3, 80, 7, 7, 64, SQUARE(3, 1, 1), 1 },
	{ 1, 64, 14, 14, 64, SQUARE(3, 1, 1), 1 },
	{ 3, 64, 5, 18, 80, SQUARE(3, 1, 1), 1 },
	{ 1, 64, 3, 2, 64, SQUARE(3, 1, 1), 1 },
};

/* A call with all inputs; those of no use are then made absent. */
static struct gt_call winograd_call(const struct conv_case *c, enum gt_dtype dtype)
{
	struct gt_call call = { .inputs = 4, .outputs = 1 };

	call.in[0] = conv_tensor(dtype, c, 'x');
	call.in[1] = conv_tensor(dtype, c, 'w');
	call.in[2] = test_tensor1(dtype, c->o);
	call.in[3] = conv_tensor(dtype, c, 'y');
	call.out[0] = conv_tensor(dtype, c, 'y');
	for (int i = 0; i < 4; i++)
		fill(&call.in[i], (uint32_t)i);
	set_form(&call, c);
	call.attrs.conv.relaxed = true;
	return call;
}

/* Large enough that only the processor can be a reason against it. */
static const struct conv_case winograd_large = { 16, 64, 8, 8, 64, SQUARE(3, 1, 1), 1 };

static void skip_without_winograd(void)
{
	struct gt_call call = winograd_call(&winograd_large, GT_F32);
	bool offered = gt_cpu_conv_winograd_kernels[0].accepts(&call);

	test_release(&call);
	if (offered)
		return;
	print_message("skipped: oneDNN has no Winograd convolution for this processor\n");
	skip();
}

/* The row takes calls that are too small to gain, too, when it is asked directly. */
static void winograd_check(const struct conv_case *c, bool bias, bool residual, bool relu)
{
	struct gt_call call = winograd_call(c, GT_F32), want = winograd_call(c, GT_F64);

	call.in[2].present = want.in[2].present = bias;
	call.in[3].present = want.in[3].present = residual;
	call.attrs.conv.relu = want.attrs.conv.relu = relu;
	test_launch(&gt_cpu_set_base, "conv2d", GT_F64, &want);
	test_launch_row(gt_cpu_conv_winograd_kernels, &call);
	assert_near(&call.out[0], &want.out[0], WINOGRAD_TOLERANCE,
	    "Winograd case %d bias %d residual %d relu %d\n", (int)(c - winograd_cases), bias,
	    residual, relu);
	test_release(&call);
	test_release(&want);
}

static void test_winograd(void **state)
{
	(void)state;
	skip_without_winograd();
	for (size_t c = 0; c < sizeof(winograd_cases) / sizeof(winograd_cases[0]); c++)
		for (int i = c ? 6 : 0; i < 8; i++)
			winograd_check(&winograd_cases[c], i & 1, i & 2, i & 4);
}

/* y may lie where the residual is. */
static void test_winograd_in_place(void **state)
{
	struct gt_call call, again;
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	skip_without_winograd();
	call = winograd_call(&winograd_large, GT_F32);
	again = winograd_call(&winograd_large, GT_F32);
	free(again.out[0].data);
	again.out[0].data = again.in[3].data;
	test_launch(&gt_cpu_set_base, "conv2d", GT_F32, &call);
	assert_int_equal(test_run(&gt_cpu_set_base, "conv2d", GT_F32, &again, &err), 0);
	assert_memory_equal(again.out[0].data, call.out[0].data,
	    (size_t)gt_tensor_elements(&call.out[0]) * sizeof(float));
	test_release(&call);
	test_release(&again);
}

/* Whatever sum has a NaN among its inputs is NaN. A tile passes it on to all of its outputs, but no
 * image to another. */
static void test_winograd_keeps_nan(void **state)
{
	const struct conv_case *c = &winograd_cases[2];

	(void)state;
	skip_without_winograd();
	for (int bad = 0; bad < 4; bad++) {
		struct gt_call call = winograd_call(c, GT_F32), want = winograd_call(c, GT_F64);
		int64_t n = gt_tensor_elements(&call.out[0]);

		test_put(&call.in[bad], 31, NAN);
		test_put(&want.in[bad], 31, NAN);
		call.attrs.conv.relu = want.attrs.conv.relu = true;
		test_launch(&gt_cpu_set_base, "conv2d", GT_F64, &want);
		test_launch_row(gt_cpu_conv_winograd_kernels, &call);
		for (int64_t i = 0; i < n; i++) {
			bool is = isnan(test_get(&call.out[0], i));

			if (is < isnan(test_get(&want.out[0], i)))
				fail_msg("NaN in input %d: y[%d] is %g", bad, (int)i,
				    test_get(&call.out[0], i));
			if (is && (bad == 0 || bad == 3) && i >= n / c->b)
				fail_msg("NaN in image 0, input %d: y[%d], too", bad, (int)i);
		}
		test_release(&call);
		test_release(&want);
	}
}

/* Which calls it takes: this large one, and none that differs in one of these ways. */
static void test_winograd_accepts(void **state)
{
	static const struct conv_case others[] = {
		{ 15, 64, 8, 8, 64, SQUARE(3, 1, 1), 1 },   /* few pixels */
		{ 16, 48, 8, 8, 64, SQUARE(3, 1, 1), 1 },   /* few channels */
		{ 16, 64, 8, 8, 48, SQUARE(3, 1, 1), 1 },   /* ... out */
		{ 16, 72, 8, 8, 64, SQUARE(3, 1, 1), 1 },   /* no whole blocks of channels */
		{ 16, 64, 8, 8, 72, SQUARE(3, 1, 1), 1 },   /* ... out */
		{ 16, 64, 16, 16, 64, SQUARE(3, 2, 1), 1 }, /* other windows */
		{ 16, 64, 10, 10, 64, SQUARE(3, 1, 0), 1 },
		{ 16, 64, 8, 8, 64, SQUARE(1, 1, 0), 1 },
		{ 16, 64, 8, 8, 64, SQUARE(5, 1, 2), 1 },
		{ 16, 64, 8, 8, 64, { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 2 } }, 1 },
		{ 16, 64, 8, 8, 64, { { 3, 3 }, { 1, 1 }, { 1, 2 }, { 1, 1 } }, 1 },
		{ 16, 64, 8, 8, 64, SQUARE(3, 1, 1), 2 },
	};
	const struct gt_kernel *winograd = &gt_cpu_conv_winograd_kernels[0];
	struct gt_call call;

	(void)state;
	skip_without_winograd();
	call = winograd_call(&winograd_large, GT_F32);
	assert_ptr_equal(test_row(&gt_cpu_set_base, "conv2d", GT_F32, &call), winograd);
	call.attrs.conv.relaxed = false;
	assert_ptr_equal(
	    test_row(&gt_cpu_set_base, "conv2d", GT_F32, &call), &gt_cpu_conv_kernels[0]);
	call.attrs.conv.relaxed = true;
	call.in[0].layout = call.in[3].layout = call.out[0].layout = GT_PLAIN;
	assert_false(winograd->accepts(&call));
	test_release(&call);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		call = winograd_call(&others[i], GT_F32);
		if (winograd->accepts(&call))
			fail_msg("case %d is taken", (int)i);
		test_release(&call);
	}
}

/*
 * A case that oneDNN lacks is an error that names the op and the shapes, and leaves nothing behind.
 */
static void test_conv_error(void **state)
{
	struct gt_call call = { .inputs = 2, .outputs = 1 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	call.in[0] = test_tensor4(GT_F32, 1, 4, 8, 8);
	call.in[1] = weight(GT_F32, 4, 5, 3, 3); /* five channels of four */
	call.out[0] = test_tensor4(GT_F32, 1, 4, 8, 8);
	call.attrs.conv.window = test_window(3, 1, 1);
	call.attrs.conv.groups = 1;
	assert_true(gt_cpu_conv_kernels[0].prepare(&call, &err) < 0);
	assert_non_null(strstr(err.text, "conv2d: "));
	assert_non_null(strstr(err.text, "[1, 4, 8, 8] x [4, 5, 3, 3] -> [1, 4, 8, 8]"));
	assert_null(call.state);
	test_release(&call);
}

int main(void)
{
	const struct CMUnitTest of_devices[] = {
		cmocka_unit_test(test_conv),
		cmocka_unit_test(test_conv_tf32),
		cmocka_unit_test(test_conv_fused),
		cmocka_unit_test(test_conv_relu_keeps_nan),
		cmocka_unit_test(test_conv_residual_in_place),
	};
	const struct CMUnitTest of_the_cpu[] = {
		cmocka_unit_test(test_conv),
		cmocka_unit_test(test_conv_fused),
		cmocka_unit_test(test_conv_relu_keeps_nan),
		cmocka_unit_test(test_conv_residual_in_place),
		cmocka_unit_test(test_winograd),
		cmocka_unit_test(test_winograd_in_place),
		cmocka_unit_test(test_winograd_keeps_nan),
		cmocka_unit_test(test_winograd_accepts),
		cmocka_unit_test(test_conv_error),
	};

	if (!test_device_is_cpu())
		return cmocka_run_group_tests(of_devices, NULL, NULL);
	return cmocka_run_group_tests(of_the_cpu, NULL, NULL);
}
