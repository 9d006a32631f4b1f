/* rope.c - rotary positions of queries and keys that are computed from tables of cos and sin. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/pattern.h"

/*
 * Rotated heads are x * cos + turned(x) * sin, where turned(x) has the second half of the features,
 * negated, before the first half. The tables have a row for each token and a column for each
 * feature; columns j and j + D / 2 are equal. The base of the frequencies is found from the first
 * rotation of token 1, and every number of both tables is then compared.
 */

/* factor * (x * cos + turned * sin) */
struct rotation {
	double factor;
	struct gt_value *x, *turned;
	const struct gt_value *cos, *sin;
};

/* Return the heads x [.., D] with their halves exchanged, and the second one negated. */
static struct gt_value *turn_heads(struct gt_graph *g, struct gt_value *x)
{
	int dim = x->ndim - 1;
	int64_t size = x->shape[dim];
	struct gt_value *halves[] = {
		gt_unary(g, GT_F_NEG, gt_slice_dim(g, x, dim, size / 2, size, 1)),
		gt_slice_dim(g, x, dim, 0, size / 2, 1),
	};

	return gt_cat(g, 2, halves, dim);
}

/* Let `table` be the factor that is a constant, and *x the other one. */
static bool order_factors(
    struct gt_value **x, const struct gt_value **table, struct gt_value *a, struct gt_value *b)
{
	bool swap = gt_match_constant(a);

	*x = swap ? b : a;
	*table = swap ? a : b;
	return gt_match_constant(*table) && !gt_match_constant(*x);
}

/* Read v as a rotation of its last dimension. */
static bool find_rotation(struct rotation *r, struct gt_graph *g, struct gt_value *v)
{
	struct gt_formula f;
	struct gt_match m;

	if (!gt_formula_parse(&f, "K * (a * b + c * d)") || gt_value_last(v) % 2 ||
	    !gt_match_find(&m, g, &f, v, NULL))
		return false;
	r->factor = gt_match_number(&m, 'K');
	for (int swap = 0; swap < 2; swap++) {
		char first = swap ? 'c' : 'a', second = swap ? 'a' : 'c';

		if (order_factors(&r->x, &r->cos, gt_match_tensor(&m, first),
		        gt_match_tensor(&m, (char)(first + 1))) &&
		    order_factors(&r->turned, &r->sin, gt_match_tensor(&m, second),
		        gt_match_tensor(&m, (char)(second + 1))) &&
		    r->x->ndim == v->ndim && gt_value_elements(r->x) == gt_value_elements(v) &&
		    gt_match_same(r->turned, turn_heads(g, r->x)))
			return true;
	}
	return false;
}

/* ---- tables ---- */

/* A table [tokens, features]. */
struct table {
	const struct gt_node *constant;
	int64_t tokens, features;
};

/* Read a table for x, whose tokens are in dimension `dim`; other dimensions have size 1. */
static bool open_table(struct table *t, const struct gt_value *v, const struct gt_value *x, int dim)
{
	int behind = x->ndim - dim; /* the place of the tokens, from the end */

	*t = (struct table){ gt_match_constant(v), x->shape[dim], gt_value_last(x) };
	return v->ndim >= behind && v->shape[v->ndim - behind] == t->tokens &&
	       gt_value_last(v) == t->features && gt_value_elements(v) == t->tokens * t->features;
}

static double read_table(const struct table *t, int64_t token, int64_t feature)
{
	return gt_match_element(t->constant, token * t->features + feature);
}

/* Return x rounded to five digits, if that is near. */
static double round_theta(double x)
{
	char text[32];
	double rounded;

	snprintf(text, sizeof(text), "%.5g", x);
	rounded = strtod(text, NULL);
	return fabs(rounded - x) < 2e-4 * x ? rounded : x;
}

/* Return the base of the frequencies, or 0. */
static double find_theta(const struct table *cosines, const struct table *sines)
{
	double angle;

	if (cosines->tokens < 2)
		return 0;
	if (cosines->features < 4)
		return 1;
	angle = atan2(read_table(sines, 1, 1), read_table(cosines, 1, 1));
	return angle > 0 ? round_theta(pow(angle, -(double)cosines->features / 2)) : 0;
}

/* Return whether the tables hold cos and sin of the op's angles. Networks compute frequencies and
 * angles in float32, so the error grows with the angle. */
static bool check_tables(const struct table *cosines, const struct table *sines, double theta)
{
	int64_t half = cosines->features / 2;

	for (int64_t t = 0; t < cosines->tokens; t++)
		for (int64_t j = 0; j < cosines->features; j++) {
			double angle =
			    (double)t * pow(theta, -2.0 * (double)(j % half) / (double)(2 * half));
			double near = 2e-6 + 5e-7 * angle;

			if (!(fabs(read_table(cosines, t, j) - cos(angle)) <= near) ||
			    !(fabs(read_table(sines, t, j) - sin(angle)) <= near))
				return false;
		}
	return true;
}

/* ---- the row ---- */

/* If heads [B, T, heads, D] are rotated, return them unrotated as [B, T, heads * D], and set
 * *theta; else NULL. The rotation may come before or after tokens and heads are exchanged. */
static struct gt_value *find_unrotated(struct gt_graph *g, struct gt_value *heads, double *theta)
{
	struct gt_value *forms[] = { heads, gt_pattern_swap(g, heads) };
	struct table cosines, sines;
	struct rotation r;

	for (int i = 0; i < 2; i++) {
		struct gt_value *v = forms[i], *base = v ? gt_value_viewed(v) : NULL;
		struct gt_value *x;

		/* A view without a change of the shape is the value itself. */
		if (base && gt_value_same_shape(v, base))
			v = base;
		if (!v || !find_rotation(&r, g, v) || !open_table(&cosines, r.cos, v, i ? 2 : 1) ||
		    !open_table(&sines, r.sin, v, i ? 2 : 1))
			continue;
		*theta = find_theta(&cosines, &sines);
		if (!(*theta > 0) || !check_tables(&cosines, &sines, *theta))
			continue;
		x = i ? gt_pattern_swap(g, r.x) : r.x;
		if (r.factor != 1)
			x = gt_apply(g, GT_F_MUL,
			    (struct gt_map_operand[]){ { .value = x }, { true, r.factor, NULL } });
		return x ? gt_reshape(g, x, 3,
		               (int64_t[]){ x->shape[0], x->shape[1], x->shape[2] * x->shape[3] })
		         : NULL;
	}
	return NULL;
}

/* The op rotates queries and keys, and packs them with the values. */
struct gt_value *gt_pattern_rope(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer;
	int heads = n->attrs.attention.heads, shared = gt_attrs_kv_heads(&n->attrs);
	struct gt_value *q, *k, *v, *in[2], *qkv[3];
	double of_queries, of_keys;

	if (!n->in[0]->producer || n->in[0]->producer->op != &gt_op_arrange)
		return NULL;
	q = find_unrotated(m->g, gt_pattern_heads(m->g, n, 0), &of_queries);
	k = q ? find_unrotated(m->g, gt_pattern_heads(m->g, n, 1), &of_keys) : NULL;
	v = k ? gt_pattern_heads(m->g, n, 2) : NULL;
	if (!v || of_queries != of_keys)
		return NULL;
	v = gt_reshape(m->g, v, 3, k->shape);
	qkv[0] = q;
	qkv[1] = k;
	qkv[2] = v;
	in[0] = gt_rope(m->g, qkv, NULL, NULL, heads, shared, of_queries);
	in[1] = n->in[1];
	return gt_emit1(m->g, &gt_op_attention, &n->attrs, 2, in);
}
