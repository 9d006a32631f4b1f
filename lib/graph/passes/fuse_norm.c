/* fuse_norm.c - let a layer norm do the sum before it, and the casts around both. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/*
 * y = layer_norm(add(x, r)) reads the sum that add has just written, and its gradient is added to
 * that of the sum: add_layer_norm goes over memory once each way. The pass stands behind autocast,
 * where x of a type of 16 bits is cast for the sum, and y is cast back for the next product:
 *
 *   u = cast(x)   s = add(u, r)   v = layer_norm(s)   y = cast(v)
 *
 * Then the op takes x and makes y. Both are cast or none, as y has the type of x.
 *
 * A norm of anything else, such as the first of a model, writes the result of the cast behind it.
 */
struct pair {
	struct gt_node *add, *norm;
	struct gt_node *widens, *narrows; /* casts, or NULL */
	struct gt_value *x, *residual;
};

/* Return gt_sole_cast(), if its result may be dropped; else NULL. */
static struct gt_node *dropped_cast(
    const struct gt_graph *g, const struct gt_value *v, enum gt_dtype to, const int *uses)
{
	struct gt_node *n = gt_sole_cast(g, v, to, uses);

	return n && n->out[0]->role == GT_TEMPORARY ? n : NULL;
}

static void take_casts(struct pair *p, const struct gt_graph *g, const int *uses)
{
	for (int k = 0; k < 2; k++) {
		struct gt_node *widens = gt_sole_maker(p->add->in[k], &gt_op_cast, uses), *narrows;

		if (!widens || gt_dtype_wide(widens->in[0]->dtype) != p->add->in[k]->dtype)
			continue;
		narrows = dropped_cast(g, p->norm->out[0], widens->in[0]->dtype, uses);
		if (!narrows || widens->in[0]->dtype == p->add->in[k]->dtype)
			continue;
		p->widens = widens;
		p->narrows = narrows;
		p->x = widens->in[0];
		p->residual = p->add->in[1 - k];
		return;
	}
}

/* Return whether a node between add and norm reads the sum, which the fused op computes later. */
static bool is_read_between(const struct gt_graph *g, const struct pair *p, size_t norm)
{
	for (size_t i = norm; i-- > 0 && g->nodes[i] != p->add;)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == p->add->out[0])
				return true;
	return false;
}

static bool is_one_block(const struct pair *p)
{
	size_t length = gt_scope_block(p->add->scope);

	return length == gt_scope_block(p->norm->scope) &&
	       !memcmp(p->add->scope, p->norm->scope, length);
}

/* Return whether the fusion is allowed. With --recompute, a block is computed again from its
 * inputs. If the fused op belonged to the block before, this block would have to keep two inputs:
 * the sum and the norm. */
static bool may_fuse(const struct pair *p, const struct gt_pass_options *options)
{
	return !options->recompute || !options->recompute->max || is_one_block(p);
}

static bool find_pair(struct pair *p, const struct gt_graph *g, size_t index,
    const struct gt_pass_options *options, const int *uses)
{
	struct gt_node *norm = g->nodes[index];
	const struct gt_value *sum = norm->in[0];

	if (norm->attrs.norm.low != GT_F32 || !sum->producer || sum->producer->op != &gt_op_add ||
	    sum->role != GT_TEMPORARY || norm->out[0]->role != GT_TEMPORARY)
		return false;
	*p = (struct pair){ .add = sum->producer,
		.norm = norm,
		.x = sum->producer->in[0],
		.residual = sum->producer->in[1] };
	if (!may_fuse(p, options) || is_read_between(g, p, index))
		return false;
	take_casts(p, g, uses);
	return true;
}

/* Put the op in the place of the norm. */
static int fuse(struct gt_graph *g, const struct pair *p, struct gt_err *err)
{
	const struct gt_node *norm = p->norm;
	struct gt_value *in[] = { p->x, p->residual, norm->in[1], norm->in[2] };
	struct gt_node *n;

	g->scope = is_one_block(p) ? norm->scope : p->add->scope;
	n = gt_emit(g, &gt_op_add_layer_norm, &norm->attrs, 4, in);
	if (!n)
		return gt_graph_status(g, err);
	gt_place_last(g, gt_node_index(g, norm));
	gt_replace_uses(g, 0, (p->narrows ? p->narrows : norm)->out[0], n->out[0]);
	gt_replace_uses(g, 0, p->add->out[0], n->out[1]);
	gt_replace_uses(g, 0, norm->out[1], n->out[2]);
	gt_replace_uses(g, 0, norm->out[2], n->out[3]);
	gt_drop_node(g, p->widens);
	gt_drop_node(g, p->add);
	gt_drop_node(g, norm);
	gt_drop_node(g, p->narrows);
	return 0;
}

/* Replace cast(layer_norm(x)) by a layer norm that writes the type of the cast. */
static int take_cast(struct gt_graph *g, struct gt_node *norm, const int *uses, struct gt_err *err)
{
	static const enum gt_dtype types[] = { GT_BF16, GT_F16 };
	struct gt_node *cast = NULL;

	if (norm->in[0]->dtype != GT_F32 || norm->out[0]->dtype != GT_F32 ||
	    norm->out[0]->role != GT_TEMPORARY)
		return 0;
	for (int i = 0; i < 2 && !cast; i++)
		cast = dropped_cast(g, norm->out[0], types[i], uses);
	if (!cast)
		return 0;
	norm->attrs.norm.low = cast->out[0]->dtype;
	gt_replace_uses(g, 0, cast->out[0], norm->out[0]);
	gt_drop_node(g, cast);
	return norm->op->infer(norm, err);
}

static int run_norm_fusion(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < g->node_count; i++) {
		struct pair p;
		int *uses;

		if (g->nodes[i]->op != &gt_op_layer_norm)
			continue;
		uses = gt_count_uses(g, err);
		if (!uses)
			return GT_ENOMEM;
		if (find_pair(&p, g, i, options, uses)) {
			rc = fuse(g, &p, err);
			i = 0;
		} else {
			rc = take_cast(g, g->nodes[i], uses, err);
		}
		free(uses);
	}
	return rc;
}

const struct gt_pass gt_pass_fuse_norm = {
	.name = "fuse-norm",
	.purpose = "add a residual, normalize the sum and cast it in one pass over memory",
	.run = run_norm_fusion,
};
