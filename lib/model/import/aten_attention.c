/* aten_attention.c - scaled_dot_product_attention, by an op of its own or by products. */
#include <math.h>

#include "lib/model/import/aten.h"

/* The arguments of a call. */
struct attention {
	struct gt_value *q, *k, *v;
	double scale, p;
	bool causal;
	struct gt_value *mask; /* NULL: none */
	bool boolean;          /* the mask tells which tokens are seen; else it is added */
};

/* ---- masks ---- */

/* Masks that are added hide tokens by numbers near those of float32's end. */
static bool hides(const struct gt_constant *mask, double x)
{
	return mask->dtype == GT_BOOL ? x == 0 : x < -1e30;
}

/* Whether a constant mask hides exactly the later tokens (causal), or nothing. A mask that adds
 * other numbers than 0 to visible tokens does neither. */
static bool mask_is(const struct gt_constant *mask, bool causal)
{
	int64_t index[GT_MAX_DIMS] = { 0 };
	int n = mask->ndim;

	if (n < 2 || !gt_constant_count(mask) ||
	    (causal && mask->shape[n - 1] != mask->shape[n - 2]))
		return false;
	do {
		double x = *gt_constant_at(mask, index);
		bool hidden = hides(mask, x);

		if (hidden != (causal && index[n - 1] > index[n - 2]))
			return false;
		if (!hidden && mask->dtype != GT_BOOL && x != 0)
			return false;
	} while (gt_constant_next(n, mask->shape, index));
	return true;
}

/* The mask of later tokens, as a boolean constant. */
static const struct gt_constant *make_causal(struct gt_import *im, int64_t rows, int64_t columns)
{
	int64_t index[2] = { 0 };
	struct gt_constant *mask =
	    gt_constant_new(&im->constants, GT_BOOL, 2, (int64_t[]){ rows, columns });

	if (!mask)
		return NULL;
	do {
		*gt_constant_at(mask, index) = index[1] <= index[0];
	} while (gt_constant_next(2, mask->shape, index));
	return mask;
}

/* Hide scores by a mask. */
static struct gt_value *apply_mask(
    struct gt_import *im, const struct attention *a, struct gt_value *scores)
{
	struct gt_value *mask = a->mask;
	const struct gt_map_operand hidden[] = { { .value = mask }, { .value = scores },
		{ .is_number = true, .number = -INFINITY } };

	return a->boolean ? gt_apply(im->g, GT_F_WHERE, hidden)
	                  : gt_binary(im->g, GT_F_ADD, scores, mask);
}

/* ---- the two ways ---- */

static struct gt_value *multiply(struct gt_import *im, struct gt_value *x, double factor)
{
	const struct gt_map_operand operands[] = { { .value = x },
		{ .is_number = true, .number = factor } };

	return fabs(factor - 1) < 1e-6 ? x : gt_apply(im->g, GT_F_MUL, operands);
}

/* Products and softmax: any shapes and masks. */
static struct gt_value *attend_by_products(struct gt_import *im, const struct attention *a)
{
	struct gt_value *y =
	    gt_batched_matmul(im->g, multiply(im, a->q, a->scale), a->k, false, true);

	if (a->mask)
		y = apply_mask(im, a, y);
	y = y ? gt_softmax(im->g, y, y->ndim - 1, false) : NULL;
	if (a->p > 0)
		y = gt_dropout(im->g, y, im->rng, a->p);
	return gt_batched_matmul(im->g, y, a->v, false, false);
}

static struct gt_value *attend_by_op(struct gt_import *im, const struct attention *a)
{
	union gt_attrs attrs = { 0 };

	attrs.attention.full = !a->causal;
	attrs.attention.p = a->p;
	if (a->p > 0)
		attrs.attention.stream = im->g->dropout_streams++;
	return gt_attention_of_heads(
	    im->g, a->q, a->k, a->v, a->scale, a->p > 0 ? im->rng : NULL, &attrs);
}

/* ---- the row ---- */

/* Let each head of keys or values serve its group of heads of queries. */
static struct gt_value *repeat_heads(struct gt_import *im, struct gt_value *x, int64_t heads)
{
	int64_t wide[5];

	if (!x || x->ndim != 4 || x->shape[1] == heads)
		return x;
	if (heads % x->shape[1])
		return gt_import_fail(im, "of %lld heads that do not share %lld", (long long)heads,
		    (long long)x->shape[1]);
	for (int i = 0; i < 5; i++)
		wide[i] = i == 2 ? 1 : x->shape[i > 2 ? i - 1 : i];
	x = gt_reshape(im->g, x, 5, wide);
	wide[2] = heads / wide[1];
	x = gt_expand(im->g, x, 5, wide);
	return gt_reshape(im->g, x, 4, (int64_t[]){ wide[0], heads, wide[3], wide[4] });
}

/* Read the mask. One that hides nothing, or the later tokens, is none. */
static void read_mask(struct gt_import *im, struct attention *a)
{
	const struct gt_constant *mask = gt_import_constant(im, "attn_mask");

	if (a->causal && (mask || a->q->shape[a->q->ndim - 2] != a->k->shape[a->k->ndim - 2])) {
		if (mask)
			gt_import_fail(im, "both causal and with a mask");
		mask = make_causal(im, a->q->shape[a->q->ndim - 2], a->k->shape[a->k->ndim - 2]);
		a->causal = false;
		a->mask = mask ? gt_import_value(im, mask) : NULL;
		a->boolean = true;
		return;
	}
	if (mask && mask_is(mask, true)) {
		a->causal = true;
		return;
	}
	if (mask && mask_is(mask, false))
		return;
	a->mask = gt_import_optional(im, "attn_mask");
	a->boolean = a->mask && gt_import_type(im, "attn_mask") == GT_BOOL;
}

void gt_aten_attention(struct gt_import *im)
{
	struct attention a = { .q = gt_import_tensor(im, "query"),
		.k = gt_import_tensor(im, "key"),
		.v = gt_import_tensor(im, "value"),
		.causal = gt_import_bool(im, "is_causal", false),
		.p = im->train && im->rng ? gt_import_float(im, "dropout_p", 0) : 0 };

	if (!a.q || !a.k || !a.v || im->g->err.code)
		return;
	if (a.q->ndim < 2 || a.q->ndim != a.k->ndim || a.q->ndim != a.v->ndim) {
		gt_import_fail(im, "of queries, keys and values with different dimensions");
		return;
	}
	a.scale = gt_import_float(im, "scale", 1 / sqrt((double)a.q->shape[a.q->ndim - 1]));
	if (gt_import_bool(im, "enable_gqa", false) && a.q->ndim == 4) {
		a.k = repeat_heads(im, a.k, a.q->shape[1]);
		a.v = repeat_heads(im, a.v, a.q->shape[1]);
	}
	if (!im->g->err.code)
		read_mask(im, &a);
	if (im->g->err.code)
		return;
	if (!a.mask && a.q->ndim == 4 && gt_import_same_shape(a.q, a.k) &&
	    gt_import_same_shape(a.q, a.v))
		gt_import_result(im, attend_by_op(im, &a));
	else
		gt_import_result(im, attend_by_products(im, &a));
}
