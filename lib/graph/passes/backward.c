/* backward.c - the gradient pass: reverse-mode differentiation of a scalar by every parameter. */
#include <stdlib.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/* The state of the pass, indexed by ids of forward values: whether a value depends on a parameter,
 * and the sum of its gradients so far. */
struct state {
	bool *depends;
	struct gt_value **grads;
};

static bool applies_backward(const struct gt_pass_options *options)
{
	return options->loss != NULL;
}

void gt_find_dependents(const struct gt_graph *g, bool *depends)
{
	for (size_t i = 0; i < g->value_count; i++)
		depends[i] = g->values[i]->role == GT_PARAMETER;
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];
		bool any = n->op->remote;

		for (int k = 0; k < n->inputs; k++)
			any = any || (n->in[k] && depends[n->in[k]->id]);
		for (int k = 0; k < n->outputs; k++)
			if (n->out[k]) /* whole numbers, such as indices, have no gradient */
				depends[n->out[k]->id] =
				    any && !n->op->constant && gt_dtype_is_real(n->out[k]->dtype);
	}
}

/* Add d, the gradient of input k of n, to the gradient so far. A NULL d is an error: it means no
 * gradient, not a gradient of zero. */
static int gather_gradient(struct gt_graph *g, const struct gt_node *n, int k, struct gt_value *d,
    struct state *s, struct gt_err *err)
{
	struct gt_value **sum = &s->grads[n->in[k]->id], *joined = NULL;

	if (!d)
		return gt_err_set(err, GT_ENOTSUP, "%s: '%s' has no gradient by its input %d",
		    n->scope, n->op->name, k);
	if (gt_infer_same(n->in[k], d, "the gradient", err))
		return gt_err_prefix(err, "%s: '%s', input %d", n->scope, n->op->name, k);
	if (*sum)
		joined = gt_arrange_sum(g, *sum, d);
	*sum = joined ? joined : *sum ? gt_add(g, *sum, d) : d;
	return 0;
}

static int differentiate(struct gt_graph *g, struct gt_node *n, struct state *s, struct gt_err *err)
{
	struct gt_value *d_out[GT_MAX_OUTPUTS] = { NULL }, *d_in[GT_MAX_INPUTS] = { NULL };
	bool wanted[GT_MAX_INPUTS] = { false }, needed = false, any = n->op->remote;

	for (int k = 0; k < n->outputs; k++) {
		d_out[k] = n->out[k] ? s->grads[n->out[k]->id] : NULL;
		needed = needed || d_out[k];
	}
	for (int k = 0; k < n->inputs; k++) {
		wanted[k] = n->in[k] && s->depends[n->in[k]->id];
		any = any || wanted[k];
	}
	/* No gradient arrives at the outputs, or no input leads to a parameter: the node adds
	 * nothing. */
	if (!needed || !any)
		return 0;
	if (!n->op->grad)
		return gt_err_set(
		    err, GT_ENOTSUP, "%s: '%s' has no gradient", n->scope, n->op->name);
	g->scope = n->scope;
	n->op->grad(g, n, d_out, wanted, d_in);
	if (gt_graph_status(g, err))
		return g->err.code;
	for (int k = 0; k < n->inputs; k++)
		if (wanted[k] && gather_gradient(g, n, k, d_in[k], s, err))
			return err->code;
	return gt_graph_status(g, err);
}

/* A parameter's gradient is written where the store keeps it, so it must be a value of its own. */
static void name_gradient(struct gt_graph *g, struct gt_value *parameter, struct gt_value *grad)
{
	if (!grad)
		grad = gt_fill(g, parameter->dtype, parameter->ndim, parameter->shape, 0);
	else if (grad->role != GT_TEMPORARY || grad->producer->op->view)
		grad = gt_copy(g, grad);
	if (!grad)
		return;
	grad->role = GT_GRADIENT;
	grad->parameter = parameter;
}

/* Emit the gradient of the loss with respect to itself: 1, or the loss scale. */
static struct gt_value *first_gradient(struct gt_graph *g, const struct gt_pass_options *options)
{
	enum gt_dtype dtype = options->loss->dtype;

	return options->precision.scaled ? gt_input(g, "scale", dtype, 0, NULL)
	                                 : gt_fill(g, dtype, 0, NULL, 1);
}

static int run_backward(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	size_t nodes = g->node_count, values = g->value_count;
	struct state s = { 0 };
	int rc = GT_ENOMEM;

	if (options->loss->ndim != 0)
		return gt_err_set(err, GT_EINVAL, "the loss is not a scalar");
	s.depends = gt_calloc(values, sizeof(*s.depends), err);
	s.grads = gt_calloc(values, sizeof(*s.grads), err);
	if (!s.depends || !s.grads)
		goto out;
	gt_find_dependents(g, s.depends);
	s.grads[options->loss->id] = first_gradient(g, options);
	rc = gt_graph_status(g, err);
	/* The loop runs in reverse order, so all readers of a node come before it, and the
	 * gradients of its outputs are complete. Nodes emitted here come after `nodes` and are not
	 * differentiated. */
	for (size_t i = nodes; !rc && i-- > 0;)
		rc = differentiate(g, g->nodes[i], &s, err);
	for (size_t i = 0; !rc && i < values; i++)
		if (g->values[i]->role == GT_PARAMETER && !g->values[i]->on_other_ranks)
			name_gradient(g, g->values[i], s.grads[i]);
out:
	free(s.depends);
	free(s.grads);
	return rc;
}

const struct gt_pass gt_pass_backward = {
	.name = "backward",
	.purpose = "emit the gradient of the loss by every parameter",
	.applies = applies_backward,
	.run = run_backward,
};
