/* test_kernels_mm.c - matrix products, convolutions and attention against naive loops. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "lib/base/philox.h"

extern const struct gt_kernel gt_cpu_attention_kernels_base[];
#if defined(__x86_64__)
extern const struct gt_kernel gt_cpu_attention_kernels_avx2[], gt_cpu_attention_kernels_avx512[];
#endif

/* ---- calls ---- */

static struct gt_tensor tensor(
    enum gt_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c, int64_t d)
{
	struct gt_tensor t = {
		.present = true, .dtype = dtype, .ndim = ndim, .shape = { a, b, c, d }
	};
	size_t bytes = (size_t)gt_tensor_elements(&t) * gt_dtype_size(dtype);

	t.data = aligned_alloc(64, (bytes + 127) / 64 * 64);
	assert_non_null(t.data);
	memset(t.data, 0xff, bytes); /* NaN: whatever a kernel does not write shows */
	return t;
}

static struct gt_tensor image(enum gt_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
	struct gt_tensor t = tensor(dtype, 4, a, b, c, d);

	t.layout = GT_CHANNELS_LAST;
	return t;
}

static double get(const struct gt_tensor *t, int64_t i)
{
	return t->dtype == GT_F32 ? ((float *)t->data)[i] : ((double *)t->data)[i];
}

static void set(struct gt_tensor *t, int64_t i, double x)
{
	if (t->dtype == GT_F32)
		((float *)t->data)[i] = (float)x;
	else
		((double *)t->data)[i] = x;
}

/* Uniform in [-1, 1), the same for both types, exact in float32. */
static void fill(struct gt_tensor *t, uint32_t stream)
{
	for (int64_t i = 0; i < gt_tensor_elements(t); i++)
		set(t, i, (double)(gt_philox_u64(1, (uint64_t)i, stream, 0) >> 44) * 0x1p-19 - 1);
}

static void call_free(struct gt_call *call)
{
	for (int i = 0; i < call->inputs; i++)
		free(call->in[i].data);
	for (int i = 0; i < call->outputs; i++)
		free(call->out[i].data);
}

/* The first row that takes the call. */
static const struct gt_kernel *find(
    const struct gt_kernel *table, const char *op, const struct gt_call *call)
{
	int like = 0;

	while (!call->in[like].present ||
	       (call->in[like].dtype != GT_F32 && call->in[like].dtype != GT_F64))
		like++;
	for (const struct gt_kernel *k = table; k->op; k++)
		if (strcmp(k->op, op) == 0 && k->dtype == call->in[like].dtype &&
		    (!k->accepts || k->accepts(call)))
			return k;
	fail_msg("no row for %s", op);
	return NULL;
}

static void check(int rc, const struct gt_err *err)
{
	if (rc < 0)
		fail_msg("%s", err->text);
}

/* Run a call with workspace full of NaN, twice: nothing may depend on what a run leaves there. */
static void launch(const struct gt_kernel *table, const char *op, struct gt_call *call)
{
	const struct gt_kernel *k = find(table, op, call);
	struct gt_err err = GT_ERR_INIT;
	void *data[GT_MAX_INPUTS + GT_MAX_OUTPUTS];

	for (int i = 0; i < GT_MAX_INPUTS + GT_MAX_OUTPUTS; i++) {
		struct gt_tensor *t =
		    i < GT_MAX_INPUTS ? &call->in[i] : &call->out[i - GT_MAX_INPUTS];

		data[i] = t->data;
		t->data = NULL;
	}
	call->workspace_bytes = 0;
	call->state = NULL;
	if (k->prepare)
		check(k->prepare(call, &err), &err);
	call->workspace = aligned_alloc(64, (call->workspace_bytes + 127) / 64 * 64);
	assert_non_null(call->workspace);
	memset(call->workspace, 0xff, call->workspace_bytes);
	for (int i = 0; i < GT_MAX_INPUTS + GT_MAX_OUTPUTS; i++)
		*(i < GT_MAX_INPUTS ? &call->in[i].data : &call->out[i - GT_MAX_INPUTS].data) =
		    data[i];
	if (k->bind)
		check(k->bind(call, &err), &err);
	for (int twice = 0; twice < 2; twice++)
		check(k->run(call, &err), &err);
	if (k->release)
		k->release(call);
	free(call->workspace);
}

/* Largest difference, as a share of the largest number there. NaN gives NaN. */
static double distance(const struct gt_tensor *a, const struct gt_tensor *b)
{
	double most = 0, largest = 1e-30;

	assert_int_equal(gt_tensor_elements(a), gt_tensor_elements(b));
	for (int64_t i = 0; i < gt_tensor_elements(a); i++) {
		double x = get(a, i), y = get(b, i);

		if (!(fabs(x - y) <= most))
			most = fabs(x - y);
		if (most != most)
			return most;
		largest = fmax(largest, fabs(y));
	}
	return most / largest;
}

#define assert_near(a, b, tolerance, ...)                                                          \
	do {                                                                                       \
		double far_ = distance(a, b);                                                      \
		if (!(far_ <= (tolerance))) {                                                      \
			print_error("off by %g: ", far_);                                          \
			print_error(__VA_ARGS__);                                                  \
			fail();                                                                    \
		}                                                                                  \
	} while (0)

/* Sums of up to 1000 products of numbers below 1: float32 keeps 24 bits, of which a sum loses
 * few. */
#define F32_TOLERANCE 3e-6
#define F64_TOLERANCE 1e-13

/* ---- matmul ---- */

struct matmul_case {
	int64_t m, n, k;
};

static struct gt_call matmul_call(
    enum gt_dtype dtype, const struct matmul_case *c, bool ta, bool tb, bool bias)
{
	struct gt_call call = { .inputs = bias ? 3 : 2, .outputs = 1 };

	call.attrs.matmul.trans_a = ta;
	call.attrs.matmul.trans_b = tb;
	call.in[0] = ta ? tensor(dtype, 2, c->k, c->m, 0, 0) : tensor(dtype, 3, 1, c->m, c->k, 0);
	call.in[1] = tb ? tensor(dtype, 2, c->n, c->k, 0, 0) : tensor(dtype, 2, c->k, c->n, 0, 0);
	if (bias)
		call.in[2] = tensor(dtype, 1, c->n, 0, 0, 0);
	call.out[0] = tensor(dtype, 2, c->m, c->n, 0, 0);
	for (int i = 0; i < call.inputs; i++)
		fill(&call.in[i], (uint32_t)i);
	return call;
}

static void matmul_naive(
    const struct gt_call *call, const struct matmul_case *c, struct gt_tensor *y)
{
	for (int64_t i = 0; i < c->m; i++)
		for (int64_t j = 0; j < c->n; j++) {
			double sum = call->inputs > 2 ? get(&call->in[2], j) : 0;

			for (int64_t k = 0; k < c->k; k++)
				sum +=
				    get(&call->in[0],
				        call->attrs.matmul.trans_a ? k * c->m + i : i * c->k + k) *
				    get(&call->in[1],
				        call->attrs.matmul.trans_b ? j * c->k + k : k * c->n + j);
			set(y, i * c->n + j, sum);
		}
}

static void test_matmul(void **state)
{
	static const struct matmul_case cases[] = { { 1, 1, 1 }, { 3, 17, 65 }, { 17, 3, 1 },
		{ 65, 65, 3 }, { 1, 65, 17 }, { 65, 1, 130 }, { 48, 64, 32 }, { 96, 65, 128 } };

	(void)state;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]) * 12; n++) {
		const struct matmul_case *c = &cases[n / 12];
		enum gt_dtype dtype = n % 2 ? GT_F64 : GT_F32;
		bool bias = n / 2 % 2, ta = n / 4 % 3 == 1, tb = n / 4 % 3 == 2;
		struct gt_call call = matmul_call(dtype, c, ta, tb, bias);
		struct gt_tensor want = tensor(GT_F64, 2, c->m, c->n, 0, 0);

		matmul_naive(&call, c, &want);
		launch(gt_cpu_matmul_kernels, "matmul", &call);
		assert_near(&call.out[0], &want, dtype == GT_F32 ? F32_TOLERANCE : F64_TOLERANCE,
		    "%s m %d n %d k %d ta %d tb %d bias %d\n", gt_dtype_name(dtype), (int)c->m,
		    (int)c->n, (int)c->k, ta, tb, bias);
		free(want.data);
		call_free(&call);
	}
}

/* ---- convolutions ---- */

struct conv_case {
	int64_t b, c, h, w, o;
	int k, stride, pad;
};

static const struct conv_case conv_cases[] = {
	{ 2, 3, 8, 8, 16, 3, 1, 1 },
	{ 2, 16, 8, 8, 16, 3, 1, 1 },
	{ 3, 16, 9, 7, 32, 3, 2, 1 },
	{ 2, 32, 8, 8, 64, 1, 2, 0 },
	{ 2, 1, 28, 28, 6, 5, 1, 2 },
	{ 2, 6, 14, 14, 16, 5, 1, 0 },
	{ 1, 5, 3, 3, 7, 3, 1, 0 },
	{ 1, 17, 5, 6, 1, 3, 3, 2 },
	{ 1, 3, 17, 17, 8, 7, 2, 3 },
};

static int64_t conv_out(int64_t n, const struct conv_case *c)
{
	return (n + 2 * c->pad - c->k) / c->stride + 1;
}

static double image_get(const struct gt_tensor *t, int64_t b, int64_t c, int64_t i, int64_t j)
{
	if (i < 0 || j < 0 || i >= t->shape[2] || j >= t->shape[3])
		return 0;
	if (t->layout == GT_CHANNELS_LAST)
		return get(t, ((b * t->shape[2] + i) * t->shape[3] + j) * t->shape[1] + c);
	return get(t, ((b * t->shape[1] + c) * t->shape[2] + i) * t->shape[3] + j);
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
	set(t, at, get(t, at) + x);
}

/* One naive loop nest makes all three: visits every product of the convolution. `target` is 'y',
 * 'x' or 'w'. */
static void conv_naive(const struct conv_case *c, char target, struct gt_tensor *x,
    struct gt_tensor *w, struct gt_tensor *y)
{
	struct gt_tensor *to = target == 'y' ? y : target == 'x' ? x : w;

	memset(to->data, 0, (size_t)gt_tensor_elements(to) * gt_dtype_size(to->dtype));
	for (int64_t b = 0; b < c->b; b++)
		for (int64_t o = 0; o < c->o; o++)
			for (int64_t p = 0; p < y->shape[2] * y->shape[3]; p++)
				for (int64_t q = 0; q < c->c * c->k * c->k; q++) {
					int64_t i = p / y->shape[3], j = p % y->shape[3];
					int64_t ch = q / c->k / c->k, u = q / c->k % c->k,
					        v = q % c->k;
					int64_t row = i * c->stride + u - c->pad,
					        column = j * c->stride + v - c->pad;

					if (target == 'y')
						image_add(y, b, o, i, j,
						    image_get(x, b, ch, row, column) *
						        image_get(w, o, ch, u, v));
					else if (target == 'x')
						image_add(x, b, ch, row, column,
						    image_get(y, b, o, i, j) *
						        image_get(w, o, ch, u, v));
					else
						image_add(w, o, ch, u, v,
						    image_get(y, b, o, i, j) *
						        image_get(x, b, ch, row, column));
				}
}

static struct gt_tensor conv_tensor(enum gt_dtype dtype, const struct conv_case *c, char which)
{
	if (which == 'x')
		return image(dtype, c->b, c->c, c->h, c->w);
	if (which == 'w')
		return tensor(dtype, 4, c->o, c->c, c->k, c->k);
	return image(dtype, c->b, c->o, conv_out(c->h, c), conv_out(c->w, c));
}

static void conv_check(
    const struct conv_case *c, enum gt_dtype dtype, char target, enum gt_layout layout)
{
	static const char *const ops[] = { "conv2d", "conv2d_input_grad", "conv2d_weight_grad" };
	static const char ins[3][3] = { "xw", "yw", "xy" };
	int op = target == 'y' ? 0 : target == 'x' ? 1 : 2;
	struct gt_call call = { .inputs = 2, .outputs = 1 };
	struct gt_tensor want[3]; /* x, w, y in float64 */

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
	call.out[0] = conv_tensor(dtype, c, target);
	if (target != 'w')
		call.out[0].layout = layout;
	call.attrs.conv.kernel = c->k;
	call.attrs.conv.stride = c->stride;
	call.attrs.conv.pad = c->pad;
	call.attrs.conv.in_height = c->h;
	call.attrs.conv.in_width = c->w;
	conv_naive(c, target, &want[0], &want[1], &want[2]);
	launch(gt_cpu_conv_kernels, ops[op], &call);
	assert_near(&call.out[0],
	    &want[target == 'x'   ? 0
	          : target == 'w' ? 1
	                          : 2],
	    dtype == GT_F32 ? F32_TOLERANCE : F64_TOLERANCE, "%s %s case %d layout %d\n", ops[op],
	    gt_dtype_name(dtype), (int)(c - conv_cases), layout);
	for (int i = 0; i < 3; i++)
		free(want[i].data);
	call_free(&call);
}

static void test_conv(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(conv_cases) / sizeof(conv_cases[0]); i++)
		for (int target = 0; target < 3; target++) {
			conv_check(&conv_cases[i], GT_F64, "yxw"[target], GT_CHANNELS_LAST);
			conv_check(&conv_cases[i], GT_F32, "yxw"[target], GT_CHANNELS_LAST);
			if (i < 3) {
				conv_check(&conv_cases[i], GT_F64, "yxw"[target], GT_PLAIN);
				conv_check(&conv_cases[i], GT_F32, "yxw"[target], GT_PLAIN);
			}
		}
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
	call.in[2] = tensor(dtype, 1, c->o, 0, 0, 0);
	call.in[3] = conv_tensor(dtype, c, 'y');
	call.out[0] = conv_tensor(dtype, c, 'y');
	fill(&x, 'x');
	fill(&w, 'w');
	fill(&call.in[0], 'x');
	fill(&call.in[1], 'w');
	fill(&call.in[2], 'b');
	fill(&call.in[3], 'r');
	conv_naive(c, 'y', &x, &w, &want);
	for (int64_t i = 0; i < gt_tensor_elements(&want); i++) {
		double y = get(&want, i) + (bias ? get(&call.in[2], i % c->o) : 0) +
		           (residual ? get(&call.in[3], i) : 0);

		set(&want, i, relu && y < 0 ? 0 : y);
	}
	call.in[2].present = bias;
	call.in[3].present = residual;
	call.attrs.conv.kernel = c->k;
	call.attrs.conv.stride = c->stride;
	call.attrs.conv.pad = c->pad;
	call.attrs.conv.relu = relu;
	launch(gt_cpu_conv_kernels, "conv2d", &call);
	assert_near(&call.out[0], &want, dtype == GT_F32 ? F32_TOLERANCE : F64_TOLERANCE,
	    "fused %s bias %d residual %d relu %d\n", gt_dtype_name(dtype), bias, residual, relu);
	free(x.data);
	free(w.data);
	free(want.data);
	call_free(&call);
}

static void test_conv_fused(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		for (int c = 1; c < 9; c += 3)
			fused_check(&conv_cases[c], i & 8 ? GT_F64 : GT_F32, i & 1, i & 2, i & 4);
}

/* A residual whose memory is y's. */
static void test_conv_residual_in_place(void **state)
{
	static const enum gt_dtype dtypes[] = { GT_F32, GT_F64 };

	(void)state;
	for (int n = 0; n < 2; n++) {
		const struct conv_case *c = &conv_cases[1];
		const struct gt_kernel *k;
		struct gt_call call = { .inputs = 4, .outputs = 1 };
		struct gt_tensor own = conv_tensor(dtypes[n], c, 'y');
		struct gt_err err = GT_ERR_INIT;

		call.in[0] = conv_tensor(dtypes[n], c, 'x');
		call.in[1] = conv_tensor(dtypes[n], c, 'w');
		call.in[3] = conv_tensor(dtypes[n], c, 'y');
		call.out[0] = call.in[3];
		call.out[0].data = own.data;
		for (int i = 0; i < 4; i++)
			if (call.in[i].present)
				fill(&call.in[i], (uint32_t)i);
		call.attrs.conv.kernel = c->k;
		call.attrs.conv.stride = c->stride;
		call.attrs.conv.pad = c->pad;
		launch(gt_cpu_conv_kernels, "conv2d", &call);
		call.out[0].data = call.in[3].data;
		call.workspace_bytes = 0;
		k = find(gt_cpu_conv_kernels, "conv2d", &call);
		if (k->prepare)
			check(k->prepare(&call, &err), &err);
		call.workspace = aligned_alloc(64, (call.workspace_bytes + 127) / 64 * 64);
		if (k->bind)
			check(k->bind(&call, &err), &err);
		check(k->run(&call, &err), &err);
		if (k->release)
			k->release(&call);
		free(call.workspace);
		assert_memory_equal(own.data, call.out[0].data,
		    (size_t)gt_tensor_elements(&own) * gt_dtype_size(own.dtype));
		call.outputs = 0;
		call_free(&call);
		free(own.data);
	}
}

/* What oneDNN can't do is an error that names the op and the shapes, and leaves nothing behind. */
static void test_conv_error(void **state)
{
	struct gt_call call = { .inputs = 2, .outputs = 1 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	call.in[0] = image(GT_F32, 1, 4, 8, 8);
	call.in[1] = tensor(GT_F32, 4, 4, 5, 3, 3); /* five channels of four */
	call.out[0] = image(GT_F32, 1, 4, 8, 8);
	call.attrs.conv.kernel = 3;
	call.attrs.conv.stride = 1;
	call.attrs.conv.pad = 1;
	assert_true(gt_cpu_conv_kernels[0].prepare(&call, &err) < 0);
	assert_non_null(strstr(err.text, "conv2d: "));
	assert_non_null(strstr(err.text, "[1, 4, 8, 8] x [4, 5, 3, 3] -> [1, 4, 8, 8]"));
	assert_null(call.state);
	call_free(&call);
}

/* ---- attention ---- */

struct attention_case {
	int64_t b, t, heads, d;
	double p;
};

static const struct attention_case attention_cases[] = { { 2, 1, 1, 8, 0 }, { 1, 2, 3, 33, 0.3 },
	{ 2, 63, 2, 32, 0 }, { 1, 64, 2, 64, 0.2 }, { 1, 65, 1, 64, 0 }, { 1, 130, 2, 33, 0.1 },
	{ 3, 17, 1, 3, 0.5 }, { 1, 65, 2, 8, 0.2 }, { 1, 130, 1, 64, 0 }, { 1, 40, 1, 128, 0 } };

static const struct gt_kernel *attention_tables(int i, const char **name)
{
#if defined(__x86_64__)
	static const char *const names[] = { "base", "avx2", "avx512" };
	static const struct gt_kernel *const tables[] = { gt_cpu_attention_kernels_base,
		gt_cpu_attention_kernels_avx2, gt_cpu_attention_kernels_avx512 };

	__builtin_cpu_init();
	if ((i == 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) ||
	    (i == 2 && !(__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	                   __builtin_cpu_supports("avx512bw"))) ||
	    i > 2)
		return NULL;
	*name = names[i];
	return tables[i];
#else
	*name = "base";
	return i == 0 ? gt_cpu_attention_kernels_base : NULL;
#endif
}

static struct gt_tensor rng_tensor(void)
{
	struct gt_tensor t = tensor(GT_I64, 1, GT_RNG_FIELDS, 0, 0, 0);
	static const int64_t fields[] = { 12345, 7, 3, 2 };

	memcpy(t.data, fields, sizeof(fields));
	return t;
}

static struct gt_call attention_call(enum gt_dtype dtype, const struct attention_case *c)
{
	struct gt_call call = { .inputs = 2, .outputs = 2 };

	call.attrs.attention.heads = (int)c->heads;
	call.attrs.attention.p = c->p;
	call.attrs.attention.stream = 9;
	call.in[0] = tensor(dtype, 3, c->b, c->t, 3 * c->heads * c->d, 0);
	call.in[1] = rng_tensor();
	call.in[1].present = c->p > 0;
	call.out[0] = tensor(dtype, 3, c->b, c->t, c->heads * c->d, 0);
	call.out[1] = tensor(dtype, 3, c->b, c->heads, c->t, 0);
	fill(&call.in[0], 1);
	for (int64_t i = 0; i < gt_tensor_elements(&call.in[0]); i++)
		set(&call.in[0], i, 2 * get(&call.in[0], i));
	return call;
}

/* The gradient's call for a forward one that has run, in the same memory. */
static struct gt_call attention_grad_call(const struct gt_call *forward)
{
	const struct gt_tensor *y = &forward->out[0], *qkv = &forward->in[0];
	struct gt_call call = { .attrs = forward->attrs, .inputs = 5, .outputs = 1 };

	call.in[0] = tensor(y->dtype, 3, y->shape[0], y->shape[1], y->shape[2], 0);
	fill(&call.in[0], 2);
	call.in[1] = *qkv;
	call.in[2] = *y;
	call.in[3] = forward->out[1];
	call.in[4] = forward->in[1];
	call.out[0] = tensor(qkv->dtype, 3, qkv->shape[0], qkv->shape[1], qkv->shape[2], 0);
	return call;
}

/* What dropout multiplies probability (b, head, i, j) by, by the op's definition. */
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
	int64_t C = c->heads * c->d;
	double score[256];

	for (int64_t n = 0; n < c->b * c->heads * c->t; n++) {
		int64_t i = n % c->t, head = n / c->t % c->heads, b = n / c->t / c->heads;
		int64_t q = (b * c->t + i) * 3 * C + head * c->d;
		double sum = 0;

		for (int64_t j = 0; j <= i; j++) {
			int64_t k = (b * c->t + j) * 3 * C + C + head * c->d;

			score[j] = 0;
			for (int64_t d = 0; d < c->d; d++)
				score[j] += get(&call->in[0], q + d) * get(&call->in[0], k + d);
			score[j] /= sqrt((double)c->d);
			sum += exp(score[j]);
		}
		set(lse, n, log(sum));
		for (int64_t d = 0; d < c->d; d++) {
			double out = 0;

			for (int64_t j = 0; j <= i; j++)
				out += exp(score[j]) / sum * drop_factor(call, c, b, head, i, j) *
				       get(&call->in[0],
				           (b * c->t + j) * 3 * C + 2 * C + head * c->d + d);
			set(y, (b * c->t + i) * C + head * c->d + d, out);
		}
	}
}

/* Forward and gradient of a case by one table; free them with attention_free(). */
static void attention_run(const struct gt_kernel *table, enum gt_dtype dtype,
    const struct attention_case *c, struct gt_call *forward, struct gt_call *gradient)
{
	*forward = attention_call(dtype, c);
	launch(table, "attention", forward);
	*gradient = attention_grad_call(forward);
	launch(table, "attention_grad", gradient);
}

static void attention_free(struct gt_call *forward, struct gt_call *gradient)
{
	free(gradient->in[0].data);
	free(gradient->out[0].data);
	call_free(forward);
}

/* Float64 of each set against the naive loops; float32 against float64, forward and gradient. */
static void test_attention(void **state)
{
	const struct gt_kernel *table;
	const char *name;

	(void)state;
	for (int set_index = 0; (table = attention_tables(set_index, &name)); set_index++)
		for (size_t n = 0; n < sizeof(attention_cases) / sizeof(attention_cases[0]); n++) {
			const struct attention_case *c = &attention_cases[n];
			struct gt_call f64, g64, f32, g32;
			struct gt_tensor y = tensor(GT_F64, 3, c->b, c->t, c->heads * c->d, 0);
			struct gt_tensor lse = tensor(GT_F64, 3, c->b, c->heads, c->t, 0);

			attention_run(table, GT_F64, c, &f64, &g64);
			attention_run(table, GT_F32, c, &f32, &g32);
			attention_naive(&f64, c, &y, &lse);
			assert_near(&f64.out[0], &y, 1e-12, "%s f64 y, case %d\n", name, (int)n);
			assert_near(
			    &f64.out[1], &lse, 1e-12, "%s f64 lse, case %d\n", name, (int)n);
			assert_near(&f32.out[0], &y, 3e-6, "%s f32 y, case %d\n", name, (int)n);
			assert_near(&f32.out[1], &lse, 3e-6, "%s f32 lse, case %d\n", name, (int)n);
			assert_near(
			    &g32.out[0], &g64.out[0], 1e-5, "%s dqkv, case %d\n", name, (int)n);
			attention_free(&f64, &g64);
			attention_free(&f32, &g32);
			free(y.data);
			free(lse.data);
		}
}

/* Sum of dy * y of a forward call. */
static double attention_objective(struct gt_call *call, const struct attention_case *c,
    const struct gt_tensor *dy, struct gt_tensor *y, struct gt_tensor *lse)
{
	double sum = 0;

	attention_naive(call, c, y, lse);
	for (int64_t i = 0; i < gt_tensor_elements(y); i++)
		sum += get(y, i) * get(dy, i);
	return sum;
}

/* Central differences of the naive forward, dropout included, at some 180 elements of qkv. Step
 * 1e-5: the error of the difference is about 1e-10 of the third derivative and 1e-16 / 1e-5 of
 * rounding. */
static void test_attention_differences(void **state)
{
	static const struct attention_case cases[] = { { 2, 5, 2, 3, 0 }, { 1, 19, 2, 8, 0.3 },
		{ 1, 41, 1, 4, 0.1 } };
	const struct gt_kernel *table;
	const char *name;

	(void)state;
	for (int set_index = 0; (table = attention_tables(set_index, &name)); set_index++)
		for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
			const struct attention_case *c = &cases[n];
			struct gt_call f, g;
			struct gt_tensor y = tensor(GT_F64, 3, c->b, c->t, c->heads * c->d, 0);
			struct gt_tensor lse = tensor(GT_F64, 3, c->b, c->heads, c->t, 0);
			int64_t count;

			attention_run(table, GT_F64, c, &f, &g);
			count = gt_tensor_elements(&f.in[0]);
			for (int64_t e = 0; e < count; e += count / 180 + 1) {
				double x = get(&f.in[0], e), up, down;

				set(&f.in[0], e, x + 1e-5);
				up = attention_objective(&f, c, &g.in[0], &y, &lse);
				set(&f.in[0], e, x - 1e-5);
				down = attention_objective(&f, c, &g.in[0], &y, &lse);
				set(&f.in[0], e, x);
				if (!(fabs((up - down) / 2e-5 - get(&g.out[0], e)) < 1e-8))
					fail_msg(
					    "%s case %d element %d: %g by differences, %g by the kernel",
					    name, (int)n, (int)e, (up - down) / 2e-5,
					    get(&g.out[0], e));
			}
			attention_free(&f, &g);
			free(y.data);
			free(lse.data);
		}
}

/* The share dropped: with v = 1 and q = 0, y_i is kept / (i + 1) / (1 - p), so that the sum of
 * (i + 1) y_i counts what is kept. */
static void test_attention_dropout_share(void **state)
{
	static const struct attention_case c = { 2, 130, 2, 8, 0.25 };
	struct gt_call call = attention_call(GT_F32, &c);
	double kept = 0, all = (double)(c.b * c.heads * c.t * (c.t + 1) / 2);
	int64_t C = c.heads * c.d;

	(void)state;
	for (int64_t i = 0; i < gt_tensor_elements(&call.in[0]); i++)
		set(&call.in[0], i, i % (3 * C) >= 2 * C);
	launch(gt_cpu_attention_kernels_base, "attention", &call);
	for (int64_t n = 0; n < c.b * c.t * c.heads; n++)
		kept += get(&call.out[0], n * c.d) * (double)(n / c.heads % c.t + 1) * (1 - c.p);
	/* five standard deviations of a binomial count */
	assert_true(fabs(kept - all * (1 - c.p)) < 5 * sqrt(all * c.p * (1 - c.p)));
	call_free(&call);
}

/* The same bits whatever number of threads. */
static void test_attention_threads(void **state)
{
	static const struct attention_case c = { 3, 65, 3, 32, 0.1 };
	struct gt_call f[2], g[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		omp_set_num_threads(i ? 3 : 1);
		attention_run(gt_cpu_attention_kernels_base, GT_F32, &c, &f[i], &g[i]);
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
	static const struct attention_case c = { 1, 20, 1, 8, 0 };
	const struct gt_kernel *table;
	const char *name;

	(void)state;
	for (int set_index = 0; (table = attention_tables(set_index, &name)); set_index++) {
		struct gt_call call = attention_call(GT_F32, &c);

		set(&call.in[0], 5 * 24, NAN);
		launch(table, "attention", &call);
		for (int64_t i = 0; i < c.t; i++)
			assert_int_equal(isnan(get(&call.out[0], i * 8)), i == 5);
		call_free(&call);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_conv),
		cmocka_unit_test(test_conv_fused),
		cmocka_unit_test(test_conv_residual_in_place),
		cmocka_unit_test(test_conv_error),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_attention_differences),
		cmocka_unit_test(test_attention_dropout_share),
		cmocka_unit_test(test_attention_threads),
		cmocka_unit_test(test_attention_nan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
