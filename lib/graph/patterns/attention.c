/* attention.c - attention that is written out, and heads of keys and values that are repeated. */
#include <math.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/pattern.h"

/* Numbers below this one hide a token when they are added to its score, or stand for it. */
static const double hiding = -1e9;

/* ---- masks ---- */

enum mask { MASK_OTHER, MASK_NONE, MASK_CAUSAL };

/* How a mask treats a score. */
enum seen { SEEN, HIDDEN, CHANGED };

/* Compare a constant mask [..., T, T] with one that hides later tokens, and with none. `treat`
 * tells what an element does to a score. */
static enum mask read_mask(
    const struct gt_value *mask, int64_t tokens, enum seen (*treat)(double element))
{
	const struct gt_node *n = gt_match_constant(mask);
	bool causal = true, none = true;
	int64_t elements = gt_value_elements(mask);

	if (!n || mask->ndim < 2 || gt_value_last(mask) != tokens ||
	    mask->shape[mask->ndim - 2] != tokens)
		return MASK_OTHER;
	for (int64_t i = 0; i < elements && (causal || none); i++) {
		enum seen seen = treat(gt_match_element(n, i));
		bool later = i % tokens > i / tokens % tokens;

		causal &= seen == (later ? HIDDEN : SEEN);
		none &= seen == SEEN;
	}
	return causal ? MASK_CAUSAL : none ? MASK_NONE : MASK_OTHER;
}

static enum seen treat_hidden(double element)
{
	return element != 0 ? HIDDEN : SEEN;
}

static enum seen treat_seen(double element)
{
	return element != 0 ? SEEN : HIDDEN;
}

static enum seen treat_added(double element)
{
	return element == 0 ? SEEN : element < hiding ? HIDDEN : CHANGED;
}

/* ---- attention written out ---- */

/* Return x [..., T, D] with four dimensions, or NULL. Products of three have one head. */
static struct gt_value *with_heads(struct gt_graph *g, struct gt_value *x)
{
	if (!x || x->ndim == 4)
		return x;
	if (x->ndim != 3)
		return NULL;
	return gt_reshape(g, x, 4, (int64_t[]){ x->shape[0], 1, x->shape[1], x->shape[2] });
}

/* Return the keys as [..., T, D]. */
static struct gt_value *read_keys(const struct gt_match *m, const struct gt_node *scores)
{
	struct gt_value *k = gt_match_tensor(m, 'k');
	int order[GT_MAX_DIMS];

	if (scores->attrs.matmul.trans_b || k->ndim < 2)
		return k;
	for (int i = 0; i < k->ndim; i++)
		order[i] = i < k->ndim - 2 ? i : 2 * k->ndim - 3 - i;
	return gt_permute_dims(m->g, k, order);
}

/* The root is the product with the values itself, not a multiple of it by factors that make 1. */
static struct gt_value *attend(const struct gt_match *m, enum mask mask)
{
	const struct gt_node *scores = gt_match_node(m, &gt_op_batched_matmul);
	const struct gt_node *sum = m->root->producer;
	const struct gt_node *dropout = gt_match_node(m, &gt_op_dropout);
	struct gt_value *q, *k, *v;
	union gt_attrs attrs = { 0 };
	double scale;

	if (mask == MASK_OTHER || sum->op != &gt_op_batched_matmul || !scores ||
	    scores->attrs.matmul.trans_a || sum->attrs.matmul.trans_a || sum->attrs.matmul.trans_b)
		return NULL;
	q = with_heads(m->g, gt_match_tensor(m, 'q'));
	k = with_heads(m->g, read_keys(m, scores));
	v = with_heads(m->g, gt_match_tensor(m, 'v'));
	if (!q || !k || !v || !gt_value_same_shape(q, k) || !gt_value_same_shape(q, v))
		return NULL;
	scale = gt_match_number(m, 'K') * gt_match_number(m, 'L') * gt_match_number(m, 'M');
	attrs.attention.full = mask == MASK_NONE;
	if (dropout) {
		/* The same numbers are drawn for the same scores. */
		attrs.attention.p = dropout->attrs.dropout.p;
		attrs.attention.stream = dropout->attrs.dropout.stream;
	}
	v = gt_attention_of_heads(m->g, q, k, v, scale, dropout ? dropout->in[1] : NULL, &attrs);
	return v && m->root->ndim == 3 ? gt_reshape(m->g, v, 3, m->root->shape) : v;
}

/* The factors of a product may have fewer dimensions than it, the result has two at least. */
static int64_t count_tokens(const struct gt_match *m)
{
	return m->root->shape[m->root->ndim - 2];
}

struct gt_value *gt_pattern_attention(const struct gt_match *m)
{
	return attend(m, MASK_NONE);
}

/* Scores are N where the mask is set. */
struct gt_value *gt_pattern_attention_hidden(const struct gt_match *m)
{
	if (!(gt_match_number(m, 'N') < hiding))
		return NULL;
	return attend(m, read_mask(gt_match_tensor(m, 'm'), count_tokens(m), treat_hidden));
}

/* Scores are N where the mask is not set. */
struct gt_value *gt_pattern_attention_seen(const struct gt_match *m)
{
	if (!(gt_match_number(m, 'N') < hiding))
		return NULL;
	return attend(m, read_mask(gt_match_tensor(m, 'm'), count_tokens(m), treat_seen));
}

struct gt_value *gt_pattern_attention_added(const struct gt_match *m)
{
	return attend(m, read_mask(gt_match_tensor(m, 'm'), count_tokens(m), treat_added));
}

/* ---- heads that share keys and values ---- */

struct gt_value *gt_pattern_swap(struct gt_graph *g, struct gt_value *x)
{
	const int order[] = { 0, 2, 1, 3 };

	return gt_permute_dims(g, x, order);
}

struct gt_value *gt_pattern_heads(struct gt_graph *g, const struct gt_node *attention, int part)
{
	struct gt_value *packed = attention->in[0];
	int64_t heads = attention->attrs.attention.heads;
	int64_t shared = gt_attrs_kv_heads(&attention->attrs);
	int64_t size = packed->shape[2] / (heads + 2 * shared);
	int64_t first = part ? heads + (part - 1) * shared : 0, count = part ? shared : heads;
	struct gt_value *x = gt_slice_dim(g, packed, 2, first * size, (first + count) * size, 1);

	return x ? gt_reshape(g, x, 4, (int64_t[]){ x->shape[0], x->shape[1], count, size }) : NULL;
}

/* If x [B, heads, T, D] repeats heads, as [B, shared, 1, T, D] broadcast to [B, shared, group, T,
 * D], return the heads [B, shared, T, D]; else NULL. */
static struct gt_value *find_shared(struct gt_graph *g, struct gt_value *x)
{
	const struct gt_value *wide = gt_value_viewed(x), *narrow;
	const struct gt_map_program *p;

	if (wide->ndim != 5 || !wide->producer || wide->producer->op != &gt_op_map ||
	    !wide->producer->attrs.map.ndim)
		return NULL;
	p = wide->producer->attrs.map.program;
	narrow = wide->producer->in[0];
	if (p->inputs != 1 || p->outputs != 1 || p->steps != 1 ||
	    p->step[0].function != GT_F_COPY || narrow->ndim != 5 || narrow->shape[2] != 1 ||
	    wide->shape[0] != x->shape[0] || wide->shape[1] != narrow->shape[1] ||
	    wide->shape[3] != x->shape[2] || wide->shape[4] != x->shape[3] ||
	    gt_value_elements(narrow) * wide->shape[2] != gt_value_elements(wide))
		return NULL;
	return gt_reshape(g, wide->producer->in[0], 4,
	    (int64_t[]){ x->shape[0], narrow->shape[1], x->shape[2], x->shape[3] });
}

struct gt_value *gt_pattern_shared_heads(const struct gt_match *m)
{
	const struct gt_node *n = m->root->producer;
	union gt_attrs attrs = n->attrs;
	struct gt_value *heads[3];

	if (attrs.attention.kv_heads)
		return NULL;
	for (int i = 0; i < 3; i++) {
		heads[i] = gt_pattern_swap(m->g, gt_pattern_heads(m->g, n, i));
		if (i && heads[i])
			heads[i] = find_shared(m->g, heads[i]);
		if (!heads[i])
			return NULL;
	}
	if (!gt_value_same_shape(heads[1], heads[2]))
		return NULL;
	heads[0] = gt_attention_of_heads(m->g, heads[0], heads[1], heads[2],
	    1 / sqrt((double)heads[0]->shape[3]), n->in[1], &attrs);
	heads[0] = gt_pattern_swap(m->g, heads[0]);
	return heads[0] ? gt_reshape(m->g, heads[0], 3, m->root->shape) : NULL;
}
