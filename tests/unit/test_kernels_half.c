/* test_kernels_half.c - casts, and kernels of 16 bits beside those of float32. */
#include "kernels/cpu/dnnl.h"
#include "lib/base/half.h"
#include "tests/common/kernel_cases.h"

/* ---- casts ---- */

static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16, GT_F16 };

/* Numbers that are hard to round: halves of a last place, the ends of the ranges. */
static const double hard[] = { 0, -0.0, 1, -1, 1.00390625, 1.01171875, 1.00048828125, 65504, 65520,
	65519, 3.4e38, -3.4e38, 6e-8, 2.9e-8, 1e-40, INFINITY, -INFINITY, NAN };

static double rounded(double x, enum gt_dtype dtype)
{
	if (dtype == GT_BF16)
		return (double)gt_float_of_bf16(gt_bf16_of_float((float)x));
	if (dtype == GT_F16)
		return (double)gt_float_of_f16(gt_f16_of_float((float)x));
	return dtype == GT_F32 ? (double)(float)x : x;
}

static bool same(double a, double b)
{
	return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void check_cast(
    const struct test_set *set, enum gt_dtype from, enum gt_dtype to, int64_t n, int threads)
{
	struct gt_call call = { .inputs = 1, .outputs = 1, .attrs.cast.to = to };

	call.in[0] = test_tensor1(from, n);
	call.out[0] = test_tensor1(to, n);
	test_random(&call.in[0], 7, -100, 100);
	for (size_t i = 0; i < COUNT(hard) && (int64_t)i < n; i++)
		test_put(&call.in[0], (int64_t)i, hard[i]);
	omp_set_num_threads(threads);
	test_launch(set->set, "cast", from, &call);
	EACH(i, call.in[0])
	{
		double x = test_get(&call.in[0], i), y = test_get(&call.out[0], i);

		if (!same(rounded(x, to), y))
			fail_msg("%s: %s to %s: %.9g becomes %.9g", set->name, gt_dtype_name(from),
			    gt_dtype_name(to), x, y);
	}
	test_release(&call);
}

/* There is no way between float64 and 16 bits, nor between two types of 16 bits. */
static bool has_way(enum gt_dtype from, enum gt_dtype to)
{
	return from == to || from == GT_F32 || to == GT_F32;
}

static void test_casts(void **state)
{
	static const int64_t sizes[] = { 1, 17, 18, 70001 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int s = 0; s < sets; s++)
		for (size_t i = 0; i < COUNT(types) * COUNT(types); i++) {
			enum gt_dtype from = types[i / COUNT(types)], to = types[i % COUNT(types)];
			struct gt_call call = { .inputs = 1, .outputs = 1 };

			call.in[0] = (struct gt_tensor){ .present = true, .dtype = from };
			call.out[0] = (struct gt_tensor){ .present = true, .dtype = to };
			assert_int_equal(
			    test_row(set[s].set, "cast", from, &call) != NULL, has_way(from, to));
			for (size_t k = 0; has_way(from, to) && k < COUNT(sizes); k++)
				check_cast(&set[s], from, to, sizes[k], 1 + (int)k % 2);
		}
}

/* ---- kernels of 16 bits ---- */

static void rows_make(struct gt_call *c, enum gt_dtype f, int inputs, int64_t rows, int64_t width)
{
	c->inputs = inputs;
	c->outputs = 1;
	for (int i = 0; i < inputs; i++) {
		c->in[i] = test_tensor2(f, rows, width);
		test_random(&c->in[i], (uint32_t)(1 + i), -4, 4);
	}
	c->out[0] = test_tensor2(f, rows, width);
}

static void binary_make(struct gt_call *c, enum gt_dtype f)
{
	rows_make(c, f, 2, 33, 1100); /* several tiles, the last one short */
}

static void unary_make(struct gt_call *c, enum gt_dtype f)
{
	rows_make(c, f, 1, 41, 50); /* a tile and two elements */
}

static void small_make(struct gt_call *c, enum gt_dtype f)
{
	rows_make(c, f, 1, 1, 1);
}

static void fill_make(struct gt_call *c, enum gt_dtype f)
{
	rows_make(c, f, 0, 3, 700);
	c->attrs.fill.value = 0.1;
}

/* Low data beside float32 vectors. */
static void layer_norm_make(struct gt_call *c, enum gt_dtype f)
{
	rows_make(c, f, 1, 65, 600);
	c->inputs = c->outputs = 3;
	c->attrs.norm.eps = 1e-5;
	for (int i = 1; i < 3; i++) {
		c->in[i] = test_tensor1(GT_F32, 600);
		test_random(&c->in[i], (uint32_t)(5 + i), -1, 1);
		c->out[i] = test_tensor1(GT_F32, 65);
	}
}

/* A float32 input, a low output. */
static void low_norm_make(struct gt_call *c, enum gt_dtype f)
{
	layer_norm_make(c, GT_F32);
	free(c->out[0].data);
	c->out[0] = test_tensor2(f, 65, 600);
}

/* The residual, the sum and their gradient in float32, beside low data; or all low. */
static void add_norm_make(struct gt_call *c, enum gt_dtype f, enum gt_dtype sum)
{
	const enum gt_dtype data[] = { f, sum };

	c->inputs = c->outputs = 4;
	c->attrs.norm.eps = 1e-5;
	for (int i = 0; i < 4; i++) {
		c->in[i] = i < 2 ? test_tensor2(data[i], 65, 600) : test_tensor1(GT_F32, 600);
		c->out[i] = i < 2 ? test_tensor2(data[i], 65, 600) : test_tensor1(GT_F32, 65);
		test_random(&c->in[i], (uint32_t)(5 + i), -1, 1);
	}
}

static void add_layer_norm_make(struct gt_call *c, enum gt_dtype f)
{
	add_norm_make(c, f, GT_F32);
}

static void add_norm_grad_make(struct gt_call *c, enum gt_dtype f, enum gt_dtype sum)
{
	const enum gt_dtype data[] = { f, sum, GT_F32, GT_F32, GT_F32, sum };

	c->inputs = 7;
	c->outputs = 4;
	for (int i = 0; i < 7; i++) {
		bool whole = i < 2 || i == 5;

		c->in[i] = whole ? test_tensor2(data[i], 65, 600)
		                 : test_tensor1(GT_F32, i == 3 || i == 4 ? 65 : 600);
		test_random(&c->in[i], (uint32_t)(5 + i), i == 4 ? 0.5 : -1, 1);
	}
	c->out[0] = test_tensor2(sum, 65, 600);
	c->out[1] = test_tensor1(GT_F32, 600);
	c->out[2] = test_tensor1(GT_F32, 600);
	c->out[3] = test_tensor2(f, 65, 600);
}

static void add_layer_norm_grad_make(struct gt_call *c, enum gt_dtype f)
{
	add_norm_grad_make(c, f, GT_F32);
}

/* Without the output in the other type. */
static void drop_last_output(struct gt_call *c)
{
	free(c->out[3].data);
	c->out[3] = (struct gt_tensor){ 0 };
	c->outputs = 3;
}

/* The gradient of a norm with a low output; or all low. */
static void low_norm_grad_make(struct gt_call *c, enum gt_dtype f)
{
	add_norm_grad_make(c, f, GT_F32);
	drop_last_output(c);
}

/* A sum in 16 bits is rounded before, too: test_kernels_norm.c. */
static void layer_norm_grad_make(struct gt_call *c, enum gt_dtype f)
{
	add_norm_grad_make(c, f, f);
	c->in[5].present = false;
	drop_last_output(c);
}

/* An output that is no number, images, workspace of the kernel's own. */
static void max_pool_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = 1;
	c->outputs = 2;
	c->in[0] = test_tensor4(f, 2, 17, 40, 38);
	test_random(&c->in[0], 3, -4, 4);
	c->out[0] = test_tensor4(f, 2, 17, 20, 19);
	c->out[1] = test_tensor4(GT_U8, 2, 17, 20, 19);
	c->attrs.pool.window = test_window(2, 2, 0);
	c->attrs.pool.in_height = 40;
	c->attrs.pool.in_width = 38;
}

static void avg_pool_make(struct gt_call *c, enum gt_dtype f)
{
	max_pool_make(c, f);
	free(c->out[1].data);
	c->outputs = 1;
}

/* Images and, from input `first` to `last`, float32 vectors of channels. */
static void norm_make(struct gt_call *c, enum gt_dtype f, int images, int first, int last)
{
	c->outputs = 3;
	c->inputs = last + 1;
	c->attrs.norm.eps = 1e-5;
	c->attrs.norm.momentum = 0.1;
	for (int i = 0; i < images; i++) {
		c->in[i] = test_tensor4(f, 3, 24, 7, 9);
		test_random(&c->in[i], (uint32_t)(3 + i), -2, 4);
	}
	for (int i = first; i <= last; i++) {
		c->in[i] = test_tensor1(GT_F32, 24);
		test_random(&c->in[i], (uint32_t)(3 + i), 0.5, 2);
	}
	c->out[0] = test_tensor4(f, 3, 24, 7, 9);
	for (int i = 1; i < 3; i++)
		c->out[i] = test_tensor1(GT_F32, 24);
}

static void batch_norm_make(struct gt_call *c, enum gt_dtype f)
{
	norm_make(c, f, 1, 1, 4);
	c->inputs = 6;
	c->in[5] = test_tensor(GT_I64, 0, NULL);
	test_put(&c->in[5], 0, 3);
}

static void residual_norm_make(struct gt_call *c, enum gt_dtype f)
{
	batch_norm_make(c, f);
	c->inputs = 7;
	c->attrs.norm.relu = true;
	c->in[6] = test_tensor4(f, 3, 24, 7, 9);
	test_random(&c->in[6], 9, -4, 2);
}

static void batch_norm_grad_make(struct gt_call *c, enum gt_dtype f)
{
	norm_make(c, f, 2, 2, 4);
}

static void residual_norm_grad_make(struct gt_call *c, enum gt_dtype f)
{
	norm_make(c, f, 2, 2, 4);
	c->inputs = 6;
	c->outputs = 4;
	c->in[5] = test_tensor4(f, 3, 24, 7, 9);
	test_random(&c->in[5], 8, -2, 2);
	c->out[3] = test_tensor4(f, 3, 24, 7, 9);
}

static void subsample_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = c->outputs = 1;
	c->in[0] = test_tensor4(f, 2, 17, 9, 7);
	test_random(&c->in[0], 3, -4, 4);
	c->out[0] = test_tensor4(f, 2, 20, 5, 4);
	c->attrs.subsample.stride = 2;
	c->attrs.subsample.front = 1;
	c->attrs.subsample.back = 2;
}

static void reorder_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = c->outputs = 1;
	c->in[0] = test_tensor4(f, 2, 17, 9, 7);
	test_random(&c->in[0], 3, -4, 4);
	c->out[0] = test_tensor4(f, 2, 17, 9, 7);
	c->out[0].layout = GT_PLAIN;
}

static void bias_grad_make(struct gt_call *c, enum gt_dtype f)
{
	rows_make(c, f, 1, 700, 67);
	free(c->out[0].data);
	c->out[0] = test_tensor1(f, 67);
}

/* ---- embeddings: a float32 table, low rows ---- */

enum { ENTRIES = 37, POSITIONS = 70, COLUMNS = 76 };

static struct gt_tensor token_ids(void)
{
	struct gt_tensor ids = test_tensor2(GT_I32, 3, 65);

	test_random_int(&ids, 9, 0, ENTRIES - 20); /* each some times; one row many times */
	for (int64_t i = 0; i < 70; i++)
		test_put(&ids, i, 3);
	return ids;
}

static void embedding_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = 3;
	c->outputs = 1;
	c->attrs.embedding.low = f;
	c->in[0] = test_tensor2(GT_F32, ENTRIES, COLUMNS);
	c->in[1] = token_ids();
	c->in[2] = test_tensor2(GT_F32, POSITIONS, COLUMNS);
	test_random(&c->in[0], 7, -1, 1);
	test_random(&c->in[2], 8, -1, 1);
	c->out[0] = test_tensor3(f, 3, 65, COLUMNS);
}

static void embedding_grad_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = 3;
	c->outputs = 1;
	c->attrs.embedding.rows = ENTRIES;
	c->attrs.embedding.low = f;
	c->in[0] = test_tensor3(f, 3, 65, COLUMNS);
	c->in[1] = token_ids();
	c->in[2] = test_tensor2(GT_F32, ENTRIES, COLUMNS);
	test_random(&c->in[0], 7, -1, 1);
	test_random(&c->in[2], 8, -1, 1);
	c->out[0] = test_tensor2(GT_F32, ENTRIES, COLUMNS);
}

static void position_grad_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = c->outputs = 1;
	c->attrs.embedding.rows = POSITIONS;
	c->attrs.embedding.low = f;
	c->in[0] = test_tensor3(f, 3, 65, COLUMNS);
	test_random(&c->in[0], 7, -1, 1);
	c->out[0] = test_tensor2(GT_F32, POSITIONS, COLUMNS);
}

static void attention_make(struct gt_call *c, enum gt_dtype f)
{
	c->inputs = 1;
	c->outputs = 2;
	c->attrs.attention.heads = 2;
	c->in[0] = test_tensor3(f, 2, 19, 3 * 10);
	test_random(&c->in[0], 3, -2, 2);
	c->out[0] = test_tensor3(f, 2, 19, 10);
	c->out[1] = test_tensor3(GT_F32, 2, 2, 19);
}

/* How a case runs, too. */
enum {
	APART,
	IN_PLACE,
	/* Not on GPUs, whose tensor cores take probabilities of 16 bits: see test_attention.c. */
	ON_CPUS
};

static const struct {
	const char *op;
	void (*make)(struct gt_call *c, enum gt_dtype f);
	int how;
} cases[] = {
	{ "add", binary_make, IN_PLACE },
	{ "relu", unary_make, IN_PLACE },
	{ "relu", small_make, APART },
	{ "relu_grad", binary_make, IN_PLACE },
	{ "gelu", unary_make, APART },
	{ "gelu_grad", binary_make, IN_PLACE },
	{ "copy", small_make, APART },
	{ "fill", fill_make, APART },
	{ "layer_norm", layer_norm_make, APART },
	{ "layer_norm", low_norm_make, APART },
	{ "layer_norm_grad", layer_norm_grad_make, APART },
	{ "layer_norm_grad", low_norm_grad_make, APART },
	{ "add_layer_norm", add_layer_norm_make, APART },
	{ "add_layer_norm_grad", add_layer_norm_grad_make, APART },
	{ "embedding", embedding_make, APART },
	{ "embedding_grad", embedding_grad_make, APART },
	{ "position_grad", position_grad_make, APART },
	{ "batch_norm", batch_norm_make, APART },
	{ "batch_norm", residual_norm_make, APART },
	{ "batch_norm_grad", batch_norm_grad_make, IN_PLACE },
	{ "batch_norm_grad", residual_norm_grad_make, IN_PLACE },
	{ "max_pool2d", max_pool_make, APART },
	{ "avg_pool2d", avg_pool_make, APART },
	{ "subsample", subsample_make, APART },
	{ "reorder", reorder_make, APART },
	{ "bias_grad", bias_grad_make, APART },
	{ "attention", attention_make, ON_CPUS },
};

/* Both calls draw the same numbers; those of 16 bits are rounded. */
static void copy_inputs(struct gt_call *to, const struct gt_call *from)
{
	for (int i = 0; i < from->inputs; i++)
		EACH(e, from->in[i])
	test_put(&to->in[i], e, test_get(&from->in[i], e));
}

static void compare(
    const char *op, const struct test_set *set, const struct gt_call *got, const struct gt_call *of)
{
	for (int i = 0; i < of->outputs; i++)
		EACH(e, of->out[i])
		{
			double want = rounded(test_get(&of->out[i], e), got->out[i].dtype);

			if (got->out[i].dtype == GT_U8)
				want = test_get(&of->out[i], e);
			if (!same(test_get(&got->out[i], e), want))
				fail_msg("%s %s %s: output %d, element %lld is %.9g, not %.9g", op,
				    set->name, gt_dtype_name(got->out[i].dtype), i, (long long)e,
				    test_get(&got->out[i], e), want);
		}
}

/* The result is that of the float32 kernel of the same set, rounded once. */
static void test_rounds_once(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t k = 0; k < COUNT(cases) * (size_t)sets * 4; k++) {
		const struct test_set *s = &set[k / 4 / COUNT(cases)];
		enum gt_dtype half = k & 1 ? GT_BF16 : GT_F16;
		struct gt_call low = { 0 }, wide = { 0 };
		struct gt_err err = GT_ERR_INIT;
		size_t at = k / 4 % COUNT(cases);
		enum gt_dtype row;

		cases[at].make(&low, half);
		row = low.inputs ? low.in[0].dtype : half;
		if (test_lacks(s, cases[at].op, row, &low) ||
		    (cases[at].how == ON_CPUS && !strcmp(s->name, "cuda"))) {
			test_release(&low);
			continue;
		}
		cases[at].make(&wide, GT_F32);
		copy_inputs(&wide, &low);
		omp_set_num_threads(1);
		assert_int_equal(test_run(s->set, cases[at].op, GT_F32, &wide, &err), 0);
		omp_set_num_threads(k & 2 ? 2 : 1);
		if (k & 2 && cases[at].how == IN_PLACE) {
			free(low.out[0].data);
			low.out[0].data = low.in[0].data;
			assert_int_equal(test_run(s->set, cases[at].op, row, &low, &err), 0);
		} else {
			test_launch(s->set, cases[at].op, row, &low);
		}
		compare(cases[at].op, s, &low, &wide);
		test_release(&low);
		test_release(&wide);
	}
}

/* A row takes no call that the float32 kernel refuses: images in another layout. */
static void test_refuses_what_float32_refuses(void **state)
{
	struct gt_call c = { 0 };

	(void)state;
	max_pool_make(&c, GT_BF16);
	assert_non_null(test_row(&gt_cpu_set_base, "max_pool2d", GT_BF16, &c));
	c.in[0].layout = GT_PLAIN;
	assert_null(test_row(&gt_cpu_set_base, "max_pool2d", GT_BF16, &c));
	test_release(&c);
}

/* Products of bfloat16 go to oneDNN where it has the type, and are widened where not. */
static void test_products(void **state)
{
	static const char *const ops[] = { "matmul", "conv2d", "conv2d_input_grad",
		"conv2d_weight_grad" };
	const struct gt_tensor image = { .present = true,
		.dtype = GT_BF16,
		.ndim = 4,
		.shape = { 2, 16, 8, 8 },
		.layout = GT_CHANNELS_LAST };
	const struct gt_tensor weight = {
		.present = true, .dtype = GT_BF16, .ndim = 4, .shape = { 16, 16, 3, 3 }
	};
	const struct gt_window window = { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } };

	(void)state;
	for (size_t i = 0; i < COUNT(ops); i++) {
		bool writes_weights = strstr(ops[i], "weight");
		struct gt_call c = { .inputs = 2,
			.outputs = 1,
			.in = { image, writes_weights ? image : weight },
			.out = { writes_weights ? weight : image } };
		const struct gt_kernel *k;

		if (i > 0) {
			c.attrs.conv.window = window;
			c.attrs.conv.groups = 1;
		}
		k = test_row(&gt_cpu_set_base, ops[i], GT_BF16, &c);
		assert_non_null(k);
		assert_int_equal(k->bind == gt_dnnl_bind, gt_dnnl_accepts_bf16(&c));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_casts),
		cmocka_unit_test(test_rounds_once),
		cmocka_unit_test(test_refuses_what_float32_refuses),
		cmocka_unit_test(test_products),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
