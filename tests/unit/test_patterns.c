/* test_patterns.c - patterns: which are found, and the same loss and gradients with and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/philox.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/graph/patterns/patterns.h"
#include "lib/graph/plan.h"
#include "lib/store/store.h"
#include "tests/common/device.h"

enum { B = 2, T = 5, C = 8, HEADS = 4, SHARED = 2, D = 6 };

/* ---- parts of networks ---- */

static struct gt_value *weight(struct gt_graph *g, const char *name, int ndim, const int64_t *shape)
{
	return gt_parameter(
	    g, name, GT_F32, ndim, shape, (struct gt_init){ GT_INIT_NORMAL, 1 }, true);
}

#define SHAPE(...)                                                                                 \
	sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (int64_t[])                          \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static struct gt_value *sample(struct gt_graph *g, const char *name)
{
	return weight(g, name, SHAPE(B, T, C));
}

static struct gt_value *mul(struct gt_graph *g, struct gt_value *a, struct gt_value *b)
{
	return gt_binary(g, GT_F_MUL, a, b);
}

static struct gt_value *with_number(
    struct gt_graph *g, enum gt_function f, struct gt_value *x, double number)
{
	return gt_apply(g, f, (struct gt_map_operand[]){ { .value = x }, { true, number, NULL } });
}

static struct gt_value *plus(struct gt_graph *g, struct gt_value *x, double number)
{
	return with_number(g, GT_F_ADD, x, number);
}

static struct gt_value *times(struct gt_graph *g, struct gt_value *x, double number)
{
	return with_number(g, GT_F_MUL, x, number);
}

static struct gt_value *mean(struct gt_graph *g, struct gt_value *x, int dim)
{
	return times(g, gt_sum(g, x, 1u << dim, true), 1.0 / (double)x->shape[dim]);
}

/* ---- norms ---- */

static struct gt_value *mean_square(struct gt_graph *g, struct gt_value *x, int dim)
{
	return mean(g, with_number(g, GT_F_POW, x, 2), dim);
}

static struct gt_value *rms(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x"), *w = weight(g, "w", SHAPE(C));

	return mul(g, w, mul(g, x, gt_unary(g, GT_F_RSQRT, plus(g, mean_square(g, x, 2), 1e-5))));
}

/* Another grouping, a quotient, and a weight that is computed. */
static struct gt_value *rms_regrouped(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x"), *w = weight(g, "w", SHAPE(1, 1, C));

	return gt_binary(g, GT_F_DIV, mul(g, x, plus(g, w, 1)),
	    gt_unary(g, GT_F_SQRT, plus(g, mean(g, mul(g, x, x), 2), 1e-5)));
}

static struct gt_value *rms_plain(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x");

	return mul(g, x, gt_unary(g, GT_F_RSQRT, plus(g, mean_square(g, x, 2), 1e-5)));
}

static struct gt_value *rms_over_tokens(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x");

	return mul(g, x, gt_unary(g, GT_F_RSQRT, plus(g, mean_square(g, x, 1), 1e-5)));
}

static struct gt_value *rms_eps_outside(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x");

	return gt_binary(
	    g, GT_F_DIV, x, plus(g, gt_unary(g, GT_F_SQRT, mean_square(g, x, 2)), 1e-5));
}

static struct gt_value *rms_of_another(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x"), *other = sample(g, "other");

	return mul(g, x, gt_unary(g, GT_F_RSQRT, plus(g, mean_square(g, other, 2), 1e-5)));
}

/* A weight for each token is none for each feature: the norm is without one. */
static struct gt_value *rms_weighted_tokens(struct gt_graph *g)
{
	return mul(g, weight(g, "w", SHAPE(T, 1)), rms_plain(g));
}

/* The inverse root is read again behind the norm. */
static struct gt_value *rms_read_inside(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x");
	struct gt_value *r = gt_unary(g, GT_F_RSQRT, plus(g, mean_square(g, x, 2), 1e-5));

	return gt_binary(g, GT_F_ADD, mul(g, x, r), r);
}

static struct gt_value *layer_norm(struct gt_graph *g, bool affine, bool quotient)
{
	struct gt_value *x = sample(g, "x"), *y, *d, *again, *variance;

	d = gt_binary(g, GT_F_SUB, x, mean(g, x, 2));
	again = gt_binary(g, GT_F_SUB, x, mean(g, x, 2));
	variance = plus(g, mean_square(g, again, 2), 1e-6);
	y = quotient ? gt_binary(g, GT_F_DIV, d, gt_unary(g, GT_F_SQRT, variance))
	             : mul(g, d, gt_unary(g, GT_F_RSQRT, variance));
	if (affine)
		y = gt_binary(
		    g, GT_F_ADD, mul(g, weight(g, "w", SHAPE(C)), y), weight(g, "b", SHAPE(C)));
	return y;
}

static struct gt_value *norm_affine(struct gt_graph *g)
{
	return layer_norm(g, true, false);
}

static struct gt_value *norm_quotient(struct gt_graph *g)
{
	return layer_norm(g, true, true);
}

static struct gt_value *norm_plain(struct gt_graph *g)
{
	return layer_norm(g, false, true);
}

/* The mean of the squares less the square of the mean. */
static struct gt_value *norm_one_pass(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x"), *m = mean(g, x, 2), *variance;

	variance = gt_binary(g, GT_F_SUB, mean_square(g, x, 2), mul(g, m, m));
	return mul(
	    g, gt_binary(g, GT_F_SUB, x, m), gt_unary(g, GT_F_RSQRT, plus(g, variance, 1e-6)));
}

/* ---- activations and products ---- */

static struct gt_value *gelu_of(struct gt_graph *g, double cubic, bool factored)
{
	struct gt_value *x = sample(g, "x"), *in;

	if (factored)
		in = mul(g, times(g, x, 0.79788456), plus(g, mul(g, times(g, x, cubic), x), 1));
	else
		in = times(g, gt_add(g, x, times(g, with_number(g, GT_F_POW, x, 3), cubic)),
		    sqrt(2 / M_PI));
	return mul(g, times(g, x, 0.5), plus(g, gt_unary(g, GT_F_TANH, in), 1));
}

static struct gt_value *gelu_tanh(struct gt_graph *g)
{
	return gelu_of(g, 0.044715, false);
}

static struct gt_value *gelu_factored(struct gt_graph *g)
{
	return gelu_of(g, 0.044715, true);
}

static struct gt_value *gelu_other_number(struct gt_graph *g)
{
	return gelu_of(g, 0.05, false);
}

static struct gt_value *gelu_erf(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x");
	struct gt_value *e = gt_unary(g, GT_F_ERF, with_number(g, GT_F_DIV, x, M_SQRT2));

	return mul(g, x, times(g, plus(g, e, 1), 0.5));
}

static struct gt_value *swiglu(struct gt_graph *g)
{
	return mul(g, sample(g, "b"), gt_unary(g, GT_F_SILU, sample(g, "a")));
}

static struct gt_value *swiglu_in_steps(struct gt_graph *g)
{
	struct gt_value *a = sample(g, "a");

	return mul(g, mul(g, a, gt_unary(g, GT_F_SIGMOID, a)), sample(g, "b"));
}

static struct gt_value *swiglu_broadcast(struct gt_graph *g)
{
	return mul(g, weight(g, "b", SHAPE(C)), gt_unary(g, GT_F_SILU, sample(g, "a")));
}

static struct gt_value *silu_quotient(struct gt_graph *g)
{
	struct gt_value *a = sample(g, "a");
	struct gt_value *e = gt_unary(g, GT_F_EXP, gt_unary(g, GT_F_NEG, a));

	return gt_binary(g, GT_F_DIV, a, plus(g, e, 1));
}

static struct gt_value *linear(struct gt_graph *g)
{
	struct gt_value *w = weight(g, "w", SHAPE(3, C));
	struct gt_value *turned = gt_permute_dims(g, w, (const int[]){ 1, 0 });

	return gt_binary(g, GT_F_ADD, gt_matmul(g, sample(g, "x"), turned, NULL, false, false),
	    weight(g, "b", SHAPE(3)));
}

static struct gt_value *linear_residual(struct gt_graph *g)
{
	struct gt_value *x = sample(g, "x");

	return gt_add(g, gt_matmul(g, x, weight(g, "w", SHAPE(C, C)), NULL, false, true), x);
}

/* ---- attention ---- */

/* How scores are changed before the softmax. */
enum mask { NOTHING, WHERE_HIDDEN, WHERE_SEEN, ADDED, ZEROS, BAND, EARLIER, SOFT };

static double mask_element(enum mask mask, int64_t i, int64_t j)
{
	switch (mask) {
	case WHERE_HIDDEN:
		return j > i;
	case WHERE_SEEN:
		return j <= i;
	case ADDED:
		return j > i ? -INFINITY : 0;
	case BAND:
		return j > i || i - j > 2 ? -INFINITY : 0;
	case EARLIER:
		return j < i ? -INFINITY : 0;
	case SOFT:
		return -1.0 * (double)(j > i);
	default:
		return 0;
	}
}

static struct gt_value *masked(struct gt_graph *g, struct gt_value *scores, enum mask mask)
{
	float elements[T * T];
	struct gt_value *m;

	if (mask == NOTHING)
		return scores;
	for (int i = 0; i < T * T; i++)
		elements[i] = (float)mask_element(mask, i / T, i % T);
	m = gt_constant(g, GT_F32, 4, (int64_t[]){ 1, 1, T, T }, elements);
	if (mask == WHERE_HIDDEN)
		return gt_apply(g, GT_F_WHERE,
		    (struct gt_map_operand[]){
		        { .value = m }, { true, -INFINITY, NULL }, { .value = scores } });
	if (mask == WHERE_SEEN)
		return gt_apply(g, GT_F_WHERE,
		    (struct gt_map_operand[]){
		        { .value = m }, { .value = scores }, { true, -1e10, NULL } });
	return gt_binary(g, GT_F_ADD, scores, m);
}

static struct gt_value *heads(struct gt_graph *g, const char *name, int count)
{
	struct gt_value *x = weight(g, name, SHAPE(B, T, count * D));

	return gt_permute_dims(
	    g, gt_reshape(g, x, SHAPE(B, T, count, D)), (const int[]){ 0, 2, 1, 3 });
}

static struct gt_value *joined(struct gt_graph *g, struct gt_value *x)
{
	return gt_reshape(g, gt_permute_dims(g, x, (const int[]){ 0, 2, 1, 3 }),
	    SHAPE(x->shape[0], x->shape[2], x->shape[1] * x->shape[3]));
}

static struct gt_value *attend(struct gt_graph *g, enum mask mask, double scale, double p)
{
	struct gt_value *q = heads(g, "q", HEADS), *k = heads(g, "k", HEADS);
	struct gt_value *v = heads(g, "v", HEADS), *y;

	k = gt_permute_dims(g, k, (const int[]){ 0, 1, 3, 2 });
	y = masked(
	    g, times(g, gt_batched_matmul(g, times(g, q, 0.5), k, false, false), scale), mask);
	y = gt_softmax(g, y, 3, false);
	if (p > 0)
		y = gt_dropout(g, y, gt_input(g, "rng", GT_I64, SHAPE(GT_RNG_FIELDS)), p);
	return joined(g, gt_batched_matmul(g, y, v, false, false));
}

static const double usual = 2 / 2.449489742783178; /* with the 0.5 above: 1 / sqrt(D) */

#define ATTENTION(name, mask, scale, p)                                                            \
	static struct gt_value *name(struct gt_graph *g)                                           \
	{                                                                                          \
		return attend(g, mask, scale, p);                                                  \
	}
ATTENTION(attention_plain, NOTHING, usual, 0)
ATTENTION(attention_scaled, NOTHING, 1, 0)
ATTENTION(attention_hidden, WHERE_HIDDEN, usual, 0)
ATTENTION(attention_seen, WHERE_SEEN, usual, 0)
ATTENTION(attention_added, ADDED, usual, 0)
ATTENTION(attention_zeros, ZEROS, usual, 0)
ATTENTION(attention_dropped, ADDED, usual, 0.4)
ATTENTION(attention_band, BAND, usual, 0)
ATTENTION(attention_earlier, EARLIER, usual, 0)
ATTENTION(attention_soft, SOFT, usual, 0)

/* Three dimensions, as products of nn.MultiheadAttention with weights have them. */
static struct gt_value *attention_flat(struct gt_graph *g)
{
	struct gt_value *q = weight(g, "q", SHAPE(B, T, D)), *k = weight(g, "k", SHAPE(B, T, D));
	struct gt_value *v = weight(g, "v", SHAPE(B, T, D)), *y;

	y = gt_batched_matmul(g, q, k, false, true);
	return gt_batched_matmul(g, gt_softmax(g, y, 2, false), v, false, false);
}

/* Probabilities that are also a result. */
static struct gt_value *attention_read_inside(struct gt_graph *g)
{
	struct gt_value *q = heads(g, "q", HEADS), *k = heads(g, "k", HEADS), *p;

	p = gt_softmax(g, gt_batched_matmul(g, q, k, false, true), 3, false);
	return gt_cat(g, 2,
	    (struct gt_value *[]){ p, gt_batched_matmul(g, p, heads(g, "v", HEADS), false, false) },
	    3);
}

/* Queries of another length than keys. */
static struct gt_value *attention_across(struct gt_graph *g)
{
	struct gt_value *q = gt_slice_dim(g, heads(g, "q", HEADS), 2, 0, T - 1, 1), *y;

	y = gt_batched_matmul(g, q, heads(g, "k", HEADS), false, true);
	return gt_batched_matmul(g, gt_softmax(g, y, 3, false), heads(g, "v", HEADS), false, false);
}

/* ---- the op attention: shared heads, rotary positions ---- */

static struct gt_value *repeated(struct gt_graph *g, struct gt_value *x)
{
	x = gt_expand(
	    g, gt_reshape(g, x, SHAPE(B, SHARED, 1, T, D)), SHAPE(B, SHARED, HEADS / SHARED, T, D));
	return gt_reshape(g, x, SHAPE(B, HEADS, T, D));
}

static struct gt_value *attend_by_op(
    struct gt_graph *g, struct gt_value *q, struct gt_value *k, struct gt_value *v)
{
	union gt_attrs attrs = { 0 };

	return joined(g, gt_attention_of_heads(g, q, k, v, usual / 2, NULL, &attrs));
}

static struct gt_value *shared_heads(struct gt_graph *g)
{
	return attend_by_op(g, heads(g, "q", HEADS), repeated(g, heads(g, "k", SHARED)),
	    repeated(g, heads(g, "v", SHARED)));
}

/* Keys are shared, and values are not. */
static struct gt_value *shared_keys(struct gt_graph *g)
{
	return attend_by_op(
	    g, heads(g, "q", HEADS), repeated(g, heads(g, "k", SHARED)), heads(g, "v", HEADS));
}

/* A table of cos or sin, whose tokens are in dimension `dim` of four. */
static struct gt_value *rotation_table(
    struct gt_graph *g, bool sine, double theta, double stretch, int dim)
{
	float elements[T * D];
	int64_t shape[4] = { 1, 1, 1, D };

	for (int i = 0; i < T * D; i++) {
		double angle = i / D / stretch * pow(theta, -2.0 * (i % D % (D / 2)) / D);

		elements[i] = (float)(sine ? sin(angle) : cos(angle));
	}
	shape[dim] = T;
	return gt_constant(g, GT_F32, 4, shape, elements);
}

static struct gt_value *rotated(
    struct gt_graph *g, struct gt_value *x, double theta, double stretch, int dim)
{
	struct gt_value *halves[] = { gt_unary(g, GT_F_NEG, gt_slice_dim(g, x, 3, D / 2, D, 1)),
		gt_slice_dim(g, x, 3, 0, D / 2, 1) };

	return gt_add(g, mul(g, x, rotation_table(g, false, theta, stretch, dim)),
	    mul(g, gt_cat(g, 2, halves, 3), rotation_table(g, true, theta, stretch, dim)));
}

static struct gt_value *rope(struct gt_graph *g)
{
	return attend_by_op(g, rotated(g, heads(g, "q", HEADS), 100, 1, 2),
	    repeated(g, rotated(g, heads(g, "k", SHARED), 100, 1, 2)),
	    repeated(g, heads(g, "v", SHARED)));
}

/* Queries are scaled behind the rotation. */
static struct gt_value *rope_scaled(struct gt_graph *g)
{
	return attend_by_op(g, times(g, rotated(g, heads(g, "q", HEADS), 100, 1, 2), 0.7),
	    rotated(g, heads(g, "k", HEADS), 100, 1, 2), heads(g, "v", HEADS));
}

/* Heads are rotated before they come before tokens. */
static struct gt_value *rope_first(struct gt_graph *g)
{
	const int order[] = { 0, 2, 1, 3 };
	struct gt_value *q = gt_permute_dims(g, heads(g, "q", HEADS), order);
	struct gt_value *k = gt_permute_dims(g, heads(g, "k", HEADS), order);

	return attend_by_op(g, gt_permute_dims(g, rotated(g, q, 1e4, 1, 1), order),
	    gt_permute_dims(g, rotated(g, k, 1e4, 1, 1), order), heads(g, "v", HEADS));
}

static struct gt_value *rope_stretched(struct gt_graph *g)
{
	return attend_by_op(g, rotated(g, heads(g, "q", HEADS), 100, 4, 2),
	    rotated(g, heads(g, "k", HEADS), 100, 4, 2), heads(g, "v", HEADS));
}

static struct gt_value *rope_unequal(struct gt_graph *g)
{
	return attend_by_op(g, rotated(g, heads(g, "q", HEADS), 100, 1, 2),
	    rotated(g, heads(g, "k", HEADS), 200, 1, 2), heads(g, "v", HEADS));
}

static struct gt_value *rope_of_queries(struct gt_graph *g)
{
	return attend_by_op(g, rotated(g, heads(g, "q", HEADS), 100, 1, 2), heads(g, "k", HEADS),
	    heads(g, "v", HEADS));
}

/* ---- rows and tokens ---- */

static struct gt_value *product_of_turned(struct gt_graph *g)
{
	struct gt_value *x = gt_permute_dims(g, sample(g, "x"), (const int[]){ 1, 0, 2 });

	return gt_matmul(g, x, weight(g, "w", SHAPE(3, C)), weight(g, "b", SHAPE(3)), false, true);
}

static struct gt_value *permuted_rows(struct gt_graph *g)
{
	return gt_permute_dims(g, product_of_turned(g), (const int[]){ 1, 0, 2 });
}

/* The rows stay permuted for another reader. */
static struct gt_value *permuted_rows_read(struct gt_graph *g)
{
	struct gt_value *y = product_of_turned(g);

	return mul(g, gt_permute_dims(g, y, (const int[]){ 1, 0, 2 }),
	    gt_sum(g, gt_unary(g, GT_F_TANH, y), 7, false));
}

static struct gt_value *ids(struct gt_graph *g, const char *name)
{
	static const int32_t numbers[B * T] = { 3, 1, 4, 1, 5, 2, 6, 5, 3, 5 };

	(void)name;
	return gt_constant(g, GT_I32, 2, (int64_t[]){ B, T }, numbers);
}

static struct gt_value *positions(struct gt_graph *g)
{
	const int32_t counted[T] = { 0, 1, 2, 3, 4 };
	struct gt_value *at = gt_constant(g, GT_I32, 2, (int64_t[]){ 1, T }, counted);

	return gt_binary(g, GT_F_ADD,
	    gt_embedding(g, weight(g, "w", SHAPE(7, C)), ids(g, "ids"), NULL, NULL),
	    gt_embedding(g, weight(g, "at", SHAPE(9, C)), at, NULL, NULL));
}

static struct gt_value *positions_backwards(struct gt_graph *g)
{
	const int32_t counted[T] = { 4, 3, 2, 1, 0 };
	struct gt_value *at = gt_constant(g, GT_I32, 2, (int64_t[]){ 1, T }, counted);

	return gt_binary(g, GT_F_ADD,
	    gt_embedding(g, weight(g, "w", SHAPE(7, C)), ids(g, "ids"), NULL, NULL),
	    gt_embedding(g, weight(g, "at", SHAPE(9, C)), at, NULL, NULL));
}

/* With one sample, what is added has the shape of positions, but it depends on the data. */
static struct gt_value *positions_of_data(struct gt_graph *g)
{
	static const int32_t numbers[T] = { 3, 1, 4, 1, 5 };
	struct gt_value *at = gt_constant(g, GT_I32, 2, (int64_t[]){ 1, T }, numbers), *x, *y;

	x = gt_embedding(g, weight(g, "w", SHAPE(7, C)), at, NULL, NULL);
	y = gt_dropout(g, weight(g, "v", SHAPE(1, T, C)),
	    gt_input(g, "rng", GT_I64, SHAPE(GT_RNG_FIELDS)), 0.3);
	return gt_add(g, x, y);
}

static struct gt_value *types_of_tokens(struct gt_graph *g)
{
	return gt_binary(g, GT_F_ADD,
	    gt_embedding(g, weight(g, "w", SHAPE(7, C)), ids(g, "ids"), NULL, NULL),
	    weight(g, "type", SHAPE(C)));
}

static struct gt_value *class_token(struct gt_graph *g, bool last)
{
	struct gt_value *image = gt_conv2d(g, weight(g, "x", SHAPE(B, 3, 4, 6)),
	    weight(g, "w", SHAPE(C, 3, 2, 2)), NULL, gt_conv_square(2, 0));
	struct gt_value *token = gt_expand(g, weight(g, "token", SHAPE(1, 1, C)), SHAPE(B, 1, C));
	struct gt_value *patches =
	    gt_permute_dims(g, gt_reshape(g, image, SHAPE(B, C, 6)), (const int[]){ 0, 2, 1 });
	struct gt_value *in[] = { last ? patches : token, last ? token : patches };

	return gt_binary(g, GT_F_ADD, gt_cat(g, 2, in, 1), weight(g, "at", SHAPE(1, 7, C)));
}

static struct gt_value *class_first(struct gt_graph *g)
{
	return class_token(g, false);
}

static struct gt_value *class_last(struct gt_graph *g)
{
	return class_token(g, true);
}

/* A token of other dimensions, which cannot be expanded to [B, 1, C]. */
static struct gt_value *class_of_parts(struct gt_graph *g)
{
	struct gt_value *image = gt_conv2d(g, weight(g, "x", SHAPE(B, 3, 4, 6)),
	    weight(g, "w", SHAPE(C, 3, 2, 2)), NULL, gt_conv_square(2, 0));
	struct gt_value *token = gt_expand(g, weight(g, "token", SHAPE(4, 2, 1)), SHAPE(4, 2, B));
	struct gt_value *in[] = {
		gt_reshape(g, gt_permute_dims(g, token, (const int[]){ 2, 0, 1 }), SHAPE(B, 1, C)),
		gt_permute_dims(g, gt_reshape(g, image, SHAPE(B, C, 6)), (const int[]){ 0, 2, 1 }),
	};

	return gt_binary(g, GT_F_ADD, gt_cat(g, 2, in, 1), weight(g, "at", SHAPE(1, 7, C)));
}

/* ---- cases ---- */

struct pattern_case {
	const char *name;
	struct gt_value *(*build)(struct gt_graph *g);
	const char *found;
};

#define CASE(build, found)                                                                         \
	{                                                                                          \
#build, build, found                                                               \
	}

static const struct pattern_case cases[] = {
	CASE(rms, "1 x rms norm"),
	CASE(rms_regrouped, "1 x rms norm"),
	CASE(rms_plain, "1 x rms norm"),
	CASE(rms_weighted_tokens, "1 x rms norm"),
	CASE(rms_over_tokens, ""),
	CASE(rms_eps_outside, ""),
	CASE(rms_of_another, ""),
	CASE(rms_read_inside, ""),
	CASE(norm_affine, "1 x layer norm"),
	CASE(norm_quotient, "1 x layer norm"),
	CASE(norm_plain, "1 x layer norm"),
	CASE(norm_one_pass, "1 x layer norm"),
	CASE(gelu_tanh, "1 x gelu"),
	CASE(gelu_factored, "1 x gelu"),
	CASE(gelu_erf, "1 x gelu"),
	CASE(gelu_other_number, ""),
	CASE(swiglu, "1 x swiglu"),
	CASE(swiglu_in_steps, "1 x silu, 1 x swiglu"),
	CASE(swiglu_broadcast, ""),
	CASE(silu_quotient, "1 x silu"),
	CASE(linear, "2 x linear"),
	CASE(linear_residual, ""),
	CASE(attention_plain, "1 x attention"),
	CASE(attention_scaled, "1 x attention"),
	CASE(attention_hidden, "1 x attention"),
	CASE(attention_seen, "1 x attention"),
	CASE(attention_added, "1 x attention"),
	CASE(attention_zeros, "1 x attention"),
	CASE(attention_dropped, "1 x attention"),
	CASE(attention_flat, "1 x attention"),
	CASE(attention_band, ""),
	CASE(attention_earlier, ""),
	CASE(attention_soft, ""),
	CASE(attention_read_inside, ""),
	CASE(attention_across, ""),
	CASE(shared_heads, "1 x shared heads"),
	CASE(shared_keys, ""),
	CASE(rope, "1 x shared heads, 1 x rope"),
	CASE(rope_scaled, "1 x rope"),
	CASE(rope_first, "1 x rope"),
	CASE(rope_stretched, ""),
	CASE(rope_unequal, ""),
	CASE(rope_of_queries, ""),
	CASE(permuted_rows, "1 x permuted rows"),
	CASE(permuted_rows_read, ""),
	CASE(positions, "1 x positions"),
	CASE(positions_backwards, "1 x positions"),
	CASE(positions_of_data, ""),
	CASE(types_of_tokens, ""),
	CASE(class_first, "1 x class token"),
	CASE(class_last, ""),
	CASE(class_of_parts, ""),
};

/* ---- runs ---- */

struct run {
	struct gt_graph *g;
	struct gt_store *store;
	struct gt_plan *plan;
	void *memory;
	float loss;
	char found[128];
};

static void list_found(struct run *r)
{
	size_t used = 0;

	for (int i = 0; i < r->g->recognized_count; i++)
		used += (size_t)snprintf(r->found + used, sizeof(r->found) - used, "%s%d x %s",
		    i ? ", " : "", (int)r->g->recognized[i].count, r->g->recognized[i].name);
}

/* The loss is a sum of all elements, each with a factor of its own. */
static struct gt_value *emit_loss(struct gt_graph *g, struct gt_value *y)
{
	int64_t count = gt_value_elements(y);
	float *factors = malloc((size_t)count * sizeof(*factors));

	assert_non_null(factors);
	for (int64_t i = 0; i < count; i++)
		factors[i] = (float)sin((double)i + 1);
	y = mul(g, y, gt_constant(g, GT_F32, y->ndim, y->shape, factors));
	free(factors);
	return gt_sum(g, y, (1u << y->ndim) - 1, false);
}

static void build_run(struct run *r, const struct pattern_case *c, bool apply, struct gt_err *err)
{
	const struct gt_backend *backend = test_device(0)->backend;
	struct gt_pass_options passes = { .images = backend->image_layout,
		.kernels = backend->kernels(),
		.logits_bytes = backend->logits_bytes,
		.logits_align = backend->logits_align };
	struct gt_value *y;

	if (gt_graph_new(&r->g, err))
		fail_msg("%s", err->text);
	y = c->build(r->g);
	if (gt_graph_status(r->g, err) || (apply && gt_patterns_apply(r->g, &y, err)))
		fail_msg("%s: %s", c->name, err->text);
	list_found(r);
	passes.loss = gt_output(r->g, emit_loss(r->g, y), "loss");
	if (gt_graph_status(r->g, err) || gt_passes_run(r->g, &passes, err))
		fail_msg("%s: %s", c->name, err->text);
}

static void open_run(struct run *r, const struct pattern_case *c, bool apply)
{
	const int64_t rng[GT_RNG_FIELDS] = { 7, 1 };
	const struct gt_device *device = test_device(0);
	const struct gt_value *drawn;
	struct gt_err err = GT_ERR_INIT;

	build_run(r, c, apply, &err);
	drawn = gt_graph_find(r->g, "rng");
	if (gt_store_new(&r->store, r->g, device, true, &err) ||
	    gt_plan_new(&r->plan, r->g, r->store, NULL, &err) || gt_store_alloc(r->store, &err) ||
	    gt_store_init(r->store, 1, &err) ||
	    gt_device_alloc(device, gt_plan_arena_bytes(r->plan), &r->memory, &err) ||
	    gt_plan_bind(r->plan, r->memory, &err) ||
	    (drawn && gt_plan_write(r->plan, drawn, rng, sizeof(rng), &err)) ||
	    gt_plan_run(r->plan, &err) ||
	    gt_plan_read(r->plan, gt_graph_find(r->g, "loss"), &r->loss, sizeof(r->loss), &err) ||
	    gt_device_sync(device, &err))
		fail_msg("%s: %s", c->name, err.text);
}

static void close_run(struct run *r)
{
	gt_device_free(test_device(0), r->memory, gt_plan_arena_bytes(r->plan));
	gt_plan_free(r->plan);
	gt_store_free(r->store);
	gt_graph_free(r->g);
}

/* Return the largest difference of two gradients, relative to the largest element. */
static double gradients_apart(const struct run *a, const struct run *b, const struct gt_slot *slot)
{
	const struct gt_slot *same = gt_store_find(b->store, slot->name);
	float *x =
	    test_device_copy(gt_slot_address(a->store->gradients, slot), gt_slot_bytes(slot));
	float *y =
	    test_device_copy(gt_slot_address(b->store->gradients, same), gt_slot_bytes(same));
	double apart = 0, most = 1e-3;

	for (size_t i = 0; i < gt_slot_bytes(slot) / sizeof(*x); i++) {
		apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
		most = fmax(most, fabs((double)x[i]));
	}
	free(x);
	free(y);
	return apart / most;
}

/* Both ways give the same loss and gradients, but for the rounding of float32. */
static void check_case(const struct pattern_case *c)
{
	struct run as_is = { 0 }, faster = { 0 };

	open_run(&as_is, c, false);
	open_run(&faster, c, true);
	if (strcmp(faster.found, c->found) != 0)
		fail_msg("%s: found '%s', not '%s'", c->name, faster.found, c->found);
	if (!(fabsf(as_is.loss - faster.loss) < 1e-4f * (1 + fabsf(as_is.loss))))
		fail_msg("%s: a loss of %g is %g", c->name, as_is.loss, faster.loss);
	for (size_t i = 0; i < as_is.store->slot_count; i++) {
		const struct gt_slot *slot = &as_is.store->slots[i];
		double apart = gradients_apart(&as_is, &faster, slot);

		if (!(apart < 2e-5))
			fail_msg("%s: gradients of '%s' are %g apart", c->name, slot->name, apart);
	}
	close_run(&as_is);
	close_run(&faster);
}

static void test_patterns(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_case(&cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_patterns) };

	return cmocka_run_group_tests_name("patterns", tests, NULL, NULL);
}
