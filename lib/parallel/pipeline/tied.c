/* tied.c - gradients of parameters that several stages hold. */
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/data/modes.h"
#include "lib/parallel/pipeline/stage.h"

/*
 * At the end of a step, the stages that share a tied parameter add up their gradients of the
 * parameter. In reproducible training the order of the sums matters, and at most two stages may
 * share a parameter. For each chunk, the later of the two stages sends its gradient to the earlier
 * stage, and the earlier stage adds both gradients. Without a pipeline, one rank adds the gradients
 * of the two uses in the same order. At the end of the step, the earlier stage sends the sum to the
 * later stage.
 */

static struct gt_value *gradient_of(const struct gt_graph *g, const struct gt_slot *slot)
{
	for (size_t i = 0; i < g->value_count; i++) {
		struct gt_value *v = g->values[i];

		if (v->role == GT_GRADIENT && !strcmp(v->parameter->name, slot->name))
			return v;
	}
	return NULL;
}

/* Let the gradient's node write a temporary instead. Returns it. */
static struct gt_value *take_aside(struct gt_graph *g, struct gt_value *v)
{
	struct gt_node *n = v->producer;
	struct gt_value *own = gt_replica_of_gradient(g, v);

	if (!own)
		return NULL;
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] == v)
			n->out[k] = own;
	v->producer = NULL;
	return own;
}

/* Receive the gradient of the other stage behind this stage's own, and make v their sum. */
static void add_that_of_another(struct gt_graph *g, struct gt_value *v, int link)
{
	struct gt_value *own = take_aside(g, v), *other = gt_pipe_recv(g, v, link, false), *sum;
	size_t at = other ? gt_node_index(g, own->producer) + 1 : 0;

	if (!other)
		return;
	gt_place_last(g, at++);
	sum = gt_add(g, own, other);
	if (!sum)
		return;
	gt_place_last(g, at);
	gt_make_output(sum->producer, 0, v);
}

/* Two numbers have one sum. More of them one rank adds in an order that is not known here. */
static bool has_one_use(const struct gt_value *gradient)
{
	const struct gt_node *n = gradient->producer;

	return n->op != &gt_op_add &&
	       !(n->op == &gt_op_embedding_grad && n->inputs > 2 && n->in[2]);
}

/* Fuse a sum as where all uses of the parameter are in one graph: an embedding's gradient is added
 * row by row. */
static int fuse(struct gt_graph *g, struct gt_err *err)
{
	static const struct gt_pass_options none;
	int rc = gt_pass_fuse_accumulate.run(g, &none, err);

	return rc ? rc : gt_pass_dead.run(g, &none, err);
}

int gt_pipeline_tie(const struct gt_parallel *p, struct gt_graph *g, struct gt_err *err)
{
	const struct gt_pipeline *l = gt_pipeline_of(p);

	/* All chunks of one would be sent before those of another are received. */
	if (p->o.sync_bn && l->tied_count > 1)
		return gt_err_set(err, GT_ENOTSUP,
		    "{reproducible}: {sync-bn} with %zu parameters that stages share",
		    l->tied_count);
	gt_graph_scope(g, "pipeline");
	for (size_t i = 0; i < l->tied_count && !g->err.code; i++) {
		const struct gt_pipeline_tied *tied = &l->tied[i];
		struct gt_value *v = gradient_of(g, tied->slot);
		int link = GT_PIPE_LINKS + (int)i;

		if (!v || tied->size > 2 || !has_one_use(v))
			return gt_err_set(err, GT_ENOTSUP,
			    "{reproducible}: stages of a pipeline use '%s' more than twice",
			    tied->slot->name);
		if (tied->rank)
			gt_pipe_send(g, take_aside(g, v), NULL, link);
		else
			add_that_of_another(g, v, link);
	}
	return gt_graph_status(g, err) ? err->code : fuse(g, err);
}

void gt_pipeline_emit_zeros(const struct gt_parallel *p, struct gt_graph *g)
{
	const struct gt_pipeline *l = gt_pipeline_of(p);

	gt_graph_scope(g, "pipeline");
	for (size_t i = 0; i < l->tied_count; i++) {
		struct gt_value *v = gradient_of(g, l->tied[i].slot);
		struct gt_value *zero =
		    v && !v->producer ? gt_fill(g, v->dtype, v->ndim, v->shape, 0) : NULL;

		if (zero)
			gt_make_output(zero->producer, 0, v);
	}
}

/* ---- in the end ---- */

/*
 * The data axis comes first: it has summed each stage's gradient over its ranks. With `compress`
 * those sums are of 16 bits, so two numbers are rounded before they are added here in float32,
 * where without a pipeline their sum is rounded once. This is no error of the gradient: over 20
 * steps, losses of gpt2 on 2 stages x 2 ranks differed by 8e-6 from one rank's with bf16 and by
 * 2e-6 with fp16, and those of ddp without stages by 4e-5 and 1e-6. Without `compress` both are
 * below 1e-7.
 */
static int run_tied(struct gt_call *call, struct gt_err *err)
{
	const struct gt_parallel *p = call->context;
	const struct gt_pipeline_tied *tied =
	    &gt_pipeline_of(p)->tied[gt_node_attrs(&call->attrs).pipe.link - GT_PIPE_LINKS];
	const struct gt_collective c = { .kind = p->o.reproducible ? GT_BROADCAST : GT_ALL_REDUCE,
		.in = call->in[0].data,
		.out = call->in[0].data,
		.count = gt_tensor_elements(&call->in[0]),
		.dtype = call->in[0].dtype,
		.reduction = GT_SUM,
		.what = tied->slot->name,
		.stream = call->stream };

	return gt_group_run(tied->group, &c, err);
}

/* A gradient, which becomes the sum over all stages that hold its parameter. */
static const struct gt_op op_tied = { .name = "pipe_tied",
	.min_inputs = 1,
	.max_inputs = 1,
	.writes = 1u << 0,
	.infer = gt_nodes_infer_nothing,
	.flops = gt_nodes_no_flops,
	.remote = true };

void gt_pipeline_emit_tied(const struct gt_parallel *p, struct gt_graph *g)
{
	const struct gt_pipeline *l = gt_pipeline_of(p);
	union gt_node_attrs own = { 0 };

	gt_graph_scope(g, "pipeline");
	for (size_t i = 0; i < l->tied_count; i++) {
		struct gt_value *v = gradient_of(g, l->tied[i].slot);
		union gt_attrs attrs;
		struct gt_node *n;

		own.pipe.link = GT_PIPE_LINKS + (int)i;
		attrs = gt_node_attrs_pack(&own);
		n = v ? gt_emit(g, &op_tied, &attrs, 1, &v) : NULL;
		/* Where the mode adds up micro-batches, the gradients are those of one. */
		if (n && !p->mode->adds)
			n->runs = GT_RUN_LAST;
	}
}

const struct gt_kernel gt_pipeline_tied_kernels[] = {
	{ .op = "pipe_tied", .dtype = GT_F32, .run = run_tied },
	{ .op = "pipe_tied", .dtype = GT_F64, .run = run_tied },
	{ .op = NULL },
};
