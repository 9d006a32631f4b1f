/* fuse.c - fewer trips through memory: an op does the work of the ops after it at once. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

static bool forward_only(const struct gt_pass_options *options)
{
	return !options->loss;
}

static bool backward_too(const struct gt_pass_options *options)
{
	return options->loss;
}

/* Make `maker` write the outputs of the node at `index`, and drop that node. */
static void take_over(struct gt_graph *g, struct gt_node *maker, size_t index)
{
	gt_make_output(maker, 0, g->nodes[index]->out[0]);
	gt_remove_node(g, index);
}

/* Move the norm to the place of `add`, and remove `add`. A node between the two may compute the
 * residual, so the norm cannot stay at its old place. */
static void take_residual(
    struct gt_graph *g, struct gt_node *norm, const struct gt_node *add, struct gt_value *residual)
{
	norm->in[6] = residual;
	g->nodes[gt_node_index(g, add)] = norm;
	gt_drop_node(g, norm);
}

/* If v is the sum of a batch_norm's result and a residual, let the batch_norm add the residual,
 * remove the sum, and return the batch_norm. Otherwise return NULL. Both addends of a sum have the
 * same type: if their types differ, a cast stands between batch_norm and the sum. */
static struct gt_node *norm_of_sum(struct gt_graph *g, const struct gt_value *v, const int *uses)
{
	const struct gt_node *add = gt_sole_maker(v, &gt_op_add, uses);

	for (int k = 0; add && k < 2; k++) {
		struct gt_node *norm = gt_sole_maker(add->in[k], &gt_op_batch_norm, uses);
		struct gt_value *residual = add->in[1 - k];

		if (!norm || norm->attrs.norm.relu || norm->in[6])
			continue;
		take_residual(g, norm, add, residual);
		return norm;
	}
	return NULL;
}

static int run_fuse_relu(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	int *uses = gt_count_uses(g, err);

	(void)options;
	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *relu = g->nodes[i];
		struct gt_node *norm;

		if (relu->op != &gt_op_relu)
			continue;
		norm = gt_sole_maker(relu->in[0], &gt_op_batch_norm, uses);
		if (!norm)
			norm = gt_sole_maker(relu->in[0], &gt_op_batch_norm_eval, uses);
		if (!norm)
			norm = norm_of_sum(g, relu->in[0], uses);
		if (!norm)
			continue;
		norm->attrs.norm.relu = true;
		i = gt_node_index(g, relu);
		take_over(g, norm, i--);
	}
	free(uses);
	return 0;
}

const struct gt_pass gt_pass_fuse_relu = {
	.name = "fuse-relu",
	.purpose = "let batch normalization add a residual and write max(0, .) at once",
	.run = run_fuse_relu,
};

/* Replace batch_norm_eval(conv2d(x, w)) by one conv2d with another weight and bias. */
static int fold_one(struct gt_graph *g, size_t index, const struct gt_node *conv)
{
	struct gt_node *norm = g->nodes[index];
	struct gt_value *in[] = { conv->in[1], norm->in[1], norm->in[2], norm->in[3], norm->in[4],
		conv->in[2] };
	struct gt_node *fold;

	g->scope = norm->scope;
	fold = gt_emit(g, &gt_op_batch_norm_fold, &norm->attrs, 6, in);
	if (!fold)
		return g->err.code;
	gt_place_last(g, index);
	norm->op = &gt_op_conv2d;
	norm->attrs = conv->attrs;
	norm->inputs = gt_op_conv2d.max_inputs;
	for (int k = 0; k < GT_MAX_INPUTS; k++)
		norm->in[k] = NULL;
	norm->in[0] = conv->in[0];
	norm->in[1] = fold->out[0];
	norm->in[2] = fold->out[1];
	return 0;
}

/* Fuse relu(conv2d(...)) and add(conv2d(...), r) into conv2d. */
static bool absorb(struct gt_graph *g, size_t index, const int *uses)
{
	struct gt_node *n = g->nodes[index], *conv;

	if (n->op == &gt_op_relu) {
		conv = gt_sole_maker(n->in[0], &gt_op_conv2d, uses);
		if (!conv)
			return false;
		conv->attrs.conv.relu = true;
		take_over(g, conv, index);
		return true;
	}
	for (int k = 0; n->op == &gt_op_add && k < 2; k++) {
		size_t at;

		conv = gt_sole_maker(n->in[k], &gt_op_conv2d, uses);
		if (!conv || conv->attrs.conv.relu || conv->in[3] || n->in[0] == n->in[1])
			continue;
		/* The convolution moves to the place of the sum, because nodes between the two may
		 * compute r. */
		conv->in[3] = n->in[1 - k];
		at = gt_node_index(g, conv);
		gt_make_output(conv, 0, n->out[0]);
		g->nodes[index] = conv;
		gt_remove_node(g, at);
		return true;
	}
	return false;
}

static int run_fold_batch_norm(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	int *uses = gt_count_uses(g, err);
	int rc = 0;

	(void)options;
	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < g->node_count; i++) {
		const struct gt_node *conv;

		if (g->nodes[i]->op != &gt_op_batch_norm_eval)
			continue;
		conv = gt_sole_maker(g->nodes[i]->in[0], &gt_op_conv2d, uses);
		if (conv && !conv->attrs.conv.relu && !conv->in[3])
			rc = fold_one(g, i, conv);
	}
	free(uses);
	if (rc)
		return gt_graph_status(g, err);
	rc = gt_pass_dead.run(g, options, err);
	if (rc)
		return rc;
	uses = gt_count_uses(g, err);
	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->node_count; i++)
		if (absorb(g, i, uses))
			i--;
	free(uses);
	return 0;
}

const struct gt_pass gt_pass_fold_batch_norm = {
	.name = "fold-batch-norm",
	.purpose = "let convolutions do the ops behind them: normalize, add, max(0, .)",
	.applies = forward_only,
	.run = run_fold_batch_norm,
};

/* Fuse add(x, embedding_grad(dy, ids)): the op adds some rows to x, so no table is filled with
 * zeros and added. */
static bool add_rows(struct gt_node *add, const int *uses)
{
	for (int k = 0; k < 2; k++) {
		const struct gt_node *rows = gt_sole_maker(add->in[k], &gt_op_embedding_grad, uses);

		if (!rows || rows->in[2])
			continue;
		add->op = &gt_op_embedding_grad;
		add->attrs = rows->attrs;
		add->in[2] = add->in[1 - k];
		add->in[0] = rows->in[0];
		add->in[1] = rows->in[1];
		add->inputs = gt_op_embedding_grad.max_inputs;
		return true;
	}
	return false;
}

/* Fuse add(x, layer_norm_grad(...)), if x is computed before layer_norm_grad. */
static bool add_norm(struct gt_graph *g, size_t index, const int *uses)
{
	const struct gt_node *add = g->nodes[index];

	for (int k = 0; k < 2; k++) {
		struct gt_node *norm = gt_sole_maker(add->in[k], &gt_op_layer_norm_grad, uses);
		struct gt_value *x = add->in[1 - k];

		if (!norm || norm->in[5] || x == add->in[k] ||
		    (x->producer && gt_node_index(g, x->producer) > gt_node_index(g, norm)))
			continue;
		norm->in[5] = x;
		take_over(g, norm, index);
		return true;
	}
	return false;
}

/* If dy of a batch_norm_grad is a sum that no other node reads, and the node has output 3
 * (dresidual), remove the sum: the node adds its two addends itself. */
static void add_for_norm(struct gt_graph *g, struct gt_node *norm, const int *uses)
{
	const struct gt_node *add = gt_sole_maker(norm->in[0], &gt_op_add, uses);

	if (!norm->out[3] || norm->in[6] || !add)
		return;
	norm->in[0] = add->in[0];
	norm->in[6] = add->in[1];
	gt_drop_node(g, add);
}

static int run_fuse_accumulate(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	int *uses = gt_count_uses(g, err);

	(void)options;
	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->node_count; i++)
		if (g->nodes[i]->op == &gt_op_add && !add_rows(g->nodes[i], uses) &&
		    add_norm(g, i, uses))
			i--;
	for (size_t i = g->node_count; i-- > 0;)
		if (g->nodes[i]->op == &gt_op_batch_norm_grad)
			add_for_norm(g, g->nodes[i], uses);
	free(uses);
	return 0;
}

const struct gt_pass gt_pass_fuse_accumulate = {
	.name = "fuse-accumulate",
	.purpose = "let gradients of embeddings and norms add the other gradients of a sum",
	.applies = backward_too,
	.run = run_fuse_accumulate,
};

static bool accumulates(const struct gt_pass_options *options)
{
	return options->loss && options->accumulate;
}

/* Turn each gradient into a temporary, which is added to the store's gradient. The host clears that
 * before a step. */
static int run_accumulate(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	size_t values = g->value_count;

	(void)options;
	for (size_t i = 0; i < values; i++) {
		struct gt_value *v = g->values[i], *sum;
		char name[160];

		if (v->role != GT_GRADIENT)
			continue;
		snprintf(name, sizeof(name), "%s.grad", v->parameter->name);
		sum = gt_buffer(g, name, v->dtype, v->ndim, v->shape, v->init);
		if (!sum)
			break;
		sum->role = GT_GRADIENT;
		sum->parameter = v->parameter;
		v->role = GT_TEMPORARY;
		v->parameter = NULL;
		g->scope = v->producer->scope;
		gt_accumulate(g, sum, v);
		if (g->err.code)
			break;
		gt_place_last(g, gt_node_index(g, v->producer) + 1);
	}
	return gt_graph_status(g, err);
}

const struct gt_pass gt_pass_accumulate = {
	.name = "accumulate",
	.purpose = "add gradients up over the micro-batches of a step",
	.applies = accumulates,
	.run = run_accumulate,
};
