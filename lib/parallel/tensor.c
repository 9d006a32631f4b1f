/* tensor.c - the pass that leaves each rank its part of every layer. */
#include "lib/parallel/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/fan.h"
#include "lib/parallel/modes.h"
#include "lib/parallel/split_loss.h"

/* How the columns (of a table: the rows) of a value are shared; no units: all ranks have all. */
struct cut {
	int64_t blocks, units;
};

struct pass {
	struct gt_parallel *p;
	struct gt_graph *g;
	struct cut *cuts; /* by value id */
	int part, parts;
	struct gt_err *err;
};

/* Values made for a node of the original, at most. */
enum { NEW_VALUES = 8 };

static bool is_cut(const struct pass *s, const struct gt_value *v)
{
	return v && s->cuts[v->id].units;
}

/* ---- parameters ---- */

const struct gt_sharding *gt_tensor_sharding(const struct gt_parallel *p, const char *name)
{
	for (size_t i = 0; i < p->sharding_count; i++)
		if (!strcmp(p->shardings[i].name, name))
			return &p->shardings[i];
	return NULL;
}

/* Several graphs are sharded the same way: the first is noted. */
static int note_sharding(struct pass *s, const struct gt_sharding *sharding)
{
	struct gt_parallel *p = s->p;
	const char *name;

	if (gt_tensor_sharding(p, sharding->name))
		return 0;
	name = gt_strdup(sharding->name, s->err);
	if (!name || gt_grow(&p->shardings, p->sharding_count, &p->sharding_capacity,
	                 sizeof(*p->shardings), s->err)) {
		free((void *)name);
		return GT_ENOMEM;
	}
	p->shardings[p->sharding_count] = *sharding;
	p->shardings[p->sharding_count++].name = name;
	return 0;
}

/* Leave of a parameter this rank's part. */
static int split_parameter(struct pass *s, struct gt_value *v, int dim, struct cut cut)
{
	struct gt_sharding sharding = { .blocks = cut.blocks, .units = cut.units, .dim = dim };

	if (!v)
		return 0;
	if (v->role != GT_PARAMETER || is_cut(s, v))
		return gt_err_set(s->err, GT_ENOTSUP,
		    "tensor parallelism: '%s' is no parameter, or one that has two uses",
		    v->name ? v->name : "a temporary");
	if (cut.units < s->parts) {
		gt_err_set(s->err, GT_EINVAL, "'%s' divides into %lld shards at most, not into %d",
		    v->name, (long long)cut.units, s->parts);
		return gt_err_hint(s->err, "a smaller --tensor-parallel");
	}
	sharding.name = v->name;
	sharding.ndim = v->ndim;
	memcpy(sharding.shape, v->shape, sizeof(sharding.shape));
	v->shape[dim] = gt_sharding_length(&sharding, s->part, s->parts);
	s->cuts[v->id] = cut;
	return note_sharding(s, &sharding);
}

/* This rank's units of a cut: [first, first + count). */
static int64_t own_units(const struct pass *s, struct cut cut, int64_t *first)
{
	const struct gt_sharding units = { .units = cut.units };

	*first = gt_sharding_first(&units, s->part, s->parts);
	return gt_sharding_first(&units, s->part + 1, s->parts) - *first;
}

/* ---- nodes ---- */

/* Shapes follow from the inputs' and the attributes, which have changed. */
static int infer_again(struct pass *s, struct gt_node *n)
{
	int rc = n->op->infer(n, s->err);

	return rc ? gt_err_prefix(s->err, "%s: %s", n->scope, n->op->name) : 0;
}

/* The only reader of a value, or NULL. */
static struct gt_node *only_reader(const struct gt_graph *g, const struct gt_value *v)
{
	struct gt_node *found = NULL;
	int readers = 0;

	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == v) {
				found = g->nodes[i];
				readers++;
			}
	return readers == 1 ? found : NULL;
}

static bool is_layer(const struct gt_node *n)
{
	return n->op == &gt_op_matmul && n->in[1]->role == GT_PARAMETER && !n->attrs.matmul.trans_a;
}

/* How the columns of a product may be shared: as the next product allows, which takes them by rows;
 * no units where there is none. */
static struct cut cut_between(const struct gt_graph *g, const struct gt_node *n)
{
	struct cut cut = { 1, n->out[0]->shape[n->out[0]->ndim - 1] };
	const struct gt_node *next = only_reader(g, n->out[0]);

	while (next && (next->op == &gt_op_gelu || next->op == &gt_op_relu ||
	                   next->op == &gt_op_attention)) {
		if (next->op == &gt_op_attention)
			cut = (struct cut){ 3, next->attrs.attention.heads };
		next = only_reader(g, next->out[0]);
	}
	return next && is_layer(next) ? cut : (struct cut){ 0 };
}

/* Emit a fan_out of input 0 before node i. */
static void fan_out(struct pass *s, size_t i)
{
	struct gt_node *n = s->g->nodes[i];
	struct gt_value *x;

	gt_graph_scope(s->g, "%s", n->scope);
	x = gt_fan_out(s->g, n->in[0], GT_AXIS_TENSOR);
	if (!x)
		return;
	gt_place_last(s->g, i);
	n->in[0] = x;
}

/* Emit a fan_in of its output behind node i, and let those behind read that. */
static void fan_in(struct pass *s, size_t i, struct gt_value *bias)
{
	struct gt_node *n = s->g->nodes[i];
	struct gt_value *y;

	gt_graph_scope(s->g, "%s", n->scope);
	y = gt_fan_in(s->g, n->out[0], bias, GT_AXIS_TENSOR);
	if (!y)
		return;
	gt_place_last(s->g, i + 1);
	gt_replace_uses(s->g, i + 2, n->out[0], y);
}

/* The weight's dimension that the columns of y, or of x, are. */
static int out_dim(const struct gt_node *n)
{
	return n->attrs.matmul.trans_b ? 0 : n->in[1]->ndim - 1;
}

/* Each of these takes node *i and leaves *i at the last node that stands for it. */

static int split_rows(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];
	struct gt_value *bias = n->in[2];
	int rc = split_parameter(s, n->in[1], n->attrs.matmul.trans_b ? n->in[1]->ndim - 1 : 0,
	    (struct cut){ 1, s->cuts[n->in[0]->id].units });

	n->in[2] = NULL;
	if (!rc)
		rc = infer_again(s, n);
	if (!rc)
		fan_in(s, (*i)++, bias);
	return rc;
}

static int split_columns(struct pass *s, size_t *i, struct cut cut)
{
	struct gt_node *n = s->g->nodes[*i];
	int rc = split_parameter(s, n->in[1], out_dim(n), cut);

	if (!rc)
		rc = split_parameter(s, n->in[2], 0, cut);
	if (rc)
		return rc;
	fan_out(s, (*i)++);
	s->cuts[n->out[0]->id] = cut;
	return infer_again(s, n);
}

/* A product with an embedding's table: logits of a part of the vocabulary. */
static int split_head(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];

	if (out_dim(n) != 0 || n->in[2])
		return gt_err_set(s->err, GT_ENOTSUP,
		    "tensor parallelism: '%s' is an embedding, and no head without bias",
		    n->in[1]->name);
	fan_out(s, (*i)++);
	s->cuts[n->out[0]->id] = s->cuts[n->in[1]->id];
	return infer_again(s, n);
}

static int split_matmul(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];
	struct cut cut = { 0 };

	if (is_layer(n) && is_cut(s, n->in[0]))
		return split_rows(s, i);
	if (is_layer(n) && is_cut(s, n->in[1]))
		return split_head(s, i);
	if (is_layer(n))
		cut = cut_between(s->g, n);
	return cut.units ? split_columns(s, i, cut) : 0;
}

static int split_attention(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];
	int64_t first;

	if (!is_cut(s, n->in[0]))
		return 0;
	n->attrs.attention.all_heads = n->attrs.attention.heads;
	n->attrs.attention.heads = (int)own_units(s, s->cuts[n->in[0]->id], &first);
	n->attrs.attention.first_head = (int)first;
	s->cuts[n->out[0]->id] = (struct cut){ 1, n->attrs.attention.all_heads };
	return infer_again(s, n);
}

static int follow_input(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];

	s->cuts[n->out[0]->id] = s->cuts[n->in[0]->id];
	return infer_again(s, n);
}

static int split_embedding(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];
	struct cut cut = { 1, n->in[0]->shape[0] };
	int rc = split_parameter(s, n->in[0], 0, cut);

	if (rc)
		return rc;
	own_units(s, cut, &n->attrs.embedding.first);
	n->attrs.embedding.whole = cut.units;
	fan_in(s, (*i)++, NULL);
	return infer_again(s, n);
}

/* Put another value behind an output's name. */
static void rename_output(struct gt_graph *g, struct gt_value *from, struct gt_value *to)
{
	const char *name = from->name;

	from->role = GT_TEMPORARY;
	from->name = NULL;
	gt_output(g, to, name);
}

/* The node keeps to its classes; what it makes of them is the log-sum-exp. */
static struct gt_value *lse_behind(struct pass *s, struct gt_node *n, size_t *i)
{
	struct gt_value *lse;

	gt_graph_scope(s->g, "%s", n->scope);
	lse = gt_lse_over(s->g, n->out[1], GT_AXIS_TENSOR);
	if (lse)
		gt_place_last(s->g, ++*i);
	return lse;
}

static int split_cross_entropy(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i];
	struct gt_value *loss, *lse;
	int64_t first, whole = s->cuts[n->in[0]->id].units;

	if (!whole)
		return 0;
	own_units(s, s->cuts[n->in[0]->id], &first);
	n->attrs.loss.first = first;
	n->attrs.loss.whole = whole;
	if (infer_again(s, n))
		return s->err->code;
	lse = lse_behind(s, n, i);
	loss = gt_cross_entropy_over(
	    s->g, n->in[0], n->in[1], lse, n->in[2], first, whole, GT_AXIS_TENSOR);
	if (!loss)
		return 0;
	gt_place_last(s->g, ++*i);
	rename_output(s->g, n->out[0], loss);
	return 0;
}

/* The node goes; a cross_entropy takes its place for the log-sum-exp's sake. */
static int split_stats(struct pass *s, size_t *i)
{
	struct gt_node *n = s->g->nodes[*i], *part;
	struct gt_value *one, *lse, *stats;
	union gt_attrs attrs = { 0 };

	if (!is_cut(s, n->in[0]))
		return 0;
	attrs.loss.whole = s->cuts[n->in[0]->id].units;
	own_units(s, s->cuts[n->in[0]->id], &attrs.loss.first);
	gt_graph_scope(s->g, "%s", n->scope);
	one = gt_fill(s->g, GT_F32, 0, NULL, 1);
	if (!one)
		return 0;
	gt_place_last(s->g, *i);
	part = gt_emit(s->g, &gt_op_cross_entropy, &attrs, 3,
	    (struct gt_value *[]){ n->in[0], n->in[1], one });
	if (!part)
		return 0;
	gt_place_last(s->g, ++*i);
	lse = lse_behind(s, part, i);
	stats = gt_classify_stats_over(
	    s->g, n->in[0], n->in[1], lse, attrs.loss.first, attrs.loss.whole, GT_AXIS_TENSOR);
	if (!stats)
		return 0;
	gt_place_last(s->g, ++*i);
	rename_output(s->g, n->out[0], stats);
	gt_remove_node(s->g, *i + 1);
	return 0;
}

/* What all ranks compute alike. */
static int keep_whole(struct pass *s, size_t *i)
{
	const struct gt_node *n = s->g->nodes[*i];

	for (int k = 0; k < n->inputs; k++)
		if (is_cut(s, n->in[k]))
			return gt_err_set(s->err, GT_ENOTSUP,
			    "%s: tensor parallelism does not divide '%s'", n->scope, n->op->name);
	return 0;
}

static const struct {
	const struct gt_op *op;
	int (*rewrite)(struct pass *s, size_t *i);
} rules[] = {
	{ &gt_op_matmul, split_matmul },
	{ &gt_op_attention, split_attention },
	{ &gt_op_gelu, follow_input },
	{ &gt_op_relu, follow_input },
	{ &gt_op_embedding, split_embedding },
	{ &gt_op_cross_entropy, split_cross_entropy },
	{ &gt_op_classify_stats, split_stats },
	{ &gt_op_layer_norm, keep_whole },
	{ &gt_op_dropout, keep_whole },
	{ &gt_op_add, keep_whole },
	{ &gt_op_reshape, keep_whole },
	{ &gt_op_image_normalize, keep_whole },
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static int refuse(struct gt_err *err)
{
	return gt_err_hint(err, "models that are: mlp with a hidden layer, gpt, gpt2, gpt2-medium, "
	                        "gpt2-large, gpt2-xl");
}

static int rewrite_node(struct pass *s, size_t *i)
{
	const struct gt_node *n = s->g->nodes[*i];

	for (int k = 0; k < RULES; k++)
		if (rules[k].op == n->op)
			return rules[k].rewrite(s, i);
	gt_err_set(s->err, GT_ENOTSUP, "%s: '%s' is not divided by tensor parallelism", n->scope,
	    n->op->name);
	return refuse(s->err);
}

int gt_tensor_rewrite(struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	struct pass s = { .p = p,
		.g = g,
		.part = p->axes[GT_AXIS_TENSOR]->rank,
		.parts = p->axes[GT_AXIS_TENSOR]->size,
		.err = err };
	int rc = 0;

	s.cuts = gt_calloc(g->value_count + NEW_VALUES * g->node_count, sizeof(*s.cuts), err);
	if (!s.cuts)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < g->node_count; i++) {
		rc = rewrite_node(&s, &i);
		if (!rc)
			rc = gt_graph_status(g, err);
	}
	free(s.cuts);
	if (rc || p->sharding_count)
		return rc;
	gt_err_set(err, GT_ENOTSUP, "no layer of this model is divided by tensor parallelism");
	return refuse(err);
}
