/* tokens.c - positions that are added to embeddings, and images as tokens behind a class token. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/pattern.h"

enum { DEPTH = 4 }; /* most nodes between a weight and a table of positions */

/* Return whether v is computed from weights and constants alone, so that it is the same for all
 * samples: with a batch of one sample, the shape does not tell. */
static bool is_fixed(const struct gt_value *v, int depth)
{
	const struct gt_node *n = v->producer;

	if (!n || !depth)
		return !n && gt_value_is_weight(v);
	if (n->op->writes || n->op == &gt_op_dropout)
		return false;
	for (int i = 0; i < n->inputs; i++)
		if (n->in[i] && !is_fixed(n->in[i], depth - 1))
			return false;
	return true;
}

/* Return whether a constant is 0, 1, 2, ... */
static bool counts_up(const struct gt_value *v)
{
	const struct gt_node *n = gt_match_constant(v);

	for (int64_t i = 0; n && i < gt_value_elements(v); i++)
		if (gt_match_element(n, i) != (double)i)
			return false;
	return n;
}

/* Return the table whose first rows v has, one for each token of y [B, T, C], or NULL. */
static struct gt_value *find_position_table(
    struct gt_graph *g, struct gt_value *v, const struct gt_value *y)
{
	const struct gt_node *n = gt_value_viewed(v)->producer;

	if (!is_fixed(v, DEPTH) || gt_value_elements(v) != y->shape[1] * y->shape[2] ||
	    gt_value_last(v) != y->shape[2] || v->ndim < 2 || v->shape[v->ndim - 2] != y->shape[1])
		return NULL;
	if (n && n->op == &gt_op_embedding && !n->in[2] && !n->attrs.embedding.padding &&
	    counts_up(n->in[1]))
		return n->in[0];
	return gt_reshape(g, v, 2, y->shape + 1);
}

/* The op embedding adds positions itself. */
struct gt_value *gt_pattern_positions(const struct gt_match *m)
{
	const struct gt_value *y = m->root;

	for (int i = 0; i < 2; i++) {
		const struct gt_value *looked_up = gt_match_tensor(m, i ? 'b' : 'a');
		const struct gt_node *n = looked_up->producer;
		struct gt_value *table;

		if (!n || n->op != &gt_op_embedding || n->in[2] || y->ndim != 3 ||
		    m->uses[looked_up->id] != 1 || looked_up->ndim != 3 ||
		    looked_up->shape[0] != y->shape[0])
			continue;
		table = find_position_table(m->g, gt_match_tensor(m, i ? 'a' : 'b'), y);
		if (table)
			return gt_emit1(m->g, &gt_op_embedding, &n->attrs, 4,
			    (struct gt_value *[]){ n->in[0], n->in[1], table, NULL });
	}
	return NULL;
}

/* Return the image [B, C, H, W] whose pixels v has as tokens behind a class token; set *token. */
static struct gt_value *find_patches(
    struct gt_graph *g, struct gt_value *v, struct gt_value **token)
{
	const struct gt_node *n = v->producer, *wide;
	struct gt_value *image, *in[2];
	const int order[] = { 0, 2, 1 };

	if (!n || n->op != &gt_op_arrange || v->ndim != 3 || n->inputs < 2 || !n->in[1] ||
	    gt_value_viewed(n->in[1])->ndim != 4)
		return NULL;
	image = gt_value_viewed(n->in[1]);
	wide = n->in[0]->producer;
	*token = wide && wide->op == &gt_op_map ? wide->in[0] : n->in[0];
	if (gt_value_elements(*token) != v->shape[2] || image->shape[0] != v->shape[0] ||
	    image->shape[1] != v->shape[2] || image->shape[2] * image->shape[3] != v->shape[1] - 1)
		return NULL;
	in[0] = gt_expand(g, *token, 3, (int64_t[]){ v->shape[0], 1, v->shape[2] });
	in[1] = gt_permute_dims(g,
	    gt_reshape(g, image, 3, (int64_t[]){ v->shape[0], v->shape[2], v->shape[1] - 1 }),
	    order);
	return gt_match_same(v, gt_cat(g, 2, in, 1)) ? image : NULL;
}

struct gt_value *gt_pattern_patch_tokens(const struct gt_match *m)
{
	const struct gt_value *y = m->root;

	for (int i = 0; i < 2; i++) {
		struct gt_value *position = gt_match_tensor(m, i ? 'b' : 'a'), *token;
		struct gt_value *image =
		    find_patches(m->g, gt_match_tensor(m, i ? 'a' : 'b'), &token);

		if (!image || y->ndim != 3 || !is_fixed(position, DEPTH) ||
		    gt_value_elements(position) != y->shape[1] * y->shape[2] ||
		    position->ndim < 2 || position->shape[position->ndim - 2] != y->shape[1])
			continue;
		token = gt_reshape(m->g, token, 3, (int64_t[]){ 1, 1, y->shape[2] });
		position =
		    gt_reshape(m->g, position, 3, (int64_t[]){ 1, y->shape[1], y->shape[2] });
		return gt_patch_tokens(m->g, image, token, position);
	}
	return NULL;
}
