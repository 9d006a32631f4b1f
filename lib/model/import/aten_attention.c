/* aten_attention.c - scaled_dot_product_attention, by an op of its own or by products. */
#include <math.h>

#include "lib/model/import/aten.h"

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
static void read_mask(struct gt_import *im, const struct gt_value *q, const struct gt_value *k,
    bool by_op, struct gt_masked_attention *a)
{
	const struct gt_constant *mask = gt_import_constant(im, "attn_mask");

	if (a->causal && (mask || !by_op)) {
		if (mask)
			gt_import_fail(im, "both causal and with a mask");
		mask = make_causal(im, q->shape[q->ndim - 2], k->shape[k->ndim - 2]);
		a->causal = false;
		a->mask = mask ? gt_import_value(im, mask) : NULL;
		a->boolean = true;
		return;
	}
	if (by_op && mask && mask_is(mask, true)) {
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
	struct gt_value *q = gt_import_tensor(im, "query"), *k = gt_import_tensor(im, "key"),
	                *v = gt_import_tensor(im, "value");
	struct gt_masked_attention a = { .causal = gt_import_bool(im, "is_causal", false),
		.hidden = -INFINITY,
		.rng = im->rng,
		.p = im->train && im->rng ? gt_import_float(im, "dropout_p", 0) : 0 };

	if (!q || !k || !v || im->g->err.code)
		return;
	if (q->ndim < 2 || q->ndim != k->ndim || q->ndim != v->ndim) {
		gt_import_fail(im, "of queries, keys and values with different dimensions");
		return;
	}
	a.scale = gt_import_float(im, "scale", 1 / sqrt((double)q->shape[q->ndim - 1]));
	if (gt_import_bool(im, "enable_gqa", false) && q->ndim == 4) {
		k = repeat_heads(im, k, q->shape[1]);
		v = repeat_heads(im, v, q->shape[1]);
	}
	if (!im->g->err.code)
		read_mask(
		    im, q, k, gt_layer_has_attention_op((struct gt_value *[]){ q, k, v }), &a);
	if (!im->g->err.code)
		gt_import_result(
		    im, gt_layer_attention(im->g, (struct gt_value *[]){ q, k, v }, &a));
}
