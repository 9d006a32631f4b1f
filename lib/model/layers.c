/* layers.c - the layers that architectures share, with PyTorch's names and initial values. */
#include <math.h>
#include <stdio.h>

#include "lib/model/arch.h"

const struct gt_init gt_init_zeros = { GT_INIT_ZEROS, 0 }, gt_init_ones = { GT_INIT_ONES, 0 };

struct gt_init gt_init_torch(int64_t fan_in)
{
	return (struct gt_init){ GT_INIT_UNIFORM, 1 / sqrt((double)fan_in) };
}

struct gt_init gt_init_kaiming(int64_t fan)
{
	return (struct gt_init){ GT_INIT_NORMAL, sqrt(2 / (double)fan) };
}

/* The name PREFIX.LEAF, with enough bytes for every architecture. */
struct name {
	char s[128];
};

static struct name join_layer_name(const char *prefix, const char *leaf)
{
	struct name n;

	snprintf(n.s, sizeof(n.s), "%s.%s", prefix, leaf);
	return n;
}

struct gt_value *gt_layer_linear(
    struct gt_graph *g, const char *name, struct gt_value *x, int64_t out, struct gt_init init)
{
	struct gt_value *weight, *bias;
	int64_t in;

	if (!x)
		return NULL;
	in = x->shape[x->ndim - 1];
	gt_graph_scope(g, "%s", name);
	weight = gt_parameter(
	    g, join_layer_name(name, "weight").s, GT_F32, 2, (int64_t[]){ out, in }, init, true);
	bias = gt_parameter(
	    g, join_layer_name(name, "bias").s, GT_F32, 1, &out, gt_init_torch(in), true);
	return gt_matmul(g, x, weight, bias, false, true);
}

struct gt_value *gt_layer_dense(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, struct gt_init init, const struct gt_init *bias_init)
{
	struct gt_value *weight, *bias = NULL;

	if (!x)
		return NULL;
	gt_graph_scope(g, "%s", name);
	weight = gt_parameter(g, join_layer_name(name, "weight").s, GT_F32, 2,
	    (int64_t[]){ out, x->shape[x->ndim - 1] }, init, true);
	if (bias_init)
		bias = gt_parameter(
		    g, join_layer_name(name, "bias").s, GT_F32, 1, &out, *bias_init, false);
	return gt_matmul(g, x, weight, bias, false, true);
}

struct gt_value *gt_layer_layer_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, double eps)
{
	struct gt_value *weight, *bias;
	int64_t width;

	if (!x)
		return NULL;
	width = x->shape[x->ndim - 1];
	gt_graph_scope(g, "%s", name);
	weight = gt_parameter(
	    g, join_layer_name(name, "weight").s, GT_F32, 1, &width, gt_init_ones, false);
	bias = gt_parameter(
	    g, join_layer_name(name, "bias").s, GT_F32, 1, &width, gt_init_zeros, false);
	return gt_layer_norm(g, x, weight, bias, eps);
}

/* Hide scores by a mask. */
static struct gt_value *apply_mask(
    struct gt_graph *g, const struct gt_masked_attention *a, struct gt_value *scores)
{
	const struct gt_map_operand hidden[] = { { .value = a->mask }, { .value = scores },
		{ .is_number = true, .number = a->hidden } };

	if (!a->mask)
		return scores;
	return a->boolean ? gt_apply(g, GT_F_WHERE, hidden)
	                  : gt_binary(g, GT_F_ADD, scores, a->mask);
}

static struct gt_value *scale_queries(struct gt_graph *g, struct gt_value *q, double factor)
{
	const struct gt_map_operand operands[] = { { .value = q },
		{ .is_number = true, .number = factor } };

	return fabs(factor - 1) < 1e-6 ? q : gt_apply(g, GT_F_MUL, operands);
}

bool gt_layer_has_attention_op(struct gt_value *const v[3])
{
	for (int k = 1; k < 3; k++)
		for (int i = 0; i < 4; i++)
			if (v[k]->ndim != 4 || v[0]->ndim != 4 || v[k]->shape[i] != v[0]->shape[i])
				return false;
	return true;
}

struct gt_value *gt_layer_attention(
    struct gt_graph *g, struct gt_value *const qkv[3], const struct gt_masked_attention *a)
{
	union gt_attrs attrs = { .attention = { .full = !a->causal, .p = a->p } };
	struct gt_value *y;

	if (!qkv[0] || !qkv[1] || !qkv[2])
		return NULL;
	if (!a->mask && gt_layer_has_attention_op(qkv)) {
		attrs.attention.stream = a->p > 0 ? g->dropout_streams++ : 0;
		return gt_attention_of_heads(
		    g, qkv[0], qkv[1], qkv[2], a->scale, a->p > 0 ? a->rng : NULL, &attrs);
	}
	y = apply_mask(
	    g, a, gt_batched_matmul(g, scale_queries(g, qkv[0], a->scale), qkv[1], false, true));
	y = y ? gt_softmax(g, y, y->ndim - 1, false) : NULL;
	if (a->p > 0)
		y = gt_dropout(g, y, a->rng, a->p);
	return gt_batched_matmul(g, y, qkv[2], false, false);
}

struct gt_value *gt_layer_conv(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, int kernel, int stride, int pad, bool with_bias, struct gt_init init)
{
	struct gt_value *weight, *bias = NULL;
	int64_t in;

	if (!x)
		return NULL;
	in = x->shape[1];
	gt_graph_scope(g, "%s", name);
	weight = gt_parameter(g, join_layer_name(name, "weight").s, GT_F32, 4,
	    (int64_t[]){ out, in, kernel, kernel }, init, true);
	if (with_bias)
		bias = gt_parameter(g, join_layer_name(name, "bias").s, GT_F32, 1, &out,
		    gt_init_torch(in * kernel * kernel), true);
	return gt_conv2d(g, x, weight, bias, gt_conv_square(stride, pad));
}

struct gt_value *gt_layer_batch_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, struct gt_init init, bool train)
{
	const double eps = 1e-5, momentum = 0.1;
	struct gt_value *weight, *bias, *mean, *var, *batches;
	int64_t c;

	if (!x)
		return NULL;
	c = x->shape[1];
	gt_graph_scope(g, "%s", name);
	weight = gt_parameter(g, join_layer_name(name, "weight").s, GT_F32, 1, &c, init, true);
	bias = gt_parameter(g, join_layer_name(name, "bias").s, GT_F32, 1, &c, gt_init_zeros, true);
	mean = gt_buffer(g, join_layer_name(name, "running_mean").s, GT_F32, 1, &c, gt_init_zeros);
	var = gt_buffer(g, join_layer_name(name, "running_var").s, GT_F32, 1, &c, gt_init_ones);
	batches = gt_buffer(
	    g, join_layer_name(name, "num_batches_tracked").s, GT_I64, 0, NULL, gt_init_zeros);
	if (!train)
		return gt_batch_norm_eval(g, x, weight, bias, mean, var, eps);
	return gt_batch_norm(g, x, weight, bias, mean, var, batches, eps, momentum);
}
